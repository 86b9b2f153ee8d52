import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import (
    NTK,
    Activation,
    Architecture,
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    Serial,
    Standard,
    cnn,
    densenet,
    mlp,
    network,
    summary,
)

X = np.random.default_rng(0).normal(size=(5, 3))
RELU = Activation("relu")


def relu(z):
    return np.maximum(z, 0)


def drawn(model, seed=0):
    """Parameters, and the same as numpy arrays."""
    params = model.init(jax.random.key(seed))
    return params, jax.tree.map(np.asarray, params)


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
    np.testing.assert_allclose(model.apply(params, jnp.asarray(X)), h, rtol=1e-12)


def test_densenet_is_its_formula():
    """Oracle: A.5–A.6 in numpy; the input is read by every layer, also by the output."""
    model = network(densenet([4, 6], 2), (3,))
    params, p = drawn(model)
    first, second, output = p[0][0]["weight"], p[1][0]["weight"], p[2]["weight"]
    g = np.concatenate([X, relu(X @ first / np.sqrt(3))], axis=1)
    g = np.concatenate([g, relu(g @ second / np.sqrt(3 + 4))], axis=1)
    expected = g @ output / np.sqrt(3 + 4 + 6)
    np.testing.assert_allclose(model.apply(params, jnp.asarray(X)), expected, rtol=1e-12)


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
    np.testing.assert_allclose(model.apply(params, jnp.asarray(images)), expected, rtol=1e-12)


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
    np.testing.assert_allclose(model.apply(params, jnp.asarray(images)), expected, rtol=1e-12)


def test_layer_norm_is_its_formula():
    """Oracle: numpy, with gain and offset away from their start."""
    model = network(Serial(LayerNorm(affine=True, epsilon=0.1)), (3,))
    gain, offset = np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.0, 3.0])
    start = model.init(jax.random.key(0))
    normal = (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 0.1)
    np.testing.assert_allclose(model.apply(start, jnp.asarray(X)), normal, rtol=1e-12)
    params = ({"gain": jnp.asarray(gain), "offset": jnp.asarray(offset)},)
    expected = gain * normal + offset
    np.testing.assert_allclose(model.apply(params, jnp.asarray(X)), expected, rtol=1e-12)


def test_a_normalised_network_does_not_see_the_scale_of_its_weights():
    """Invariance: L(cw) = L(w), so ⟨w, ∇L⟩ = 0 and ∇L(cw) = ∇L(w)/c."""
    model = network(Serial(Dense(6), LayerNorm(epsilon=0.0), RELU, Dense(1)), (3,))
    params = model.init(jax.random.key(0))

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
    params = model.init(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (2, 5, 5, 2))
    shifted = jnp.roll(images, (2, 3), axis=(1, 2))
    np.testing.assert_allclose(
        model.apply(params, shifted), model.apply(params, images), rtol=1e-12
    )


@pytest.mark.parametrize("width", [3, 20])
def test_tangent_kernel_and_variance_have_their_exact_means_at_every_width(width):
    """Closed forms, ReLU and L layers: E f² = 2⁻⁽ᴸ⁻¹⁾|x|²/d, E K(x, x) = L E f²; here L = 3."""
    model = network(mlp([width, width]), (3,))
    x = jnp.asarray(X[:1])

    def measure(key):
        params = model.init(key)
        value, gradient = jax.value_and_grad(lambda p: model.apply(p, x)[0, 0])(params)
        kernel = jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]).sum()
        return value**2, kernel

    samples = jax.jit(jax.vmap(measure))(jax.random.split(jax.random.key(width), 4000))
    scale = float(np.sum(X[0] ** 2)) / 3
    for sample, expected in zip(samples, (scale / 4, 3 * scale / 4), strict=True):
        standard_error = float(sample.std()) / np.sqrt(4000)
        assert abs(float(sample.mean()) - expected) < 4 * standard_error
        assert standard_error < 0.1 * expected  # so that a factor 2 would be seen


