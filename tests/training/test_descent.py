"""Full-batch descent against closed forms, Python loops and the descent lemma."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import (
    descend,
    empirical_risk,
    every,
    gradient_descent,
    logistic,
    squared,
    with_learning_rates,
)


def linear_problem(key, num_samples=4, dim=3):
    """X (samples are rows), y, and the objective ½|y - Xw|²."""
    x = jax.random.normal(key, (num_samples, dim))
    y = jax.random.normal(jax.random.fold_in(key, 1), (num_samples, 1))
    risk = empirical_risk(squared("half_sum"), lambda w, x: x @ w)
    return x, y, lambda w: risk(w, x, y)


def network_loss(params):
    """A small tanh network on fixed data: nothing about it is quadratic."""
    x = jnp.linspace(-1.0, 1.0, 5)[:, None]
    hidden = jnp.tanh(x @ params["in"] + jnp.broadcast_to(params["bias"], (5, 3)))
    return squared("mean")(hidden @ params["out"], jnp.sin(3 * x))


@pytest.fixture(scope="module")
def params():
    shapes = {"in": (1, 3), "bias": (3,), "out": (3, 1)}
    keys = jax.random.split(jax.random.key(0), 3)
    return {
        name: jax.random.normal(key, shape)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def jitted(params, optimizer, steps):
    """The parameters after some steps on the network's loss."""
    return jax.jit(lambda p: descend(network_loss, p, optimizer, steps, network_loss).params)(
        params
    )


def test_descent_of_a_linear_model_has_its_closed_form():
    """Oracle: w_t = (I - (I - ηXᵀX)^t) X⁺y from w₀ = 0, for 20 random problems (golikov 1.3)."""
    steps, ratio = [0, 1, 7, 50], 1.3

    def one(key):
        x, y, objective = linear_problem(key)
        eta = ratio / jnp.linalg.eigvalsh(x.T @ x).max()
        weights = jnp.zeros((3, 1))
        run = descend(objective, weights, gradient_descent(eta), steps, lambda w: w)
        return x, y, eta, run.records

    for x, y, eta, records in zip(
        *map(np.asarray, jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 20))),
        strict=True,
    ):
        shrink = np.eye(3) - eta * x.T @ x
        limit = np.linalg.pinv(x) @ y
        expected = [(np.eye(3) - np.linalg.matrix_power(shrink, t)) @ limit for t in steps]
        np.testing.assert_allclose(records, expected, rtol=1e-10, atol=1e-12)


def test_descent_diverges_just_above_two_over_the_sharpness_and_says_so():
    """Oracle: |1 - ηλ| = 1.02 or 0.98 per step, and 1.02^40000 overflows."""
    x, _, objective = linear_problem(jax.random.key(3))
    top = jnp.linalg.eigvalsh(x.T @ x).max()

    @jax.jit
    @jax.vmap
    def run(ratio):
        optimizer = gradient_descent(ratio / top)
        return descend(objective, jnp.ones((3, 1)), optimizer, every(4000, 40_000), objective)

    trajectory = run(jnp.array([1.98, 2.02]))
    np.testing.assert_array_equal(trajectory.diverged, [False, True])
    assert trajectory.diverged_at[0] == -1
    # The loss, |w|², overflows when 1.02^(2t) > 1.8e308, at t ≈ 17,900; one recorded step later.
    assert trajectory.diverged_at[1] == 20_000
    first = list(trajectory.steps[1]).index(20_000)
    assert np.isfinite(trajectory.records[1][:first]).all()
    assert not np.isfinite(trajectory.records[1][first:]).any()


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(0.3),
        optax.sgd(0.1, momentum=0.9),
        optax.adamw(optax.cosine_decay_schedule(0.05, 20)),
        optax.chain(optax.clip_by_global_norm(0.5), optax.rmsprop(0.01)),
        optax.polyak_sgd(max_learning_rate=0.3),
    ],
    ids=["sgd", "momentum", "adamw", "rmsprop", "polyak"],
)
def test_any_optimizer_moves_as_in_a_python_loop(optimizer, params):
    """Oracle: optax used as its documentation says, one step after another."""
    steps = [0, 1, 5, 20]
    measure = lambda p: (network_loss(p), p["out"])  # noqa: E731
    trajectory = jax.jit(lambda p: descend(network_loss, p, optimizer, steps, measure))(params)

    update = jax.jit(optax.with_extra_args_support(optimizer).update)
    value_and_grad = jax.jit(jax.value_and_grad(network_loss))
    state, now = optimizer.init(params), params
    measured = iter(zip(*trajectory.records, strict=True))
    last: Any = now
    for step in range(21):
        last = now
        if step in steps:
            loss, out = next(measured)
            np.testing.assert_allclose(loss, network_loss(last), rtol=1e-12)
            np.testing.assert_allclose(out, last["out"], rtol=1e-11)
        value, gradient = value_and_grad(now)
        updates, state = update(gradient, state, now, value=value)
        now = optax.apply_updates(now, updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), trajectory.params, last)


