import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import (
    binary_heads,
    four_heads,
    head_predictions,
    parity_margins,
    parity_prompts,
)
from theorylab.incontext.parity_heads import (
    all_pairs,
    differing_digits,
    noise_projection,
    parity_loss,
    parity_outputs,
    preferred_penalties,
    rare_limit,
    squared_norm,
    task_law,
)

GAMMA = 0.1


@pytest.mark.parametrize("digits", [2, 4, 6])
def test_margins_are_hamming_distances(digits):
    """Oracle: digits that differ, by strings."""
    pairs = all_pairs(2**digits)
    expected = [
        sum(a != b for a, b in zip(f"{i:010b}", f"{j:010b}", strict=True)) for i, j in pairs
    ]
    np.testing.assert_array_equal(differing_digits(pairs), expected)
    margins = parity_margins(binary_heads(digits, 2**digits, GAMMA), pairs, GAMMA)
    np.testing.assert_allclose(margins, np.tile(np.array(expected)[:, None], 4), atol=1e-12)


@pytest.mark.parametrize("dimension", [2, 5, 16])
def test_four_heads_solve_all_tasks_in_any_dimension(dimension):
    """Oracle: the closed form of margins, 2γ|c_i − c_j| where y = −1, 2γ(2K − |c_i + c_j|) else."""
    pairs = all_pairs(dimension)
    line = (np.arange(dimension) - (dimension - 1) / 2) / (2 * GAMMA)
    sums, gaps = np.abs(line[pairs].sum(axis=1)), np.abs(np.diff(line[pairs], axis=1))[:, 0]
    margins = parity_margins(four_heads(dimension, GAMMA), pairs, GAMMA)
    same = 2 * GAMMA * (sums.max() + 1 / (2 * GAMMA) - sums)
    for pattern, expected in enumerate((same, 2 * GAMMA * gaps, 2 * GAMMA * gaps, same)):
        np.testing.assert_allclose(margins[:, pattern], expected, atol=1e-10)
    assert margins.min() == pytest.approx(1.0)


def test_norms_and_losses_are_those_computed_apart():
    """Oracle: 62,000, 4,000 and 1,200 at d = 16, γ = 0.1, and the loss by its definition."""
    nets = [binary_heads(2, 16, GAMMA), binary_heads(4, 16, GAMMA), four_heads(16, GAMMA)]
    assert [float(squared_norm(net)) for net in nets] == pytest.approx(
        [1200, 4000, 62000], rel=0.01
    )
    pairs = all_pairs(16)
    law = task_law(pairs, 4, 0.25)
    frequent = (pairs < 4).all(axis=1)
    assert law.sum() == pytest.approx(1.0)
    assert law[frequent].sum() == pytest.approx(0.75)
    losses = [float(parity_loss(net, pairs, law, GAMMA)) for net in nets]
    missed = (pairs[:, 0] % 4 == pairs[:, 1] % 4)[~frequent].mean()
    assert losses == pytest.approx([0.25 * missed, 0.0, 0.0], abs=1e-9)
    weighted = parity_loss(binary_heads(2, 16, 0.05), pairs, law, GAMMA)
    assert weighted == pytest.approx(0.25 * missed)  # margins are larger there, never below 1


def test_prompts_see_the_same_heads_in_any_basis():
    """Oracle: full matrices W = GVGᵀ on x = Gφ, of the general heads."""
    heads, tasks = binary_heads(2, 4, GAMMA), jnp.array([[0, 1], [2, 3]])
    prompts = parity_prompts(jax.random.key(0), tasks, 5, 4, GAMMA)
    basis = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0])
    turned = prompts._replace(x=prompts.x @ basis.T, query=prompts.query @ basis.T)
    matrices = jnp.stack([basis @ jnp.diag(row) @ basis.T for row in heads.diagonals])
    general = head_predictions(heads.outputs, matrices, turned)
    np.testing.assert_allclose(parity_outputs(heads, prompts), general, atol=1e-12)
    flipped = prompts._replace(y=-prompts.y)
    np.testing.assert_allclose(parity_outputs(heads, flipped), general, atol=1e-12)


def test_noise_is_seen_in_as_many_directions_as_there_are_digits_and_one():
    projection = noise_projection(binary_heads(3, 16, GAMMA))
    np.testing.assert_allclose(projection @ projection, projection, atol=1e-12)
    np.testing.assert_allclose(projection, projection.T, atol=1e-12)
    assert jnp.trace(projection) == pytest.approx(4.0)


def test_the_interval_of_the_first_network():
    """Oracle: losses + λ norms just inside and outside of the interval."""
    losses, norms = [0.2, 0.0, 1.0], [3.0, 7.0, 0.0]
    low, high = preferred_penalties(losses, norms)
    assert (low, high) == pytest.approx((0.05, 0.8 / 3))
    for scale, best in ((0.99 * low, 1), (1.01 * low, 0), (0.99 * high, 0), (1.01 * high, 2)):
        assert np.argmin(np.array(losses) + scale * np.array(norms)) == best
    assert rare_limit(16, GAMMA) == pytest.approx(0.15 / (120 * 0.35 + 0.15))


def test_bad_heads_are_refused():
    with pytest.raises(ValueError, match="num_digits must be between 1 and 30, got 0"):
        binary_heads(0, 4, GAMMA)
    with pytest.raises(ValueError, match="bias must be between 0 and 1/4"):
        four_heads(4, 0.3)
