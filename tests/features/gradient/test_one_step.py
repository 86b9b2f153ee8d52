"""One step, then the output layer: smoothness, the bound of descent, Rademacher complexity."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.gradient import (
    FiniteLaw,
    ReluNetwork,
    descend_outputs,
    descent_bound,
    gap_bound,
    output_smoothness,
    rademacher_bound,
    risk,
)
from theorylab.features.gradient import (
    one_step as module,
)


@pytest.fixture(scope="module")
def problem():
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (8, 3))
    x = x / jnp.maximum(1.0, jnp.linalg.norm(x, axis=1, keepdims=True) / 2)
    network = ReluNetwork(
        jax.random.normal(keys[1], (4,)), jax.random.normal(keys[2], (4, 3)), 0.3 * jnp.ones(4)
    )
    return network, FiniteLaw(x, jnp.sign(x[:, 0] * x[:, 1]), jnp.full(8, 0.125))


def test_smoothness_is_the_largest_curvature_at_zero(problem):
    """ℓ'' is largest at 0; oracle: the Hessian by autodiff."""
    network, law = problem

    def loss(outputs):
        return risk(network._replace(outputs=outputs), law, "logistic")

    hessian = jax.hessian(loss)(jnp.zeros(4))
    found = output_smoothness(network.hidden(law.x))
    np.testing.assert_allclose(found.exact, np.linalg.eigvalsh(hessian)[-1], rtol=1e-12)
    np.testing.assert_allclose(found.bound, np.trace(hessian), rtol=1e-12)


def test_descent_is_below_its_bound_for_every_comparison(problem):
    """And one step is a step of gradient descent, by autodiff."""
    network, law = problem
    exact = output_smoothness(network.hidden(law.x)).exact
    run = descend_outputs(network, law, [0, 1, 5, 20], jnp.full(20, 1 / exact))
    others = jax.random.normal(jax.random.key(5), (30, 4))
    for other in others:
        gaps = run.records[1:] - risk(network._replace(outputs=other), law, "logistic")
        steps = jnp.array([1.0, 5.0, 20.0])
        bound = descent_bound(jnp.linalg.norm(network.outputs - other), exact, steps)
        assert np.all(gaps <= bound)
    step = jax.grad(lambda net: risk(net, law, "logistic"))(network).outputs
    once = network._replace(outputs=network.outputs - step / exact)
    np.testing.assert_allclose(run.records[1], risk(once, law, "logistic"), rtol=1e-12)
    np.testing.assert_allclose(descent_bound(2.0, 3.0, jnp.array([4.0])), [1.5])


def test_rademacher_complexity_is_below_its_bound(problem):
    """Oracle: E sup ⟨a, (1/n) Σ εh⟩ = B E‖(1/n) Σ εh‖ over all 2⁸ signs."""
    network, law = problem
    signs = np.array(list(itertools.product((-1, 1), repeat=8)))
    exact = 1.7 * np.linalg.norm(signs @ np.asarray(network.hidden(law.x)) / 8, axis=1).mean()
    largest = float(jnp.linalg.norm(law.x, axis=1).max())
    bound = float(rademacher_bound(network, 1.7, largest, 8))
    assert exact <= bound
    square = float((network.weights**2).sum()) * largest**2 + 4 * 0.09
    assert bound == pytest.approx(1.7 * math.sqrt(square / 8))
    reach = (1 + 1.7 * math.sqrt(square) / math.log(2)) * math.sqrt(math.log(20) / 16)
    assert float(gap_bound(network, 1.7, largest, 8)) == pytest.approx(
        2 * bound / math.log(2) + reach
    )


def test_bad_input_is_refused(problem):
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        rademacher_bound(problem[0], 1.0, 1.0, 0)
    with pytest.raises(ValueError, match=r"failure must be in \(0, 1\), got 1"):
        gap_bound(problem[0], 1.0, 1.0, 5, failure=1.0)


def test_smoothness_of_many_features_is_that_of_few(monkeypatch):
    """Oracle: the largest singular value of all features; many are told by their moment."""
    hidden = jax.random.normal(jax.random.key(9), (30, 6))
    expected = jnp.linalg.norm(hidden, 2) ** 2 / 30 / (4 * math.log(2))
    np.testing.assert_allclose(output_smoothness(hidden).exact, expected, rtol=1e-12)
    monkeypatch.setattr(module, "_TOGETHER", 100)
    np.testing.assert_allclose(output_smoothness(hidden).exact, expected, rtol=1e-12)
