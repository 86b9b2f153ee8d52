"""Infinite-width kernels against wide networks and a second derivation, and their symmetries."""

import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_diagonal, infinite_kernels, infinite_nngp
from theorylab.kernels.infinite.kernels import make_reading
from theorylab.kernels.infinite.reading import InputBatch, read_batches
from theorylab.models import (
    NTK,
    Activation,
    Aggregate,
    Architecture,
    BatchNorm,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    MuP,
    Residual,
    Serial,
    mlp,
)
from theorylab.models.architecture import Product

HE = NTK(weight_scale=math.sqrt(2))
BIASED = NTK(weight_scale=1.5, bias_scale=0.7)
X = jax.random.normal(jax.random.key(0), (4, 3))


def resnet(width, num_outputs, activation):
    """Three residual forms: identity and linear shortcut, one inside the other's branch."""
    block = Serial(Activation(activation), Dense(width))
    nested = Serial(Activation(activation), Dense(width), Residual(block))
    return Serial(
        Dense(width),
        Residual(block),
        Residual(nested, shortcut=Dense(width)),
        Activation(activation),
        Dense(num_outputs),
    )


def test_wide_residual_networks_have_these_kernels(monte_carlo, agree):
    """Oracle: Monte Carlo over 100 networks of width 64."""
    samples = monte_carlo(lambda width, k: resnet(width, k, "relu"), X, NTK())
    agree(samples, infinite_kernels(resnet(1, 1, "relu"), X))


@pytest.mark.parametrize("num_hidden", [1, 2, 3])
def test_kernel_is_the_sum_over_layers(num_hidden):
    """Oracle: Θ = Σₕ Σ⁽ʰ⁻¹⁾ Πₕ′ Σ̇⁽ʰ′⁾ in NumPy, c_σ = 2, with inputs brought to length √d."""
    x = np.asarray(X)
    sigma = x @ x.T / 3
    sigmas, slopes = [sigma], []
    for _ in range(num_hidden):
        scale = np.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
        angle = np.arccos(np.clip(sigma / scale, -1, 1))
        np.fill_diagonal(angle, 0)
        sigma = scale * (np.cos(angle) * (np.pi - angle) + np.sin(angle)) / np.pi
        sigmas.append(sigma)
        slopes.append((np.pi - angle) / np.pi)
    expected = sum(
        sigmas[h] * np.prod([np.ones_like(sigma), *slopes[h:]], axis=0)
        for h in range(num_hidden + 1)
    )
    # The first and the last layer have no activation before them, so σ_w² = 2 counts twice there.
    kernels = infinite_kernels(mlp([1] * num_hidden), X, parametrization=HE)
    np.testing.assert_allclose(kernels.ntk, 2 * expected, rtol=1e-12)
    np.testing.assert_allclose(kernels.nngp, 2 * sigma, rtol=1e-12)


@pytest.mark.parametrize("num_hidden", [1, 2, 5])
def test_relu_kernel_of_an_input_with_itself_counts_the_layers(num_hidden):
    """Oracle: Θ(x, x) = (L + 1) σ_w² ‖x‖²/d for σ_w = √2, also when x comes in twice."""
    expected = (num_hidden + 1) * 2 * np.sum(np.asarray(X) ** 2, axis=1) / 3
    for x2 in (None, X + 0.0):
        kernel = infinite_kernels(mlp([1] * num_hidden), X, x2, HE).ntk
        np.testing.assert_allclose(np.diag(kernel), expected, rtol=1e-13)


def test_linear_network_multiplies_the_gram_matrix():
    """Oracle: Θ = L K of a linear network of L layers, with σ_w = 1."""
    kernels = infinite_kernels(mlp([1, 1], activation="identity"), X)
    gram = X @ X.T / 3
    np.testing.assert_allclose(kernels.nngp, gram, rtol=1e-13)
    np.testing.assert_allclose(kernels.ntk, 3 * gram, rtol=1e-13)


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_kernels_do_not_see_rotations_and_are_positive(activation):
    """Oracle: invariance. NNGP and tangent kernels are Gram matrices."""
    rotation = jnp.linalg.qr(jax.random.normal(jax.random.key(3), (3, 3)))[0]
    architecture = mlp([1, 1], activation=activation)
    kernels = infinite_kernels(architecture, X)
    for kernel, turned in zip(kernels, infinite_kernels(architecture, X @ rotation), strict=True):
        np.testing.assert_allclose(kernel, turned, rtol=1e-7)
        np.testing.assert_allclose(kernel, kernel.T, rtol=1e-13)
        assert np.linalg.eigvalsh(kernel).min() > 0


