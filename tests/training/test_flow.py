"""Flows against matrix exponentials, closed forms, conserved quantities and small steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.linalg

from theorylab import training
from theorylab.training import Solver, descend


def jitted(run):
    return lambda function, params, *settings, **more: jax.jit(
        lambda params: run(function, params, *settings, **more)
    )(params)


flow, gradient_flow = jitted(training.flow), jitted(training.gradient_flow)
TIMES = [0, 0.3, 1.0, 4.0]
MATRIX = jnp.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
START = {"a": jnp.array([1.0, -1.0]), "b": jnp.array([2.0])}


def quadratic(params):
    w = jnp.concatenate([params["a"], params["b"]])
    return w @ MATRIX @ w / 2


@pytest.mark.parametrize("method", ["tsit5", "kvaerno5"])
def test_flow_of_a_quadratic_is_a_matrix_exponential(method):
    """Oracle: w(t) = exp(-At) w(0); the tolerance of a step is 1e-9 of w."""
    run = gradient_flow(quadratic, START, TIMES, lambda w: w, Solver(method))
    expected = [scipy.linalg.expm(-np.asarray(MATRIX) * t) @ [1, -1, 2] for t in TIMES]
    measured = np.concatenate([run.records["a"], run.records["b"]], axis=1)
    np.testing.assert_allclose(measured, expected, rtol=1e-7)
    np.testing.assert_allclose(run.params["b"], measured[-1, 2:], rtol=1e-15)
    np.testing.assert_array_equal(run.steps, TIMES)
    assert not run.diverged
    assert run.diverged_at == -1


def test_tolerance_is_respected():
    """Oracle: the same exponential; a hundred times the tolerance, and still a larger error."""
    exact = np.exp(-4.0)

    def error(rtol):
        solver = Solver("dopri8", rtol=rtol, atol=rtol)
        run = flow(lambda w: -w, jnp.array(1.0), [4.0], lambda w: w, solver)
        return abs(float(run.params) - exact)

    assert error(1e-12) < 1e-12 < error(1e-4) < 1e-4


def test_small_steps_of_descent_tend_to_the_flow():
    """Oracle: a second algorithm. Descent with step η is off by O(η): a tenth for a tenth of η."""
    objective = lambda w: (w[0] * w[1] - 1) ** 2 / 2  # noqa: E731
    start = jnp.array([0.3, 1.5])
    limit = gradient_flow(objective, start, [1.0], lambda w: w).params
    errors = [
        jnp.abs(
            descend(objective, start, optax.sgd(1 / steps), [steps], lambda w: w).params - limit
        ).max()
        for steps in (1000, 10_000)
    ]
    assert errors[0] < 1e-3
    assert errors[1] / errors[0] == pytest.approx(0.1, rel=0.02)


def test_flow_of_a_linear_network_keeps_its_balance():
    """Oracle: WWᵀ - vvᵀ is conserved (golikov two-layer-flows), to the solver's tolerance."""
    x = jax.random.normal(jax.random.key(0), (4, 6))
    y = jax.random.normal(jax.random.key(1), (6,))
    keys = jax.random.split(jax.random.key(2))
    params = {"W": jax.random.normal(keys[0], (3, 4)), "v": jax.random.normal(keys[1], (3,))}
    objective = lambda p: jnp.sum((y - p["v"] @ p["W"] @ x) ** 2) / 2  # noqa: E731
    balance = lambda p: p["W"] @ p["W"].T - jnp.outer(p["v"], p["v"])  # noqa: E731
    measure = lambda p: (balance(p), objective(p))  # noqa: E731
    balances, losses = gradient_flow(objective, params, [0, 1.0, 10.0], measure).records
    np.testing.assert_allclose(balances[1:], balances[:1].repeat(2, axis=0), atol=1e-7)
    assert losses[2] < losses[1] < losses[0]


def test_layers_without_parameters_flow_along():
    """Oracle: the matrix exponential; an empty branch, as an activation has, changes nothing."""
    x0 = jnp.array([1.0, -2.0])
    params = ({"weight": x0}, ())
    run = training.gradient_flow(
        lambda w: w[0]["weight"] @ w[0]["weight"], params, [0.5], lambda w: w
    )
    np.testing.assert_allclose(run.params[0]["weight"], x0 * np.exp(-1.0), rtol=1e-8)
    assert run.params[1] == ()