# The catalogue's pilot values: two layers of 1024, 128 inputs from N(0, I₁₀₀); one seed, so 10 %.
@pytest.mark.parametrize(
    ("bias", "output_bias", "expected"),
    [
        ("none", True, 5.95),
        ("zero", False, 2.37),
        ("normal", False, 1.00),
        ("zero", True, 0.70),
        ("normal", True, 0.50),
    ],
)
def test_biases_move_the_critical_learning_rate_as_the_catalogue_says(bias, output_bias, expected):
    """Oracle: n/λ_max(K) of zhu §0.3, for every choice of biases."""
    num_samples = 128
    model = network(mlp([1024], output_bias=output_bias), (100,), bias=bias)
    params = model.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (num_samples, 100))
    jacobian = jax.jacrev(lambda p: model.apply(p, x)[:, 0])(params)
    rows = jnp.concatenate(
        [leaf.reshape(num_samples, -1) for leaf in jax.tree.leaves(jacobian)], axis=1
    )
    critical = num_samples / jnp.linalg.eigvalsh(rows @ rows.T)[-1]
    assert float(critical) == pytest.approx(expected, rel=0.1)


def test_drawing_maps_over_keys():
    """Oracle: one at a time."""
    model = network(mlp([4]), (3,), bias="normal")
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(model.init)(keys)
    for index, key in enumerate(keys):
        for many, one in zip(
            jax.tree.leaves(together), jax.tree.leaves(model.init(key)), strict=True
        ):
            np.testing.assert_array_equal(many[index], one)


def test_parameters_are_all_different_and_biases_start_as_chosen():
    zero = network(mlp([4, 4], 4), (4,), bias="zero").init(jax.random.key(0))
    first, second, third = weights(zero)
    assert not np.intersect1d(first, second).size
    assert not np.intersect1d(second, third).size
    assert all(not layer["bias"].any() for layer in zero if layer)
    none = network(mlp([4, 4]), (4,)).init(jax.random.key(0))
    assert all(layer.keys() == {"weight"} for layer in none if layer)
    hidden = network(mlp([4], output_bias=False), (4,), bias="zero").init(jax.random.key(0))
    assert [layer.keys() for layer in hidden if layer] == [{"weight", "bias"}, {"weight"}]


def test_precision_is_the_one_that_is_set():
    model = network(mlp([4]), (3,), bias="normal")
    with jax.enable_x64(False):
        params = model.init(jax.random.key(0))
        outputs = model.apply(params, jnp.ones((2, 3)))
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    assert outputs.dtype == jnp.float32


def test_summary_counts_every_parameter():
    model = network(
        Serial(Conv(4, (3, 3)), LayerNorm(affine=True), RELU, Flatten(), Dense(2)),
        (5, 5, 3),
        Standard(),
        bias="zero",
    )
    params = model.init(jax.random.key(0))
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    lines = summary(model.parameters).splitlines()
    assert size == (3 * 3 * 3 * 4 + 4) + (4 + 4) + (3 * 3 * 4 * 2 + 2)
    assert lines[-1].split() == ["all", str(size)]
    assert [line.split()[0] for line in lines[1:-1]] == [
        "0.bias", "0.weight", "1.gain", "1.offset", "4.bias", "4.weight",
    ]  # fmt: skip


def test_what_does_not_fit_is_refused_before_any_work():
    with pytest.raises(ValueError, match=r"needs inputs with 2 position axes"):
        network(cnn([4], (3, 3)), (28,))
    with pytest.raises(ValueError, match=r"input_shape must have sizes of at least 1, got \(0,\)"):
        network(mlp([4]), (0,))
    model = network(mlp([4]), (3,))
    with pytest.raises(ValueError, match=r"inputs must have shape \(n, 3\), got \(5, 4\)"):
        model.apply(model.init(jax.random.key(0)), jnp.ones((5, 4)))


def test_a_layer_without_a_finite_reading_says_so():
    class Strange(Architecture):
        def output_shape(self, input_shape):
            return input_shape

    with pytest.raises(TypeError, match="no reading for a layer of type Strange"):
        network(Serial(Strange()), (3,))
