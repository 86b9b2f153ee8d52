from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import (
    NTK,
    Activation,
    Architecture,
    AvgPool,
    BatchNorm,
    Conv,
    Dense,
    GlobalPool,
    LayerNorm,
    Residual,
    Serial,
    cnn,
    densenet,
    in_batches,
    mlp,
    network,
)
from theorylab.models.parameters import Parameter

X = np.random.default_rng(0).normal(size=(5, 3))
RELU = Activation("relu")


def relu(z):
    return np.maximum(z, 0)


def drawn(model, seed=0):
    """Parameters from numpy, which compiles nothing; as JAX arrays and as numpy arrays."""
    rng = np.random.default_rng(seed)
    params = jax.tree.map(
        lambda parameter: rng.normal(size=parameter.shape),
        model.parameters,
        is_leaf=lambda node: isinstance(node, Parameter),
    )
    return jax.tree.map(jnp.asarray, params), params


def outputs(model, params, x):
    return jax.jit(model.apply)(params, jnp.asarray(x))


def weights(params):
    return [layer["weight"] for layer in params if layer]


def test_mlp_is_its_formula():
    """Oracle: f⁽ˡ⁾ = φ(W⁽ˡ⁾f⁽ˡ⁻¹⁾/√m + 0.3 b⁽ˡ⁾) in numpy."""
    parametrization = NTK(weight_scale=1.5, bias_scale=0.3)
    model = network(mlp([4, 6], 2, "tanh"), (3,), parametrization, bias="normal")
    params, p = drawn(model)
    h = X
    for index, fan_in in ((0, 3), (2, 4), (4, 6)):
        h = 1.5 * h @ p[index]["weight"] / np.sqrt(fan_in) + 0.3 * p[index]["bias"]
        h = np.tanh(h) if index < 4 else h
    np.testing.assert_allclose(outputs(model, params, X), h, rtol=1e-12)


def test_densenet_is_its_formula():
    """Oracle: A.5–A.6 in numpy; the input is read by every layer, also by the output."""
    model = network(densenet([4, 6], 2), (3,))
    params, p = drawn(model)
    first, second, output = p[0][0]["weight"], p[1][0]["weight"], p[2]["weight"]
    g = np.concatenate([X, relu(X @ first / np.sqrt(3))], axis=1)
    g = np.concatenate([g, relu(g @ second / np.sqrt(3 + 4))], axis=1)
    expected = g @ output / np.sqrt(3 + 4 + 6)
    np.testing.assert_allclose(outputs(model, params, X), expected, rtol=1e-12)


def test_cnn_is_its_formula():
    """Oracle: A.14–A.15 by loops: window p, zeros outside, full output, 1/√(mp), 1/√(md)."""
    images = np.random.default_rng(1).normal(size=(2, 7, 3))  # 7 positions, 3 channels
    model = network(cnn([4, 5], (3,), 2), (7, 3))
    params, p = drawn(model)
    first, second, output = weights(p)
    f = images
    for w in (first, second):
        padded = np.pad(f, ((0, 0), (1, 1), (0, 0)))
        h = np.zeros((2, 7, w.shape[-1]))
        for position in range(7):
            for offset in range(3):
                h[:, position] += padded[:, position + offset] @ w[offset]
        f = relu(h / np.sqrt(f.shape[-1] * 3))
    expected = np.einsum("nsc,sck->nk", f, output.reshape(7, 5, 2)) / np.sqrt(5 * 7)
    np.testing.assert_allclose(outputs(model, params, images), expected, rtol=1e-12)


def test_residual_pooling_and_dense_on_images_are_their_formulas():
    """Oracle: numpy, position by position."""
    images = np.random.default_rng(2).normal(size=(2, 4, 6, 3))
    branch = Serial(Dense(5), RELU, Dense(4))
    layers = (
        Residual(branch, Dense(4)),
        AvgPool((2, 3)),
        GlobalPool(),
        Residual(Dense(4)),
        Dense(2),
    )
    model = network(Serial(*layers), (4, 6, 3))
    params, p = drawn(model)
    inner, outer = weights(p[0]["branch"])
    h = relu(images @ inner / np.sqrt(3)) @ outer / np.sqrt(5)
    h = h + images @ p[0]["shortcut"]["weight"] / np.sqrt(3)
    h = h.reshape(2, 2, 2, 2, 3, 4).mean(axis=(2, 4)).mean(axis=(1, 2))
    h = h + h @ p[3]["branch"]["weight"] / np.sqrt(4)
    expected = h @ p[4]["weight"] / np.sqrt(4)
    np.testing.assert_allclose(outputs(model, params, images), expected, rtol=1e-12)


def test_layer_norm_is_its_formula():
    """Oracle: numpy, with gain and offset away from their start."""
    model = network(Serial(LayerNorm(affine=True, epsilon=0.1)), (3,))
    gain, offset = np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.0, 3.0])
    start = model.init(jax.random.key(0))  # gain 1, offset 0
    normal = (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 0.1)
    np.testing.assert_allclose(outputs(model, start, X), normal, rtol=1e-12)
    params = ({"gain": jnp.asarray(gain), "offset": jnp.asarray(offset)},)
    expected = gain * normal + offset
    np.testing.assert_allclose(outputs(model, params, X), expected, rtol=1e-12)