def test_relu_kernels_are_homogeneous():
    """Oracle: without biases, Θ(αx, βx′) = αβ Θ(x, x′) for α, β > 0."""
    architecture = mlp([1, 1])
    for kernel, scaled in zip(
        infinite_kernels(architecture, X, X[:2]),
        infinite_kernels(architecture, 3 * X, 0.2 * X[:2]),
        strict=True,
    ):
        np.testing.assert_allclose(scaled, 0.6 * kernel, rtol=1e-7)


def test_gradients_in_the_inputs_are_finite():
    """At equal inputs, at opposite inputs, and at 0, where arccos and √ have none."""
    x = jnp.concatenate([X[:2], -X[:1], jnp.zeros((1, 3))])
    total = lambda x: sum(kernel.sum() for kernel in infinite_kernels(mlp([1, 1]), x))  # noqa: E731
    value, gradient = jax.jit(jax.value_and_grad(total))(x)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_input_zero_has_kernel_zero_without_biases():
    kernels = infinite_kernels(mlp([1, 1]), jnp.zeros((1, 3)), X)
    assert not np.any(kernels.nngp)
    assert not np.any(kernels.ntk)


def test_a_hundred_layers_give_finite_values_and_gradients():
    """Also at equal and opposite inputs, and at 0; and Θ(x, x) still counts the layers."""
    x = jnp.concatenate([X[:2], -X[:1], jnp.zeros((1, 3))])
    reading = make_reading(mlp([1] * 100), x, HE, "none", False, tangent=True)

    def total(x):  # layer by layer: a hundred of them take long to compile
        kernels = read_batches(reading, InputBatch(x), None)
        return sum(kernel.sum() for kernel in kernels), kernels

    gradient, (_, ntk) = jax.grad(total, has_aux=True)(x)
    assert np.isfinite(gradient).all()
    assert np.isfinite(ntk).all()
    expected = 101 * 2 * np.sum(np.asarray(x) ** 2, axis=1) / 3
    np.testing.assert_allclose(np.diag(ntk), expected, rtol=1e-10)


def test_precision_follows_the_inputs():
    """Oracle: float64. In one piece and in tiles."""
    exact = infinite_kernels(mlp([1, 1]), X)
    for block in (None, 3):
        single = infinite_kernels(mlp([1, 1]), X.astype(jnp.float32), block=block)
        assert single.ntk.dtype == jnp.float32
        np.testing.assert_allclose(single.ntk, exact.ntk, rtol=2e-6)


def test_diagonal_and_nngp_alone_are_those_of_the_kernels():
    """Oracle: the kernels of all pairs."""
    architecture = mlp([1, 1], activation="erf")
    kernels = infinite_kernels(architecture, X, None, BIASED, "normal")
    diagonal = infinite_diagonal(architecture, X, BIASED, "normal")
    for whole, part in zip(kernels, diagonal, strict=True):
        np.testing.assert_allclose(np.diag(whole), part, rtol=1e-13)
    nngp = infinite_nngp(architecture, X, X[:2], BIASED, "normal")
    np.testing.assert_allclose(nngp, kernels.nngp[:, :2], rtol=1e-13)


def test_pooled_kernels_are_positive():
    """Oracle: Gram matrices, to rounding, of more inputs than patches could tell apart."""
    x = jax.random.normal(jax.random.key(4), (12, 3, 2, 1))
    layers = (Conv(1, (2, 2), padding="same"), Activation("relu"))
    for kernel in infinite_kernels(Serial(*layers * 2, GlobalPool(), Dense(1)), x):
        values = np.linalg.eigvalsh(kernel)
        assert values.min() > -1e-13 * values.max()