def test_line_searches_get_the_objective(params):
    """Oracle: L-BFGS reaches a stationary point in few steps, plain descent does not."""
    run = jax.jit(lambda p: descend(network_loss, p, optax.lbfgs(), [0, 60], network_loss))(params)
    assert run.records[1] < 1e-3 * run.records[0]


def test_gradient_descent_is_the_formula(params):
    """Oracle: w - η∇f(w), which is also `optax.sgd`."""
    gradient = jax.grad(network_loss)(params)
    expected = jax.tree.map(lambda w, g: w - 0.3 * g, params, gradient)
    for optimizer in (gradient_descent(0.3), optax.sgd(0.3)):
        moved = jitted(params, optimizer, [1])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), moved, expected)


def test_descent_lemma_holds_for_logistic_regression():
    """Oracle: f(w₊) ≤ f(w) - (η - η²L/2)|∇f|² for η < 2/L, L = λ_max(XᵀX)/4 (arora 2.1.4)."""
    x = jax.random.normal(jax.random.key(5), (20, 3))
    y = jax.random.rademacher(jax.random.key(6), (20, 1), float)
    loss = logistic("sum")
    risk = empirical_risk(loss, lambda w, x: x @ w)
    smoothness = loss.curvature(20) * jnp.linalg.eigvalsh(x.T @ x).max()

    def objective(w):
        return risk(w, x, y)

    def slack(ratio):
        eta = ratio / smoothness
        measure = lambda w: (objective(w), jnp.sum(jax.grad(objective)(w) ** 2))  # noqa: E731
        run = descend(objective, 2 * jnp.ones((3, 1)), gradient_descent(eta), every(1, 30), measure)
        value, square = run.records
        return value[:-1] - (eta - eta**2 * smoothness / 2) * square[:-1] - value[1:]

    slacks = jax.jit(jax.vmap(slack))(jnp.array([0.5, 1.0, 1.9]))
    assert (slacks >= -1e-12 * slacks.max()).all()


def test_learning_rate_factors_multiply_each_parameter_s_update(params):
    """Oracle: three parameter groups with learning rates of their own; a frozen one stays."""
    factors = {"in": 2.0, "bias": 0.0, "out": 0.5}
    optimizer = with_learning_rates(gradient_descent(0.1), factors)
    moved = jitted(params, optimizer, [1])
    gradient = jax.grad(network_loss)(params)
    for name, factor in factors.items():
        expected = params[name] - 0.1 * factor * gradient[name]
        np.testing.assert_allclose(moved[name], expected, rtol=1e-13)

    everywhere = with_learning_rates(optax.adam(0.1), 0.5)  # one factor is a tree of one leaf
    halved = jitted(params, everywhere, [3])
    plain = jitted(params, optax.adam(0.05), [3])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), halved, plain)


def test_steps_must_be_known_when_compiling(params):
    with pytest.raises(ValueError, match="known when the run is compiled"):
        jax.jit(lambda s: descend(network_loss, params, optax.sgd(1.0), s, network_loss))(
            jnp.arange(3)
        )
