"""Layers and activations of the user's at infinite width, written as the docs say."""

import re
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import dual, infinite_kernels, infinite_nngp, quadrature_dual
from theorylab.models import (
    NTK,
    Activation,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    Serial,
)
from theorylab.models.custom_layer import CustomLayer

PAGE = Path(__file__).parents[3] / "docs" / "your-own-layer.md"
X = jax.random.normal(jax.random.key(1), (3, 4, 2))


@pytest.fixture(scope="module")
def page():
    """Give what the blocks of the page define, in one namespace."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    namespace = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    return namespace


def test_layers_written_from_the_docs_agree_with_monte_carlo(page):
    """Oracle: 50 networks of width 128: three standard errors, and 1/width."""
    for drawn, limit in zip(page["drawn"], page["limit"], strict=True):
        gap, largest = np.abs(drawn.mean - limit), float(np.max(limit))
        assert np.all(gap < 3 * drawn.error + largest / 128)
        assert np.all(drawn.error < 0.06 * largest)  # else it would say nothing


def test_an_activation_of_the_users_has_the_dual_it_brings(page):
    """Oracle: the Hermite series of the same function, which needs no closed form."""
    parabola = page["Parabola"](0.4)
    q1, q2, c = jnp.array([1.0, 0.5]), jnp.array([2.0, 0.7]), jnp.array([0.3, -0.4])
    for ours, series in zip(
        dual(parabola, q1, q2, c), quadrature_dual(parabola.__call__, q1, q2, c), strict=True
    ):
        np.testing.assert_allclose(ours, series, rtol=1e-10)


@dataclass(frozen=True)
class Copy(CustomLayer):
    """Dense, as a user would write it, σ_w = 1."""

    outputs = "new"

    def output_shape(self, input_shape):
        return (*input_shape[:-1], 1)

    def apply(self, params, x):
        return x[..., :1]

    def kernel(self, kernels):
        return kernels.replace(ntk=kernels.nngp + kernels.ntk)


@dataclass(frozen=True)
class Normed(CustomLayer):
    """Layer normalisation without ε, as a user would write it."""

    needs_gaussian = True
    outputs = "kept"

    def output_shape(self, input_shape):
        return input_shape

    def apply(self, params, x):
        return x / jnp.linalg.norm(x, axis=-1, keepdims=True)

    def kernel(self, kernels):
        scale = 1 / jnp.sqrt(kernels.variance1 * kernels.variance2)
        return kernels.replace(nngp=scale * kernels.nngp, ntk=scale * kernels.ntk)


@pytest.mark.parametrize("end", [Flatten(), GlobalPool()])
def test_custom_layers_are_those_they_imitate(end):
    """Oracle: the built-in layers; with pairs of positions and without, alone and in pairs."""
    relu, first = Activation("relu"), Conv(1, (2,), padding="same")
    custom = Serial(first, Normed(), relu, Residual(Copy()), end, Copy())
    known = Serial(first, LayerNorm(epsilon=0.0), relu, Residual(Dense(1)), end, Dense(1))
    for x2 in (None, X[:2] + 1):
        ours, theirs = (infinite_kernels(each, X, x2) for each in (custom, known))
        np.testing.assert_allclose(np.stack([*ours]), np.stack([*theirs]), rtol=1e-12)
    np.testing.assert_allclose(infinite_nngp(custom, X), infinite_nngp(known, X), rtol=1e-12)


def test_what_a_custom_layer_cannot_do_is_said_in_words():
    class Unread(CustomLayer):
        def output_shape(self, input_shape):
            return input_shape

        def apply(self, params, x):
            return x

    class Wrong(Unread):
        def kernel(self, kernels):
            return kernels.replace(nngp=kernels.nngp[..., 0])

    class Other(Unread):
        def kernel(self, kernels):
            return kernels

    scales = NTK()
    with pytest.raises(NotImplementedError, match="Unread must have a method kernel"):
        infinite_kernels(Serial(Dense(1), Unread()), X, None, scales)
    with pytest.raises(ValueError, match="kernel of Wrong must give an nngp of shape"):
        infinite_kernels(Serial(Dense(1), Wrong(), Flatten()), X, None, scales)
    with pytest.raises(ValueError, match="Normed must stand after a Dense"):
        infinite_kernels(Serial(Normed(), Dense(1)), X, None, scales)
    with pytest.raises(ValueError, match="must stand after a Dense"):  # outputs are not Gaussian
        infinite_kernels(Serial(Dense(1), Other(), Activation("relu")), X, None, scales)
