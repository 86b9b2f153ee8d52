"""Rows of the learning rate against dense matrices, and phases that were planted."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.checkup import examine, subject_of
from theorylab.checkup.given import OPTIMIZERS
from theorylab.checkup.measure import Reading, row_of
from theorylab.checkup.rows import MEASURES
from theorylab.dynamics import critical_learning_rate
from theorylab.dynamics.stability import KNOWN
from theorylab.models import mlp, network
from theorylab.training import squared

MODEL = network(mlp((6,)), input_shape=(3,))
CLASSES = network(mlp((6,), 3), input_shape=(3,))
X = jax.random.normal(jax.random.key(1), (24, 3))
Y = jnp.sin(X[:, :1])
LABELS = np.arange(24) % 3


def read(name: str, apply=MODEL.apply, params=None, y: Any = Y, **known: Any) -> Reading:
    params = MODEL.init(jax.random.key(0)) if params is None else params
    given: dict[str, Any] = {"loss": "mse", **known}
    row = row_of(MEASURES[name], subject_of(apply, params, X, y, jax.random.key(2), **given))
    assert row.reading is not None, row.reason
    return row.reading


def dense_hessian(params, objective):
    flat, unravel = ravel_pytree(params)
    return np.asarray(jax.hessian(lambda w: objective(unravel(w)))(flat))


@jax.jit
def _top(params):
    """λ_max of the dense Hessian of the mean squared error."""
    flat, unravel = ravel_pytree(params)
    dense = jax.hessian(lambda w: ((MODEL.apply(unravel(w), X) - Y) ** 2).mean())(flat)
    return jnp.linalg.eigvalsh(dense)[-1]


def top_of(params) -> float:
    return float(_top(params))


def test_planted_learning_rates_are_named_rightly():
    """Oracle: λ_max of the dense Hessian, 5 % to either side of the edge and beyond."""
    planted = {0.95: "stable", 1.05: "catapult", 1.5: "catapult"}
    right = dict.fromkeys(planted, 0)
    for seed in range(20):
        params = MODEL.init(jax.random.key(seed))
        top = top_of(params)
        for ratio, phase in planted.items():
            found = read("stability", params=params, learning_rate=2 * ratio / top)
            right[ratio] += found.details["phase"] == phase
    assert min(right.values()) >= 19


def test_the_edge_and_divergence_are_named():
    """Oracle: λ_max of the dense Hessian, at the edge and beyond twice of it."""
    params = MODEL.init(jax.random.key(0))
    for ratio, phase in {1.0: "edge", 2.2: "divergent"}.items():
        found = read("stability", params=params, learning_rate=2 * ratio / top_of(params))
        assert found.details["phase"] == phase


@pytest.mark.parametrize("optimizer", ["momentum", "nesterov"])
def test_stability_is_that_of_the_optimiser(optimizer):
    """Oracle: λ_max over 2(1 + β)/η, and over 2(1 + β)/((1 + 2β)η)."""
    params = MODEL.init(jax.random.key(0))
    found = read("stability", params=params, learning_rate=0.1, optimizer=optimizer, momentum=0.8)
    edge = 2 * 1.8 / 0.1 / (2.6 if optimizer == "nesterov" else 1.0)
    np.testing.assert_allclose(found.value, top_of(params) / edge, rtol=1e-6)
    assert found.details["phase"] == "stable"


def test_adam_is_judged_by_its_preconditioned_sharpness():
    """Oracle: the dense P^(−½) H P^(−½), with P = √v̂ + ε of the optimiser's own moments."""
    params = MODEL.init(jax.random.key(0))
    mse = lambda w: ((MODEL.apply(w, X) - Y) ** 2).mean()  # noqa: E731
    adam = optax.adam(0.01)
    state: Any = adam.init(params)
    for _ in range(3):
        _, state = adam.update(jax.grad(mse)(params), state, params)
    moments = ravel_pytree(state[0].nu)[0] / (1 - 0.999**3)
    scale = 1 / np.sqrt(np.sqrt(np.asarray(moments)) + 1e-8)
    dense = scale[:, None] * dense_hessian(params, mse) * scale[None]
    top = float(np.linalg.eigvalsh(dense)[-1])
    known = {"optimizer": "adam", "optimizer_state": state, "learning_rate": 0.01}
    found = read("preconditioned_sharpness", params=params, **known)
    assert found.low * (1 - 1e-6) <= top <= found.high * (1 + 1e-6)
    np.testing.assert_allclose(found.value, top, rtol=0.01)
    stability = read("stability", params=params, **known)
    np.testing.assert_allclose(stability.value, top / 3800, rtol=0.01)


def test_adam_without_its_state_is_skipped():
    params = MODEL.init(jax.random.key(0))
    card = examine(
        MODEL.apply, params, X, Y, loss="mse", learning_rate=0.1, optimizer="adam", only="stability"
    )
    assert card["stability"].status == "skipped"
    assert "pass optimizer_state=" in card["stability"].reason


