import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import ListTransformer, audit, list_labels, random_lists
from theorylab.incontext.decision_lists import all_sets, list_positions
from theorylab.incontext.list_theorems import (
    attention_scale,
    attention_steps,
    joint_scale,
    joint_steps,
)
from theorylab.incontext.list_transformer import Sets, aligned_values, list_gradient, set_gradients

L, N, M = 6, 3, 3
CHECK = jax.jit(audit)


def test_constants_are_those_computed_by_hand():
    """Oracle: numbers computed by hand: c = 1,290, 2,329, 19,680; bounds of 2.9·10⁵ steps."""
    assert attention_scale(4, 8, 4 / 70) == pytest.approx(2329, rel=1e-3)
    assert attention_scale(3, 12, 1 / 220) == pytest.approx(19680, rel=1e-3)
    assert attention_steps(2, 8.2e3, 6) == pytest.approx(2.9e5, rel=0.02)
    assert joint_scale(3, 8, 3, 1 / 56, 0.1, np.log(8)) == pytest.approx(2.3e5, rel=0.01)
    assert joint_steps(4.0, 0.5, 2.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="epsilon must be in"):
        joint_scale(3, 8, 3, 1 / 56, 100.0, 1.0)
    with pytest.raises(ValueError, match="delta must be a probability above 0, got 0"):
        attention_scale(3, 6, 0.0)


@pytest.fixture(scope="module")
def case():
    """After a step that is too small to classify everything."""
    lists = random_lists(jax.random.key(0), L, M)
    tokens = jnp.asarray(all_sets(L, N))
    sets = Sets(tokens, list_labels(lists, tokens))
    attention = 0.01 * jnp.asarray(np.random.default_rng(0).normal(size=(L, L)))
    return ListTransformer(attention, aligned_values(lists.permutation, 500.0)), sets, lists


def test_the_audit_is_the_proof_token_by_token(case):
    """Oracle: the definitions of k*, S and v in loops over tokens and sets."""
    params, sets, lists = case
    found = CHECK(params, sets, lists, 500.0)
    scores, tokens = np.asarray(params.attention), np.asarray(sets.tokens)
    slope, where = np.asarray(set_gradients(params, sets)[0]), np.asarray(list_positions(lists))
    inside, outside, chances, inner, most = [], [], [], [], []
    for a in range(L):
        wrong, right = [], []
        for row in range(len(tokens)):
            chosen = tokens[row].tolist()
            if a not in chosen:
                continue
            weights = np.exp(scores[chosen, a])
            weights /= weights.sum()
            decided = min(chosen, key=lambda b: where[a, b])
            # With V = cP, the label of the token with the largest attention wins.
            missed = chosen[int(weights.argmax())] != decided
            (wrong if missed else right).append(
                (row, where[a, decided], weights[chosen.index(decided)])
            )
        if not wrong:
            continue
        star = min(place for _, place, _ in wrong)
        product = {
            row: sum(
                slope[row, place, tokens[row].tolist().index(a)]
                for place, b in enumerate(tokens[row])
                if where[a, b] <= star
            )
            for row, _, _ in wrong + right
        }
        chosen_s = {row: p for row, place, p in wrong if place == star}
        inside += [-500 / (2 * N) * p * (1 - p) - product[row] for row, p in chosen_s.items()]
        outside += [-value for row, value in product.items() if row not in chosen_s]
        chances += [len(chosen_s) / len(tokens)]
        inner += [sum(product.values()) / len(tokens)]
        most += list(chosen_s.values())
    assert not found.perfect
    np.testing.assert_allclose(found.inside * 500, min(inside), rtol=1e-9)
    np.testing.assert_allclose(found.outside * 500, min(outside), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.chance, min(chances), rtol=1e-12)
    np.testing.assert_allclose(found.inner, max(inner), rtol=1e-9)
    np.testing.assert_allclose(found.most, max(most), rtol=1e-12)
    gradient = (np.asarray(list_gradient(params, sets).attention) ** 2).sum()
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-12)


def test_where_all_is_classified_there_is_nothing_to_check(case):
    params, sets, lists = case
    solved = CHECK(params._replace(attention=-3.0 * list_positions(lists).T), sets, lists, 500.0)
    assert solved.perfect
    assert (solved.chance, solved.rare, solved.most, solved.inside) == (1, 0, 0, 1)
