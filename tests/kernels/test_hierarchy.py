"""The tangent hierarchy against dense derivatives, closed forms and numerical integration."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.kernels import ntk
from theorylab.kernels.hierarchy import corrected_kernel, tangent_hierarchy, truncated_flow
from theorylab.models import mlp, network
from theorylab.training import Solver, flow, gradient_flow

MODEL = network(mlp([3], activation="tanh"), (2,))
PARAMS = MODEL.init(jax.random.key(0))
X = jax.random.normal(jax.random.key(1), (3, 2))
Y = jnp.array([1.0, -1.0, 0.5])


def square(params, x):
    """The network f = w² x: at x = 1 its flow is a logistic curve."""
    return params**2 * x


def test_orders_are_those_of_dense_derivatives():
    """Oracle: the product rule by hand, with dense derivative tensors of a network of 9 weights."""
    flat, unravel = ravel_pytree(PARAMS)

    def outputs(w):
        return MODEL.apply(unravel(w), X)[:, 0]

    g = jax.jacfwd(outputs)(flat)
    h = jax.jacfwd(jax.jacfwd(outputs))(flat)
    t = jax.jacfwd(jax.jacfwd(jax.jacfwd(outputs)))(flat)
    third = jnp.einsum("auv,bu,cv->abc", h, g, g) + jnp.einsum("buv,au,cv->abc", h, g, g)
    fourth = (
        jnp.einsum("auvw,bu,cv,dw->abcd", t, g, g, g)
        + jnp.einsum("buvw,au,cv,dw->abcd", t, g, g, g)
        + jnp.einsum("auv,buw,cv,dw->abcd", h, h, g, g)
        + jnp.einsum("buv,auw,cv,dw->abcd", h, h, g, g)
        + jnp.einsum("auv,bu,cvw,dw->abcd", h, g, h, g)
        + jnp.einsum("buv,au,cvw,dw->abcd", h, g, h, g)
    )
    found = tangent_hierarchy(MODEL.apply, PARAMS, X)
    for measured, expected in zip(found, (outputs(flat), g @ g.T, third, fourth), strict=True):
        np.testing.assert_allclose(measured, expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found[1], ntk(MODEL.apply, PARAMS, X), rtol=1e-12)


def test_training_inputs_may_be_fewer_than_inputs():
    """Oracle: the entries of the whole hierarchy."""
    whole = tangent_hierarchy(MODEL.apply, PARAMS, X)
    found = tangent_hierarchy(MODEL.apply, PARAMS, X, directions=X[:2])
    assert [part.shape for part in found] == [(3,), (3, 2), (3, 2, 2), (3, 2, 2, 2)]
    np.testing.assert_allclose(found[3], whole[3][:, :2, :2, :2], rtol=1e-12)


def test_an_order_moves_by_the_next_one_times_the_residuals():
    """Oracle: the trapezoid rule along gradient flow of ½ Σ (f − y)², with error of order h³."""
    h = 1e-3

    def objective(params):
        return jnp.sum((MODEL.apply(params, X)[:, 0] - Y) ** 2) / 2

    run = gradient_flow(objective, PARAMS, [h], lambda w: w, Solver(rtol=1e-12))
    before, after = (tangent_hierarchy(MODEL.apply, w, X) for w in (PARAMS, run.params))
    for order in (0, 1, 2):
        speeds = [state[order + 1] @ (Y - state[0]) for state in (before, after)]
        moved = (after[order] - before[order]) / h
        np.testing.assert_allclose(moved, (speeds[0] + speeds[1]) / 2, rtol=0, atol=1e-5)
        assert np.abs(moved).max() > 1e-2


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_truncated_flow_is_right_to_the_order_at_which_it_is_cut(order):
    """Oracle: f = y/(1 + (y/f₀ − 1) e^(−4yt)) for f = w²; the error falls as t^order."""
    target, times = 0.6, np.array([0.005, 0.01])
    start = tangent_hierarchy(square, jnp.array(0.5), jnp.ones((1, 1)), order=order)
    run = truncated_flow(start, jnp.array([target]), times, Solver(rtol=1e-13, atol=1e-15))
    exact = target / (1 + (target / 0.25 - 1) * np.exp(-4 * target * times))
    near, far = np.abs(np.asarray(run.records[0])[:, 0] - exact)
    assert math.log2(far / near) == pytest.approx(order, abs=0.1)


def test_two_orders_are_the_network_with_a_constant_kernel():
    """Oracle: f_t = y − e^(−Θt)(y − f₀) on training inputs, by the matrix exponential."""
    start = tangent_hierarchy(MODEL.apply, PARAMS, X, order=2)
    run = truncated_flow(start, Y, [0.7])
    expected = Y - jax.scipy.linalg.expm(-0.7 * start[1]) @ (Y - start[0])
    np.testing.assert_allclose(run.records[0][0], expected, rtol=1e-6)


def _cut_system(start, targets, times):
    """The system dr = −Θr, dO₃ = O₄r, dΘ_t = O₃r: what the closed form solves, integrated."""
    outputs, second, third, fourth = start

    def velocity(state):
        residual, _, third = state
        return -second[: len(targets)] @ residual, third @ residual, fourth @ residual

    begin = (targets - outputs[: len(targets)], second, third)
    return flow(velocity, begin, times, lambda state: state[1], Solver(rtol=1e-11)).records


def _made_hierarchy(size=3, extra=1, strength=1.0):
    """A positive kernel, and O₃ and O₄ without any symmetry, so that no index can be exchanged."""
    keys = jax.random.split(jax.random.key(5), 4)
    roots = jax.random.normal(keys[0], (size + extra, size))
    second = roots @ roots[:size].T + 0.5 * jnp.eye(size + extra, size)
    shape = (size + extra, size, size)
    third = strength * jax.random.normal(keys[1], shape)
    fourth = strength * jax.random.normal(keys[2], (*shape, size))
    return jax.random.normal(keys[3], (size + extra,)), second, third, fourth


def test_the_corrected_kernel_solves_the_cut_system():
    """Oracle: its numerical integration, at two times and to rest."""
    start = _made_hierarchy()
    integrated = _cut_system(start, Y, [0.3, 1.5, 80.0])
    for time, expected in zip((0.3, 1.5, math.inf), integrated, strict=True):
        found = corrected_kernel(start, Y, time)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(corrected_kernel(start, Y, 0.0), start[1], rtol=1e-12)


def test_the_corrected_kernel_is_the_truncated_flow_to_first_order():
    """Oracle: integration of the truncated flow; with O₃, O₄ ∝ ε the difference falls as ε²."""
    gaps = []
    for strength in (1e-3, 5e-4):
        start = _made_hierarchy(strength=strength)
        flowed = truncated_flow(start, Y, [60.0], Solver(rtol=1e-11)).records[1][0]
        gaps.append(float(jnp.abs(flowed - corrected_kernel(start, Y)).max()))
    assert math.log2(gaps[0] / gaps[1]) == pytest.approx(2, abs=0.1)


def test_without_outputs_it_is_the_printed_formula():
    """Oracle: Eq. 2.158, y Θ⁻¹O₄Θ⁻¹y − Σ y v_k v_k O₄ v_l v_l y/(λ_k(λ_k + λ_l)), term by term.

    There v_k meets the fourth place of O₄ and v_l the third.
    """
    _, second, third, fourth = _made_hierarchy(extra=0)
    start = (jnp.zeros(3), second, jnp.zeros_like(third), fourth)
    inverse = jnp.linalg.inv(second)
    expected = second + jnp.einsum("abcd,c,d->ab", fourth, inverse @ Y, inverse @ Y)
    values, vectors = jnp.linalg.eigh(second)
    for k in range(3):
        for l in range(3):  # noqa: E741
            left, right = (vectors[:, i] * (vectors[:, i] @ Y) for i in (k, l))
            factor = values[k] * (values[k] + values[l])
            expected -= jnp.einsum("abcd,c,d->ab", fourth, right, left) / factor
    np.testing.assert_allclose(corrected_kernel(start, Y), expected, rtol=1e-10)


def test_another_kernel_may_drive_the_residuals():
    start = _made_hierarchy(extra=0)
    same = corrected_kernel(start, Y, kernel=start[1])
    np.testing.assert_array_equal(same, corrected_kernel(start, Y))
    assert not np.allclose(corrected_kernel(start, Y, kernel=2 * start[1]), same)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: tangent_hierarchy(MODEL.apply, PARAMS, X, order=0),
            "order must be at least 1, got 0",
        ),
        (
            lambda: tangent_hierarchy(lambda w, x: jnp.tile(x * w, 2), jnp.ones(()), X[:, :1]),
            r"one output for each of 3 inputs, got shape \(3, 2\)",
        ),
        (lambda: truncated_flow((Y,), Y, [1.0]), "at least 2 orders, got 1"),
        (lambda: corrected_kernel((Y, jnp.eye(3)), Y), "at least 4 orders, got 2"),
        (lambda: truncated_flow((Y, jnp.eye(3)), Y[:2], [1.0]), "O_2 must have 2 axes"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