def test_an_unknown_optimiser_is_refused_and_every_other_has_a_threshold():
    params, more = MODEL.init(jax.random.key(0)), {"learning_rate": 0.1, "only": "stability"}
    with pytest.raises(ValueError, match=r"optimizer must be one of sgd, .*, got 'lion'"):
        examine(MODEL.apply, params, X, Y, loss="mse", optimizer="lion", **more)
    assert set(OPTIMIZERS) <= set(KNOWN)


def test_the_critical_rate_of_the_squared_loss_is_that_of_the_kernel():
    """Oracle: 2/(c λ_max(K)) of the tangent kernel, formed as a matrix."""
    params = MODEL.init(jax.random.key(0))
    kernel = critical_learning_rate(MODEL.apply, params, (X, Y), squared("mean_entries"))
    found = read("critical_rate", params=params)
    assert found.low <= float(kernel) <= found.high * (1 + 1e-6)
    np.testing.assert_allclose(found.value, float(kernel), rtol=0.01)


def dense_gauss_newton(params, x, labels) -> np.ndarray:
    """Mean over samples of Jᵀ (diag p − ppᵀ) J."""
    flat, unravel = ravel_pytree(params)
    outputs = CLASSES.apply(params, x)
    jacobian = np.asarray(jax.jacobian(lambda w: CLASSES.apply(unravel(w), x))(flat))
    total = np.zeros((flat.size, flat.size))
    for row, f in zip(jacobian, np.asarray(outputs), strict=True):
        p = np.exp(f - f.max())
        p /= p.sum()
        total += row.T @ (np.diag(p) - np.outer(p, p)) @ row
    return total / len(x)


def test_the_critical_rate_of_cross_entropy_is_that_of_gauss_newton():
    """Oracle: the dense Gauss–Newton matrix by its formula."""
    params = CLASSES.init(jax.random.key(0))
    top = np.linalg.eigvalsh(dense_gauss_newton(params, X, LABELS))[-1]
    found = read("critical_rate", CLASSES.apply, params, LABELS, loss="cross_entropy")
    assert found.low <= 2 / top * (1 + 1e-6)
    assert 2 / top <= found.high * (1 + 1e-6)


def test_batches_of_all_inputs_have_the_rate_of_the_whole():
    """Limit: a batch size of n."""
    params = CLASSES.init(jax.random.key(0))
    top = np.linalg.eigvalsh(dense_gauss_newton(params, X, LABELS))[-1]
    known = {"loss": "cross_entropy", "batch_size": 24}
    found = read("batch_critical_rate", CLASSES.apply, params, LABELS, **known)
    np.testing.assert_allclose([found.low, found.value, found.high], 2 / top, rtol=0.01)


def test_a_heavy_sample_makes_its_batches_supercritical():
    """Oracle: a line with curvature 2x²: single samples have the rates 1/x²."""
    x = jnp.concatenate([jnp.ones((6, 1)), 2 * jnp.ones((6, 1))])
    subject = subject_of(
        lambda w, x: w * x,
        jnp.array(1.0),
        x,
        x,
        jax.random.key(0),
        loss="mse",
        batch_size=1,
        learning_rate=0.5,
    )
    row = row_of(MEASURES["batch_critical_rate"], subject)
    assert row.reading is not None, row.reason
    rates = row.reading.curves["critical learning rates of batches"]
    assert set(rates.round(6)) == {0.25, 1.0}
    share = row.reading.details["share of batches above"]
    assert share == (rates < 0.5).mean()
    low, high = (float(row.reading.details[f"share, {end}"]) for end in ("low", "high"))
    assert low <= 0.5 <= high


def test_the_noise_scale_is_that_of_the_library():
    """Oracle: dense gradients, one by one."""
    params = MODEL.init(jax.random.key(0))

    def one(x, y):
        gradient = jax.grad(lambda w: ((MODEL.apply(w, x[None]) - y[None]) ** 2).mean())(params)
        return ravel_pytree(gradient)[0]

    gradients = np.asarray(jax.vmap(one)(X, Y))
    variance = gradients.var(axis=0, ddof=1).sum()
    signal = (gradients.mean(axis=0) ** 2).sum() - variance / 24
    found = read("gradient_noise", params=params)
    np.testing.assert_allclose(found.value, variance / signal, rtol=1e-9)
    assert found.low < found.value < found.high


def test_a_second_card_compiles_nothing():
    """Oracle: the compiler's own count of programs."""
    from theorylab.checkup import programs

    known = {"loss": "mse", "batch_size": 4, "learning_rate": 0.1}
    names = ["sharpness", "critical_rate", "batch_critical_rate"]
    programs_of = ("hessian_product", "gauss_newton_product", "batch_curvatures")
    compiled: list[Any] = [getattr(programs, name) for name in programs_of]
    counts = []
    for seed in range(2):
        params = MODEL.init(jax.random.key(seed))
        examine(MODEL.apply, params, X, Y, key=jax.random.key(seed), only=names, **known)
        counts.append([program._cache_size() for program in compiled])
    assert counts[0] == counts[1]