def test_batch_norm_is_its_formula():
    """Oracle: numpy over batch and positions; mean 0 and variance 1, then gain and offset."""
    model = network(Serial(BatchNorm(epsilon=0.1)), (2, 2, 3))
    x = np.random.default_rng(0).normal(1.0, 2.0, size=(4, 2, 2, 3))
    mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    normal = (x - mean) / np.sqrt(variance + 0.1)
    start = model.init(jax.random.key(0))
    np.testing.assert_allclose(outputs(model, start, x), normal, rtol=1e-12)
    np.testing.assert_allclose(normal.mean(axis=(0, 1, 2)), 0.0, atol=1e-12)
    gain, offset = np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.0, 3.0])
    params = ({"gain": jnp.asarray(gain), "offset": jnp.asarray(offset)},)
    np.testing.assert_allclose(outputs(model, params, x), gain * normal + offset, rtol=1e-12)


def test_the_tangent_of_a_network_goes_through_the_batch_statistics():
    """Oracles: differences along a direction; and along the weights before the norm it is 0."""
    layers = (Dense(6), BatchNorm(affine=False, epsilon=0.0), Activation("erf"), Dense(1))
    model = network(Serial(*layers), (3,))
    params, x = drawn(model)[0], jnp.asarray(X)
    weight = params[0]["weight"]

    def output(weight):
        return model.apply(({"weight": weight}, *params[1:]), x)

    tangent = jax.jit(lambda along: jax.jvp(output, (weight,), (along,))[1])
    along = jnp.cos(jnp.arange(weight.size)).reshape(weight.shape)
    step = 1e-5
    slope = (output(weight + step * along) - output(weight - step * along)) / (2 * step)
    np.testing.assert_allclose(tangent(along), slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(tangent(weight), 0.0, atol=1e-12)


def test_outputs_in_batches_are_those_of_every_batch():
    """Oracle: one batch after the other, by hand; the last is smaller."""
    model = network(Serial(BatchNorm(affine=False), Dense(2)), (3,))
    params = drawn(model)[0]
    x = jax.random.normal(jax.random.key(3), (7 * 3,)).reshape(7, 3)
    expected = [model.apply(params, part) for part in (x[:3], x[3:6], x[6:])]
    found = in_batches(model.apply, 3)(params, x)
    np.testing.assert_allclose(found, jnp.concatenate(expected), rtol=1e-12)
    np.testing.assert_array_equal(in_batches(model.apply, 7)(params, x), model.apply(params, x))
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        in_batches(model.apply, 0)


def test_a_normalised_network_does_not_see_the_scale_of_its_weights():
    """Invariance: L(cw) = L(w), so ⟨w, ∇L⟩ = 0 and ∇L(cw) = ∇L(w)/c."""
    model = network(Serial(Dense(6), LayerNorm(epsilon=0.0), RELU, Dense(1)), (3,))
    params, _ = drawn(model)

    def loss(weight):
        changed = ({"weight": weight}, *params[1:])
        return jnp.sum(model.apply(changed, jnp.asarray(X)) ** 2)

    value_and_gradient = jax.jit(jax.value_and_grad(loss))
    weight = params[0]["weight"]
    (value, gradient), (scaled_value, scaled_gradient) = map(
        value_and_gradient, (weight, 7 * weight)
    )
    assert scaled_value == pytest.approx(float(value), rel=1e-12)
    np.testing.assert_allclose(scaled_gradient, gradient / 7, rtol=1e-9)
    assert abs(jnp.vdot(weight, gradient)) < 1e-12 * jnp.linalg.norm(gradient)


def test_global_pooling_after_circular_convolutions_does_not_see_shifts():
    """Invariance: every layer commutes with cyclic shifts, the pooling forgets them."""
    layers = (Conv(4, (3, 3), padding="circular"), RELU, GlobalPool(), Dense(1))
    model = network(Serial(*layers), (5, 5, 2), bias="normal")
    params, _ = drawn(model)
    images = jax.random.normal(jax.random.key(1), (2, 5, 5, 2))
    shifted = jnp.roll(images, (2, 3), axis=(1, 2))
    np.testing.assert_allclose(
        outputs(model, params, shifted), outputs(model, params, images), rtol=1e-12
    )


@pytest.mark.parametrize("width", [6, 40])
def test_tangent_kernel_and_variance_have_their_exact_means_at_every_width(width):
    """Closed forms, ReLU and L layers: E f² = 2⁻⁽ᴸ⁻¹⁾|x|²/d, E K(x, x) = L E f²; here L = 3."""
    model = network(mlp([width, width]), (3,))
    x = jnp.asarray(X[:1])

    def measure(key):
        params = model.init(key)
        value, gradient = jax.value_and_grad(lambda p: model.apply(p, x)[0, 0])(params)
        kernel = jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]).sum()
        return value**2, kernel

    samples = jax.jit(jax.vmap(measure))(jax.random.split(jax.random.key(width), 5000))
    scale = float(np.sum(X[0] ** 2)) / 3
    for sample, expected in zip(samples, (scale / 4, 3 * scale / 4), strict=True):
        standard_error = float(sample.std()) / np.sqrt(5000)
        assert abs(float(sample.mean()) - expected) < 4 * standard_error
        assert standard_error < 0.1 * expected  # so that a factor 2 would be seen


