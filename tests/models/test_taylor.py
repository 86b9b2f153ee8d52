import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.models import linearize, mlp, network, quadratize
from theorylab.models.own_network import PrecisionWarning
from theorylab.models.parameters import Parameter
from theorylab.models.taylor import taylor

TANH = network(mlp([5, 4], 2, "tanh"), (3,), bias="normal")
X = jax.random.normal(jax.random.key(100), (6, 3))


def point_and_direction(model, seed=0):
    """Two sets of parameters, drawn by numpy, which compiles nothing."""
    rng = np.random.default_rng(seed)
    point, direction = (
        jax.tree.map(
            lambda parameter: jnp.asarray(rng.normal(size=parameter.shape)),
            model.parameters,
            is_leaf=lambda node: isinstance(node, Parameter),
        )
        for _ in range(2)
    )
    return point, direction


def moved(params, direction, size):
    return jax.tree.map(lambda p, d: p + size * d, params, direction)


def test_expansions_are_those_of_the_dense_gradient_and_hessian():
    """Oracle: every derivative stored, f + JΔ + ½ΔᵀHΔ."""
    params, direction = point_and_direction(TANH)
    flat, restore = ravel_pytree(params)
    delta, _ = ravel_pytree(direction)

    def flat_apply(w):
        return TANH.apply(restore(w), X)

    @jax.jit
    def dense(w):
        linear = flat_apply(w) + jax.jacrev(flat_apply)(w) @ delta
        return linear, linear + jax.hessian(flat_apply)(w) @ delta @ delta / 2

    linear, quadratic = dense(flat)
    new_params = moved(params, direction, 1.0)
    np.testing.assert_allclose(
        jax.jit(linearize(TANH.apply, params))(new_params, X), linear, rtol=1e-11
    )
    np.testing.assert_allclose(
        jax.jit(quadratize(TANH.apply, params))(new_params, X), quadratic, rtol=1e-11
    )


@pytest.mark.parametrize(
    ("expand", "slope", "tolerance"), [(linearize, 2, 0.05), (quadratize, 3, 0.1)]
)
def test_remainders_fall_as_the_next_order(expand, slope, tolerance):
    """Scaling law: f − f_lin = O(ε²), f − f_quad = O(ε³)."""
    params, direction = point_and_direction(TANH)
    expanded = expand(TANH.apply, params)
    sizes = np.logspace(-3, -2, 5)

    @jax.jit
    def remainder(size):
        there = moved(params, direction, size)
        return jnp.linalg.norm(TANH.apply(there, X) - expanded(there, X))

    remainders = jax.vmap(remainder)(jnp.asarray(sizes))
    fitted = np.polyfit(np.log(sizes), np.log(remainders), 1)[0]
    assert fitted == pytest.approx(slope, abs=tolerance)


def test_quadratic_relu_network_is_its_closed_form():
    """Oracle: zhu · nqm-relu2 · Eqs 3.9–3.10, with M = 1{u₀ᵀx ≥ 0}, far from w₀."""
    m, d = 50, 3
    model = network(mlp([m]), (d,))
    params, new_params = point_and_direction(model)
    u, v = np.asarray(params[0]["weight"]), np.asarray(params[2]["weight"])[:, 0]
    du, dv = np.asarray(new_params[0]["weight"]) - u, np.asarray(new_params[2]["weight"])[:, 0] - v
    x = np.asarray(X)
    gate = x @ u >= 0
    f = np.maximum(x @ u, 0) @ v
    first = ((x @ du) * gate) @ v + np.maximum(x @ u, 0) @ dv
    second = ((x @ du) * gate) @ dv
    expected = (f + first + second) / np.sqrt(m * d)
    outputs = jax.jit(quadratize(model.apply, params))(new_params, X)[:, 0]
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)
    linear = jax.jit(linearize(model.apply, params))(new_params, X)[:, 0]
    np.testing.assert_allclose(linear, (f + first) / np.sqrt(m * d), rtol=1e-12)


def test_expansion_of_what_is_already_of_that_order_is_exact():
    """A linear model is linear, a two-layer linear network quadratic in its weights."""
    for widths, expand in ([], linearize), ([4], quadratize):
        model = network(mlp(widths, 2, "identity"), (3,))
        params, new_params = point_and_direction(model)
        outputs = jax.jit(expand(model.apply, params))(new_params, X)
        np.testing.assert_allclose(outputs, model.apply(new_params, X), rtol=1e-12)


def test_training_an_expansion_follows_its_own_gradient_and_stays_at_its_point():
    """Oracle: gradient descent on f₀ + JΔ is Δ ← Δ − η Jᵀ(f₀ + JΔ − y), one J for ever."""
    params, _ = point_and_direction(TANH)
    expanded = linearize(TANH.apply, params)
    targets, rate = np.ones((6, 2)), 0.05
    gradient = jax.grad(lambda p: jnp.sum((expanded(p, X) - targets) ** 2) / 2)
    step = jax.jit(lambda p: moved(p, gradient(p), -rate))
    flat, restore = ravel_pytree(params)
    jacobian = jax.jit(jax.jacrev(lambda w: TANH.apply(restore(w), X).reshape(-1)))(flat)
    jacobian, f0 = np.asarray(jacobian), np.asarray(TANH.apply(params, X)).ravel()
    trained, delta = params, np.zeros_like(flat)
    for _ in range(5):
        trained = step(trained)
        delta -= rate * jacobian.T @ (f0 + jacobian @ delta - targets.ravel())
    np.testing.assert_allclose(ravel_pytree(trained)[0] - flat, delta, rtol=1e-10, atol=1e-14)