def test_flow_stops_at_rest_and_stays_there():
    """Oracle: |∇f| = e^(-t) falls below 1e-6 at t = 13.8; to t = 10⁹ nobody could go with Tsit5."""
    run = gradient_flow(
        lambda w: jnp.sum(w**2) / 2, jnp.ones(1), [1.0, 1e9, 2e9, 3e9], lambda w: w, until=1e-6
    )
    np.testing.assert_allclose(run.records[0], np.exp([-1.0]), rtol=1e-7)
    assert 0 < run.records[1, 0] < 1e-6
    np.testing.assert_array_equal(run.records[1:], run.params[None].repeat(3, axis=0))
    assert not run.diverged


def test_stiff_flow_is_for_the_implicit_method():
    """Oracle: exp(-t) along the slow direction, with rates 1 and 10⁶ in one flow."""
    rates = jnp.array([1.0, 1e6])
    few = lambda method: Solver(method, rtol=1e-6, max_steps=500)  # noqa: E731
    run = lambda method: flow(lambda w: -rates * w, jnp.ones(2), [3.0], lambda w: w, few(method))  # noqa: E731
    stiff = run("kvaerno5")
    assert not stiff.diverged
    np.testing.assert_allclose(stiff.params[0], np.exp(-3), rtol=1e-4)
    explicit = run("tsit5")  # needs some 10⁶ steps: recorded as failed, not raised
    assert explicit.diverged
    assert explicit.diverged_at == 3.0
    assert np.isnan(explicit.params).all()


def test_blow_up_is_recorded_for_the_seeds_that_blow_up():
    """Oracle: dw/dt = w² has w = 1/(1/w₀ - t), infinite at t = 1/w₀."""
    start, times = jnp.array([0.1, 1.0, -3.0]), [0, 0.5, 1.5, 2.0]
    measure = lambda w: {"w": w, "sign": w > 0}  # noqa: E731
    solver = Solver(max_steps=2000)
    run = jax.jit(jax.vmap(lambda w: flow(lambda w: w**2, w, times, measure, solver)))(start)
    np.testing.assert_array_equal(run.diverged, [False, True, False])
    np.testing.assert_array_equal(run.diverged_at, [-1, 1.5, -1])
    exact = 1 / (1 / start[:, None] - jnp.array(times)[None])
    np.testing.assert_allclose(run.records["w"][::2], exact[::2], rtol=1e-7)
    np.testing.assert_allclose(run.records["w"][1, :2], exact[1, :2], rtol=1e-7)
    assert np.isnan(run.records["w"][1, 2:]).all()
    assert np.isnan(run.params[1])


def test_single_precision_is_kept_and_reaches_its_tolerance():
    """Oracle: e^(-2), to 1e-4."""
    run = gradient_flow(lambda w: w @ w, jnp.ones(1, jnp.float32), [1.0], lambda w: w)
    assert run.params.dtype == run.steps.dtype == jnp.float32
    np.testing.assert_allclose(run.params, np.exp([-2.0]), rtol=1e-4)


@pytest.mark.usefixtures("untyped")
def test_bad_input_is_refused():
    def run(times=(1.0,), **settings):
        return flow(lambda w: -w, jnp.ones(1), times, lambda w: w, **settings)

    for times in ([], [[0.0, 1.0]], [0.0, np.inf]):
        with pytest.raises(ValueError, match="non-empty list of finite numbers"):
            run(times)
    for times in ([1.0, 1.0], [2.0, 1.0], [-1.0, 1.0]):
        with pytest.raises(ValueError, match="increasing and not negative"):
            run(times)
    with pytest.raises(ValueError, match="until must be positive, got 0"):
        run(until=0.0)
    with pytest.raises(ValueError, match=r"method must be one of tsit5, .* got 'euler'"):
        Solver("euler")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rtol must be positive, got -1"):
        Solver(rtol=-1.0)
    with pytest.raises(ValueError, match="max_steps must be at least 1, got 0"):
        Solver(max_steps=0)
    with pytest.raises(ValueError, match="known when the run is compiled"):
        jax.jit(run)(jnp.ones(1))
