import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import ListTransformer, list_descent, list_labels, random_lists
from theorylab.incontext.decision_lists import all_sets, list_positions
from theorylab.incontext.list_theorems import initial_loss
from theorylab.incontext.list_transformer import (
    Sets,
    aligned_values,
    attention_sharpness,
    descend_at_sharpness,
    is_perfect,
    list_gradient,
    list_logits,
    list_loss,
    list_margins,
    list_sharpness,
    set_gradients,
)

L, N, M = 5, 3, 2


@pytest.fixture(scope="module")
def lists():
    return random_lists(jax.random.key(3), L, M)


@pytest.fixture(scope="module")
def sets(lists):
    tokens = jnp.asarray(all_sets(L, N))
    return Sets(tokens, list_labels(lists, tokens))


@pytest.fixture(scope="module")
def params():
    return ListTransformer(*jnp.asarray(np.random.default_rng(0).normal(size=(2, L, L))))


def test_logits_are_those_of_one_hot_matrices(params, sets):
    """Oracle: f before its last softmax, VX σ(XᵀWX), with X written out."""
    for tokens, logits in zip(sets.tokens, list_logits(params, sets.tokens), strict=True):
        x = np.eye(L)[:, np.asarray(tokens)]
        scores = np.exp(x.T @ np.asarray(params.attention) @ x)
        expected = np.asarray(params.values) @ x @ (scores / scores.sum(axis=0, keepdims=True))
        np.testing.assert_allclose(logits, expected, rtol=1e-12, atol=1e-14)


def test_gradients_and_sharpness_are_those_of_autodiff(params, sets):
    """Oracle: jax.grad and the dense jax.hessian of the loss, in W and V and in W alone."""
    expected = jax.grad(list_loss)(params, sets)
    for closed, automatic in zip(list_gradient(params, sets), expected, strict=True):
        np.testing.assert_allclose(closed, automatic, atol=1e-12)
    flat, restore = jax.flatten_util.ravel_pytree(params)
    hessian = jax.jit(jax.hessian(lambda entries: list_loss(restore(entries), sets)))(flat)
    both = np.linalg.eigvalsh(hessian)[-1]
    alone = np.linalg.eigvalsh(hessian[: L * L, : L * L])[-1]
    np.testing.assert_allclose(list_sharpness(params, sets), both, rtol=1e-10)
    np.testing.assert_allclose(attention_sharpness(params, sets), alone, rtol=1e-10)


def test_gradients_of_sets_add_up(params, sets):
    by_attention, _ = set_gradients(params, sets)
    token = 2
    rows, column = np.nonzero(np.asarray(sets.tokens) == token)
    total = np.zeros(L)
    for row, query in zip(rows, column, strict=True):
        total[np.asarray(sets.tokens[row])] += by_attention[row, :, query]
    closed = list_gradient(params, sets).attention[:, token]
    np.testing.assert_allclose(total / len(sets.tokens), closed, atol=1e-14)


def test_the_first_loss_and_its_ties(lists, sets):
    """Oracle: log(n + (L − n)e^{−c/n}); at W = 0 all tokens of a set tie, which is an error."""
    start = ListTransformer(jnp.zeros((L, L)), aligned_values(lists.permutation, 2.0))
    np.testing.assert_allclose(list_loss(start, sets), initial_loss(N, L, 2.0), rtol=1e-12)
    np.testing.assert_array_equal(list_margins(start, sets), 0.0)
    assert not is_perfect(start, sets)


def test_scores_in_the_order_of_the_list_classify_everything(lists, sets):
    """Oracle: the source's sufficient condition, w_{a₁} > … > w_{a_m} > all others."""
    ordered = ListTransformer(
        -3.0 * list_positions(lists).T, aligned_values(lists.permutation, 1.0)
    )
    assert is_perfect(ordered, sets)
    swapped = ordered._replace(attention=-ordered.attention)
    assert not is_perfect(swapped, sets)


def test_descent_at_the_sharpness_it_meets(params, sets):
    """Oracle: λ_max is no less than what its own way meets, and V stays where it is not trained."""
    run = jax.jit(
        lambda params: descend_at_sharpness(params, sets, attention_sharpness, (True, False), 3)
    )(params)
    assert run.met[0] == pytest.approx(float(attention_sharpness(params, sets)), rel=1e-10)
    assert run.sharpness >= 0.999 * run.met.max()
    step = params.attention - list_gradient(params, sets).attention / run.sharpness
    np.testing.assert_allclose(run.path.attention[1], step, rtol=1e-12)
    np.testing.assert_array_equal(run.path.values[3], params.values)


def test_descent_takes_its_steps(params, sets):
    path = list_descent(params, sets, (0.1, 0.0), 2)
    first = params.attention - 0.1 * list_gradient(params, sets).attention
    np.testing.assert_allclose(path.attention[1], first, rtol=1e-12)
    np.testing.assert_array_equal(path.values[2], params.values)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        list_descent(params, sets, (0.1, 0.1), 0)