def test_gradient_of_the_quadratic_model_has_the_hessian_in_it():
    """Oracle: ∇f_quad(w; x) = ∇f(w₀; x) + H(w₀; x)Δ, H dense."""
    params, direction = point_and_direction(TANH)
    flat, restore = ravel_pytree(params)
    delta, _ = ravel_pytree(direction)

    def total(w):
        return jnp.sum(TANH.apply(restore(w), X))

    quadratic = quadratize(TANH.apply, params)
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(quadratic(p, X))))(moved(params, direction, 1.0))
    expected = jax.jit(lambda w: jax.grad(total)(w) + jax.hessian(total)(w) @ delta)(flat)
    np.testing.assert_allclose(ravel_pytree(gradient)[0], expected, rtol=1e-10, atol=1e-13)


def test_a_quadratic_model_with_ten_million_parameters_trains_in_little_memory():
    """Ceiling: twelve copies of the p parameters; one array of n × p would be 32, p × p 10⁷."""
    model, num_samples = network(mlp([3100, 3000]), (300,)), 32
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda parameter: jnp.asarray(rng.standard_normal(parameter.shape, np.float32)),
        model.parameters,
        is_leaf=lambda node: isinstance(node, Parameter),
    )
    x = jnp.asarray(rng.standard_normal((num_samples, 300), np.float32))
    y = jnp.sign(x[:, :1])
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert size > 1e7

    def step(new_params, params, x, y):
        def loss(w):
            return jnp.mean((quadratize(model.apply, params)(w, x) - y) ** 2)

        value, gradient = jax.value_and_grad(loss)(new_params)
        return value, moved(new_params, gradient, -0.5)

    compiled = jax.jit(step).lower(params, params, x, y).compile()
    used = compiled.memory_analysis()
    assert used is not None
    held = used.temp_size_in_bytes + used.output_size_in_bytes
    assert held < 12 * size * 4
    trained, losses = params, []
    for _ in range(3):
        loss, trained = compiled(trained, params, x, y)
        losses.append(float(loss))
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("expand", [linearize, quadratize])
def test_expansions_of_trees_reduced_outputs_and_16_bits(expand):
    """Oracle: the same network on a plain array, and the same weights in float32."""
    point, direction = point_and_direction(TANH)
    to = moved(point, direction, 0.1)
    tree = {"left": X[:, :1], "right": X[:, 1:]}
    network_of_trees = lambda w, x: TANH.apply(w, jnp.concatenate([*x.values()], 1))[:, None]  # noqa: E731
    found = expand(network_of_trees, point, outputs=lambda f: f[:, 0])(to, tree)
    np.testing.assert_allclose(found, expand(TANH.apply, point)(to, X), rtol=1e-12)
    half = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), point)
    with pytest.warns(PrecisionWarning, match="bfloat16 are taken as float32"):
        rough = expand(TANH.apply, half)(half, X.astype("float32"))
    wide = jax.tree.map(lambda leaf: leaf.astype("float32"), half)
    np.testing.assert_array_equal(rough, expand(TANH.apply, wide)(wide, X.astype("float32")))


def test_an_expansion_of_a_network_that_draws_anew_is_refused():
    """Batch statistics pass: the expansion is a network of the same batch."""
    rng = np.random.default_rng(0)
    drawing = lambda w, x: x @ w * rng.random()  # noqa: E731
    with pytest.raises(ValueError, match="when it is called again"):
        linearize(drawing, jnp.ones((3, 1)))(jnp.ones((3, 1)), X)
    centred = linearize(lambda w, x: (x - x.mean(axis=0, keepdims=True)) @ w, jnp.ones((3, 1)))
    assert centred(jnp.ones((3, 1)), X).shape == (6, 1)
    with pytest.raises(ValueError, match="params must be finite"):
        linearize(drawing, jnp.full((3, 1), jnp.nan))


def test_expansions_of_every_order_are_the_exponential_series():
    """Oracle: Σ (x Δ)ʲ/j! of exp(w x) at w = 0, and the network itself where it is a polynomial."""
    x, delta = jnp.array([0.5, 2.0]), 0.7
    series = np.cumsum([(x * delta) ** j / math.factorial(j) for j in range(6)], axis=0)
    for order in range(6):
        expanded = taylor(lambda w, x: jnp.exp(w * x), jnp.asarray(0.0), order)
        np.testing.assert_allclose(expanded(jnp.asarray(delta), x), series[order], rtol=1e-12)
    with pytest.raises(ValueError, match="order must be at least 0, got -1"):
        taylor(TANH.apply, (), -1)


def test_first_and_second_order_are_linearize_and_quadratize():
    """Oracle: the expansions that are tested against dense derivatives."""
    params, direction = point_and_direction(TANH)
    new_params = moved(params, direction, 0.3)
    for order, expand in ((1, linearize), (2, quadratize)):
        expected = expand(TANH.apply, params)(new_params, X)
        found = taylor(TANH.apply, params, order)(new_params, X)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
