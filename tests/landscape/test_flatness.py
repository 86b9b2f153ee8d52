"""How much noise the weights take, against quadratic losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.landscape import flatness, noisy_losses
from theorylab.landscape.flatness import relative_deviations
from theorylab.training import squared

SCALES = jnp.array([1.0, 2.0, 0.5, 1.5, 1.0, 0.7])
X, Y = jnp.diag(SCALES), jnp.zeros((6, 1))


def quadratic(w, x):
    """A network x w: with half the sum of squares H = diag(scales²)."""
    return x @ w


def test_the_interval_holds_the_noise_of_the_closed_form():
    """Oracle: σ² tr(H)/2 · ‖w‖²/p = 0.1; covered in 95 % of 600 draws, to three standard errors."""
    w = jnp.array([[1.0], [2.0], [-1.0], [0.5], [3.0], [1.0]])
    curvature = float(jnp.sum(SCALES**2)) * float(jnp.mean(w**2)) / 2
    expected = np.sqrt(0.1 / curvature)
    draw = lambda seed: flatness(quadratic, squared("half_sum"), w, X, Y, jax.random.key(seed))  # noqa: E731
    found = [draw(seed) for seed in range(600)]
    held = np.mean([bool(each.low <= expected <= each.high) for each in found])
    assert 0.923 <= held <= 0.977
    np.testing.assert_allclose(np.median([float(each.noise) for each in found]), expected, rtol=0.1)


def test_noise_is_relative_to_the_weights():
    """Oracle: invariance. The layers a·W₁, W₂/a of a linear network are as flat for every a."""
    apply = lambda w, x: x @ w[0] @ w[1]  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 3)
    w = [jax.random.normal(keys[0], (3, 4)), jax.random.normal(keys[1], (4, 1))]
    x = jax.random.normal(keys[2], (10, 3))
    y = apply(w, x)
    one = flatness(apply, squared("mean"), w, x, y, jax.random.key(1))
    other = flatness(apply, squared("mean"), [5 * w[0], w[1] / 5], x, y, jax.random.key(1))
    np.testing.assert_allclose(one.noise, other.noise, rtol=1e-8)


def test_pairs_leave_the_gradient_out():
    """Oracle: symmetry. The mean over ±ε of a linear function is its value."""
    linear = lambda w, x: x @ w  # noqa: E731
    above = 100 + jnp.zeros((6, 1))  # (f − 100)² is nearly linear in f
    losses, _ = noisy_losses(
        linear,
        squared("mean"),
        jnp.ones((6, 1)),
        0.01,
        jax.random.split(jax.random.key(0), 3),
        X,
        above,
    )
    assert np.ptp(losses.mean(axis=1)) < 1e-2 * np.ptp(losses)


def test_a_flat_loss_takes_any_noise_and_zero_weights_get_none():
    """Oracle: limits."""
    flat = flatness(
        lambda w, x: 0 * (x @ w), squared("mean"), jnp.ones((6, 1)), X, Y, jax.random.key(0)
    )
    assert float(flat.noise) == np.inf
    steep = flatness(quadratic, squared("sum"), 1e6 * jnp.ones((6, 1)), X, Y, jax.random.key(0))
    assert np.isnan(float(steep.noise))
    assert float(relative_deviations(jnp.zeros(3))) == 0


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="rise must be positive"):
        flatness(quadratic, squared("mean"), jnp.ones((6, 1)), X, Y, jax.random.key(0), rise=0.0)
