"""Kernels are differentiable in scales and in the parameters of activations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import (
    dual,
    infinite_diagonal,
    infinite_kernels,
    infinite_kernels_sampled,
    infinite_nngp,
    log_evidence,
)
from theorylab.kernels.infinite import workers
from theorylab.models import (
    NTK,
    Activation,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    SelfAttention,
    Serial,
    Standard,
)
from theorylab.models.families import (
    ABReLU,
    Cosine,
    Erf,
    Exponential,
    GaussianActivation,
    LeakyReLU,
    Polynomial,
    Sine,
    normalised_exponential,
    rbf,
)
from theorylab.models.positional import PositionalEmbedding

X = jax.random.normal(jax.random.key(0), (3, 4))
X = X.at[2].set(X[0])  # two equal inputs: correlation 1, off the diagonal too
SIGNALS = X.reshape(3, 2, 2)


def _kinks(p):
    return Serial(
        *(Dense(1, weight_scale=p[0], bias_scale=p[1]), Activation(ABReLU(p[2], p[3]))),
        *(Dense(1), Activation(LeakyReLU(p[4])), Dense(1), Activation("relu")),
        *(Dense(1), Residual(Serial(Activation("relu"), Dense(1, weight_scale=p[5])))),
        *(LayerNorm(), Activation("gelu")),
        Dense(1, weight_scale=p[0] * p[1]),
    )


def _smooth(p):
    hidden = (
        *(Erf(p[0], p[1], p[2]), Sine(p[3], 1.2, p[4]), Cosine(0.9, p[5], 0.2)),
        *(GaussianActivation(1.3, p[1]), Exponential(p[2], 0.3 * p[3]), rbf(p[4])),
        *(normalised_exponential(0.3 * p[5]), Polynomial((p[0], p[1], p[2], 0.1))),
    )
    return Serial(*(layer for φ in hidden for layer in (Dense(1), Activation(φ))), Dense(1))


def _images(p):
    conv = Conv(1, (2,), padding="same", weight_scale=p[0], bias_scale=p[1])
    return Serial(conv, Activation(Erf(p[2], p[3], p[4])), GlobalPool(), Dense(1))


CASES = {
    "kinks": (_kinks, lambda p: NTK(weight_scale=p[4], bias_scale=p[5]), X),
    "smooth": (_smooth, lambda p: NTK(weight_scale=p[4], bias_scale=p[5]), X),
    "images": (_images, lambda p: Standard(weight_scale=p[5], bias_scale=p[0]), SIGNALS),
}
POINT = jnp.array([1.1, 0.8, 0.6, 1.2, 0.7, 0.9])


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_finite_differences(case):
    """Oracle: central differences of every entry, at correlation 1 too, and of the diagonal."""
    make, scales, x = CASES[case]

    def entries(p):
        settings = make(p), x, None, scales(p), "normal"
        alone = infinite_diagonal(make(p), x, scales(p), "normal")
        return jnp.concatenate([k.ravel() for k in (*infinite_kernels(*settings), *alone)])

    step = 1e-5
    moves, points = step * jnp.eye(6), jnp.tile(POINT, (6, 1))
    batched = jax.jit(lambda points: jax.lax.map(entries, points))
    ahead, behind = batched(points + moves), batched(points - moves)
    expected = ((ahead - behind) / (2 * step)).T
    slopes = jax.jit(jax.jacfwd(entries))(POINT)
    assert np.all(np.isfinite(slopes))
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    assert np.all(np.abs(expected).max(axis=0) > 1e-4)  # every parameter counts


def test_reverse_mode_gives_the_same_outside_of_any_program():
    """Oracle: K = (σ_w²/d) xᵀx′ + σ_b², differentiated by hand."""

    def total(scales):
        given = NTK(weight_scale=scales[0], bias_scale=scales[1])
        return infinite_nngp(Dense(1), X, None, given, "normal").sum()

    slopes = jax.grad(total)(jnp.array([1.5, 0.3]))
    expected = [2 * 1.5 * np.sum(X @ X.T) / 4, 2 * 0.3 * 9]
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)


def test_equal_inputs_have_no_nan_at_any_depth():
    """Oracle: homogeneity, ∂K/∂log σ_w = 2 · layers · K of a ReLU network without biases."""

    def kernels(scale):
        layers = Serial(*(Dense(1), Activation("relu")) * 4, Dense(1))
        return infinite_kernels(layers, X, None, NTK(weight_scale=scale))

    values, slopes = kernels(1.4), jax.jacrev(kernels)(1.4)
    for value, slope in zip(values, slopes, strict=True):
        np.testing.assert_allclose(1.4 * slope, 10 * value, rtol=1e-9)


def test_new_values_need_no_new_program():
    """Oracle: numbers written into the architecture; programs are counted."""
    workers._program.cache_clear()
    for slope in (0.1, 0.2, 0.3):
        ours = infinite_kernels(
            Serial(Dense(1, weight_scale=jnp.array(1 + slope)), _leaky(jnp.array(slope))), X
        )
        theirs = infinite_kernels(Serial(Dense(1, weight_scale=1 + slope), _leaky(slope)), X)
        np.testing.assert_allclose(np.stack([*ours]), np.stack([*theirs]), rtol=1e-12)
    assert workers._program.cache_info().misses == 4  # one for all arrays, one for every number


def _leaky(slope):
    return Activation(LeakyReLU(slope))


def test_tiles_are_given_the_scales_too():
    """Oracle: one piece."""
    architecture = Serial(Dense(1, weight_scale=jnp.array(1.2)), Activation("erf"), Flatten())
    np.testing.assert_allclose(
        infinite_kernels(architecture, X, block=1).ntk, infinite_kernels(architecture, X).ntk
    )


def test_scales_take_the_precision_of_the_inputs():
    scale = jnp.array(1.2, jnp.float64)
    kernels = infinite_kernels(Dense(1, weight_scale=scale), X.astype(jnp.float32))
    assert kernels.ntk.dtype == jnp.float32


def test_the_evidence_has_a_gradient_in_scales():
    """Oracle: central differences of the log evidence."""
    y = X[:2, :1]

    def evidence(scales):
        given = NTK(weight_scale=scales[0], bias_scale=scales[1])
        layers = Serial(Dense(1), Activation("relu"), Dense(1))
        return log_evidence(infinite_nngp(layers, X[:2], None, given, "normal"), y, 0.1)

    evidence, point = jax.jit(evidence), jnp.array([1.3, 0.4])
    for index, slope in enumerate(jax.grad(evidence)(point)):
        move = 1e-6 * jnp.eye(2)[index]
        expected = (evidence(point + move) - evidence(point - move)) / 2e-6
        np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_duals_have_gradients_in_parameters_of_any_function():
    """Oracle: E (su)(sv) = s²c of the identity, by series and in closed form."""

    @dataclasses.dataclass(frozen=True)
    class Line:
        slope: object

        def __call__(self, z):
            return self.slope * z

    q, c = jnp.ones(()), jnp.array(0.3)
    for line in (Line, lambda slope: ABReLU(slope, slope)):
        slope = jax.grad(lambda s, line=line: dual(line(s), q, q, c).value)(1.5)
        np.testing.assert_allclose(slope, 2 * 1.5 * 0.3, rtol=1e-12)


def test_attention_has_gradients_in_its_scales():
    """Oracle: central differences; of drawn logits along σ, which turns no eigenvector."""
    x = jnp.concatenate([SIGNALS[:2], SIGNALS[:1]])  # two equal inputs: a singular covariance
    embedding = PositionalEmbedding(scale=0.5)

    def closed(p):
        layer = SelfAttention(
            *(1, 1, 1, "linear", True),
            query_scale=p[0],
            value_scale=p[1],
            embedding=dataclasses.replace(embedding, scale=p[2]),
        )
        return infinite_kernels(Serial(Dense(1), layer, Flatten(), Dense(1)), x).ntk

    def drawn(p):
        layer = SelfAttention(1, 1, 1, query_scale=p[0], value_scale=p[1], output_scale=p[2])
        given = Serial(layer, Flatten()), x, None, NTK()
        return infinite_kernels_sampled(jax.random.key(3), *given, "none", 8, 2).mean.ntk

    # Roots of a singular covariance are off by 1e-9: a smaller step would show nothing else.
    point, step = jnp.array([0.9, 1.2, 0.7]), 1e-3
    for kernels in (closed, drawn):
        slopes, kernels = jax.jit(jax.jacrev(kernels))(point), jax.jit(kernels)
        assert np.all(np.isfinite(slopes))
        for index, move in enumerate(step * jnp.eye(3)):
            expected = (kernels(point + move) - kernels(point - move)) / (2 * step)
            np.testing.assert_allclose(slopes[..., index], expected, rtol=1e-5, atol=1e-5)