def test_what_has_no_closed_form_is_refused():
    class Unknown(Architecture):
        def output_shape(self, input_shape):
            return input_shape

    with pytest.raises(TypeError, match="no reading for a layer of type Unknown"):
        infinite_kernels(Serial(Dense(2), Unknown()), X)
    with pytest.raises(TypeError, match="no reading for a layer of type BatchNorm"):
        infinite_kernels(Serial(Dense(2), BatchNorm(), Dense(1)), X)
    with pytest.raises(ValueError, match="LayerNorm must normalise the channels too, axis 1"):
        infinite_kernels(Serial(Dense(2), LayerNorm(axes=(0,))), jnp.ones((1, 4, 2)))
    with pytest.raises(ValueError, match="LayerNorm must stand after a Dense"):
        infinite_kernels(Serial(LayerNorm(), Dense(2)), X)
    with pytest.raises(ValueError, match="must stand after a Dense"):
        infinite_kernels(Serial(Dense(2), LayerNorm(affine=True), Activation("relu")), X)
    with pytest.raises(ValueError, match="Product needs a branch or shortcut"):
        infinite_kernels(Serial(Dense(2), Product(Activation("relu"))), X)
    images = jnp.ones((1, 3, 2))
    with pytest.raises(ValueError, match="must stand after a Dense"):  # pixels of other variances
        infinite_kernels(Serial(Conv(1, (2,)), Flatten(), Activation("relu")), images)
    with pytest.raises(ValueError, match=r"Activation\('relu'\) must stand after a Dense"):
        infinite_kernels(Serial(Activation("relu"), Dense(1)), X)
    with pytest.raises(ValueError, match="must stand after a Dense"):
        infinite_kernels(
            Serial(
                Dense(3),
                Residual(Serial(Activation("relu"), Dense(3))),
                Activation("relu"),
                Activation("relu"),
            ),
            X,
        )
    for before in ((), (Dense(3), Activation("relu"))):  # x + Wx is as Gaussian as x
        with pytest.raises(ValueError, match="must stand after a Dense"):
            infinite_kernels(Serial(*before, Residual(Dense(3)), Activation("relu")), X)
    with pytest.raises(ValueError, match="Residual needs a branch or shortcut that ends with"):
        infinite_kernels(Serial(Dense(3), Residual(Activation("relu"))), X)
    inner = Residual(Serial(Activation("relu"), Dense(3)))  # its shortcut brings x through
    with pytest.raises(ValueError, match="Residual needs a branch or shortcut that ends with"):
        infinite_kernels(Serial(Dense(3), Residual(inner)), X)


def test_bad_inputs_are_refused_before_work(monkeypatch):
    with pytest.raises(ValueError, match=r"parametrization must be NTK\(...\) or Standard"):
        infinite_kernels(mlp([1]), X, parametrization=MuP())
    with pytest.raises(ValueError, match="x1 must be finite"):
        infinite_kernels(mlp([1]), X.at[0, 0].set(jnp.inf))
    with pytest.raises(ValueError, match=r"inputs of one shape, got \(3,\) and \(2,\)"):
        infinite_kernels(mlp([1]), X, X[:, :2])
    with pytest.raises(ValueError, match="one dtype, got float64 and float32"):
        infinite_kernels(mlp([1]), X, X.astype(jnp.float32))
    with pytest.raises(ValueError, match="Conv"):
        infinite_kernels(Conv(2, (3, 3)), X)
    with pytest.raises(ValueError, match="block must be at least 1, got 0"):
        infinite_kernels(mlp([1]), X, block=0)
    with pytest.raises(ValueError, match="graphs1 must not be given"):
        infinite_kernels(mlp([1]), X, graphs1=jnp.ones((4, 3, 3)))
    with pytest.raises(ValueError, match="graphs1 must be given"):
        infinite_kernels(Aggregate(), jnp.ones((2, 3, 1)))
    with pytest.raises(ValueError, match=r"graphs1 must have shape \(2, 3, 3\), got \(2, 4, 4\)"):
        infinite_kernels(Aggregate(), jnp.ones((2, 3, 1)), graphs1=jnp.ones((2, 4, 4)))
    module = importlib.import_module("theorylab.kernels.infinite.kernels")
    monkeypatch.setattr(module, "available_memory", lambda: 1_000_000)
    with pytest.raises(MemoryError, match=r"1000 × 1000 entries need 16 MB.*infinite_kernels_on_"):
        infinite_kernels(mlp([1]), jnp.ones((1000, 3)))