# Pilot runs in NumPy, of one seed: two layers, width 1024, 128 inputs from N(0, I₁₀₀); and
# their standard deviation over seeds (measured over 12 others). Two single seeds: 3√2 of it apart.
@pytest.mark.parametrize(
    ("bias", "output_bias", "expected", "deviation"),
    [
        ("none", True, 5.95, 0.094),
        ("zero", False, 2.37, 0.055),
        ("normal", False, 1.00, 0.051),
        ("zero", True, 0.70, 0.005),
        ("normal", True, 0.50, 0.011),
    ],
)
def test_biases_move_the_critical_learning_rate(bias, output_bias, expected, deviation):
    """Oracle: n/λ_max(K) in the table of zhu §0.3, for every choice of biases."""
    num_samples = 128
    model = network(mlp([1024], output_bias=output_bias), (100,), bias=bias)
    x = jax.random.normal(jax.random.key(1), (num_samples, 100))

    @jax.jit
    def critical_learning_rate(key):
        jacobian = jax.jacrev(lambda p: model.apply(p, x)[:, 0])(model.init(key))
        rows = [leaf.reshape(num_samples, -1) for leaf in jax.tree.leaves(jacobian)]
        kernel = jnp.stack([row @ row.T for row in rows]).sum(axis=0)
        return num_samples / jnp.linalg.eigvalsh(kernel)[-1]

    critical = critical_learning_rate(jax.random.key(0))
    assert float(critical) == pytest.approx(expected, abs=3 * np.sqrt(2) * deviation)


def test_drawing_maps_over_keys():
    """Oracle: one at a time."""
    init = network(mlp([4]), (3,), bias="normal").init
    keys = jax.random.split(jax.random.key(0))
    together = jax.jit(jax.vmap(init))(keys)
    alone = jax.jit(init)(keys[1])
    for many, one in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(many[1], one)


def test_biases_are_there_as_chosen():
    def arrays(architecture, bias):
        return [
            layer.keys() for layer in network(architecture, (3,), bias=bias).parameters if layer
        ]

    both, weight = {"weight", "bias"}, {"weight"}
    assert arrays(mlp([4]), "none") == [weight, weight]
    assert arrays(mlp([4]), "zero") == [both, both]
    assert arrays(mlp([4], output_bias=False), "normal") == [both, weight]


def test_precision_is_the_one_that_is_set():
    model = network(mlp([4]), (3,), bias="normal")
    with jax.enable_x64(False):
        params = jax.jit(model.init)(jax.random.key(0))
        y = outputs(model, params, np.ones((2, 3)))
    assert {leaf.dtype for leaf in (y, *jax.tree.leaves(params))} == {jnp.dtype("float32")}


def test_what_does_not_fit_is_refused_before_any_work():
    with pytest.raises(ValueError, match=r"needs inputs with 2 position axes"):
        network(cnn([4], (3, 3)), (28,))
    with pytest.raises(ValueError, match="input_shape must be at least 1, got 0"):
        network(mlp([4]), (0,))
    model = network(mlp([4]), (3,))
    with pytest.raises(ValueError, match=r"inputs must have shape \(n, 3\), got \(5, 4\)"):
        model.apply(model.init(jax.random.key(0)), jnp.ones((5, 4)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": False}, r"bias must be one of \('none', .*\), got False"),
        ({"law": "gauss"}, r"law must be one of \('normal', .*\), got 'gauss'"),
        ({"parametrization": "ntk"}, r"Parametrization such as NTK\(\) or MuP\(\), got 'ntk'"),
        ({"architecture": [4]}, r"Architecture such as mlp\(\[512\]\), got \[4\]"),
        ({"input_shape": 5}, r"input_shape must be a tuple .* such as \(5,\), got 5"),
    ],
)
def test_settings_that_are_none_are_refused_where_they_enter(changes, message):
    unchecked: Any = getattr(network, "__wrapped__", network)  # the annotation would refuse it too
    with pytest.raises((ValueError, TypeError), match=message):
        unchecked(**{"architecture": mlp([4]), "input_shape": (5,), **changes})
    widths: Any = 32
    with pytest.raises(ValueError, match=r"widths must be a tuple .* such as \(32,\), got 32"):
        getattr(mlp, "__wrapped__", mlp)(widths)


def test_a_layer_without_a_finite_reading_says_so():
    class Strange(Architecture):
        def output_shape(self, input_shape):
            return input_shape

    with pytest.raises(TypeError, match="no reading for a layer of type Strange"):
        network(Serial(Strange()), (3,))
