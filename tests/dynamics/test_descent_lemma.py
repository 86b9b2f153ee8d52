import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import descent_slack, guaranteed_decrease, stability_threshold

FEATURES = jax.random.normal(jax.random.key(0), (30, 4))
LABELS = jnp.sign(FEATURES @ jnp.array([1.0, -1.0, 0.5, 0.0]))


def logistic(w):
    return jnp.sum(jnp.logaddexp(0.0, -LABELS * (FEATURES @ w)))


def quadratic(w):
    return jnp.sum((FEATURES @ w - LABELS) ** 2) / 2


SMOOTHNESS = {logistic: 0.25, quadratic: 1.0}  # in units of λ_max(XᵀX)


@pytest.mark.parametrize("objective", [logistic, quadratic])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.9])
def test_descent_is_never_worse_than_guaranteed(objective, ratio):
    """Oracle: the lemma with the known smoothness, at every one of 50 steps; rounding."""
    smoothness = SMOOTHNESS[objective] * np.linalg.eigvalsh(FEATURES.T @ FEATURES)[-1]
    learning_rate, w = ratio / smoothness, jnp.ones(4)
    gradient = jax.jit(jax.grad(objective))
    slack = jax.jit(lambda w: descent_slack(objective, w, learning_rate, smoothness))
    for _ in range(50):
        assert slack(w) >= -1e-12 * objective(w)
        after = w - learning_rate * gradient(w)
        assert objective(after) <= objective(w) * (1 + 1e-14)
        w = after


def test_the_guarantee_is_attained_along_the_steepest_direction():
    """Oracle: f = Lw²/2 has exactly the guaranteed decrease; beyond 2/L it rises."""
    smoothness, w = 3.0, jnp.array([2.0])

    def objective(w):
        return smoothness * w @ w / 2

    for learning_rate in (0.1, 1 / 3, 0.8):
        slack = descent_slack(objective, w, learning_rate, smoothness)
        np.testing.assert_allclose(slack, 0.0, atol=1e-13)
        decrease = guaranteed_decrease(36.0, learning_rate, smoothness)
        np.testing.assert_allclose(
            decrease, objective(w) - objective(w - learning_rate * 3 * w), atol=1e-12
        )
        assert (decrease > 0) == (smoothness < stability_threshold(learning_rate))


def test_too_small_a_smoothness_is_found_out():
    """Negative: with L too small the guarantee is false, and the slack negative."""
    assert descent_slack(lambda w: w @ w, jnp.array([1.0]), 0.4, smoothness=1.0) < 0
