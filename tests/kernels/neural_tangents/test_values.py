"""Infinite-width kernels against those of Neural Tangents, network by network.

Oracle: Neural Tangents 0.6.5, whose kernels are stored in `values.npz`; `make_values.py` made them,
and has the same networks by the same names.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.models import (
    NTK,
    Activation,
    Aggregate,
    Architecture,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    LayerNorm,
    Parametrization,
    Residual,
    SelfAttention,
    Serial,
    Standard,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.families import (
    ABReLU,
    Cosine,
    Erf,
    Exponential,
    GaussianActivation,
    Hermite,
    LeakyReLU,
    Monomial,
    Polynomial,
    RectifiedMonomial,
    Sine,
    normalised_exponential,
    rbf,
)
from theorylab.models.mixing import Upsample
from theorylab.models.parts import Bias

VALUES = np.load(Path(__file__).with_name("values.npz"))
NAMES = [str(name) for name in VALUES["names"]]
HE = math.sqrt(2.0)
RELU, ERF = Activation("relu"), Activation("erf")


class Case(NamedTuple):
    """A network, and how its kernels are asked for."""

    architecture: Architecture
    inputs: str = "vectors"
    parametrization: Parametrization = NTK(weight_scale=1.3, bias_scale=0.2)
    bias: Bias = "normal"
    settings: dict[str, Any] = {}  # noqa: RUF012  (not written to)


OUTPUT = Dense(1, bias=False, weight_scale=1.0)


def _hidden(function: Any, depth: int, scales: NTK) -> Case:
    layers = (Dense(1), Activation(function)) * depth
    return Case(Serial(*layers, OUTPUT), parametrization=scales)


def _on(inputs: str, *layers: Architecture, **settings: Any) -> Case:
    return Case(Serial(*layers, OUTPUT), inputs, settings=settings)


DENSE = {
    "linear": Case(Dense(1), parametrization=NTK(weight_scale=1.5, bias_scale=0.3)),
    "deep linear": Case(
        Serial(*[Dense(1)] * 3), parametrization=NTK(weight_scale=0.9, bias_scale=0.3)
    ),
    "relu, no biases": Case(
        Serial(*(Dense(1), RELU) * 2, Dense(1)), parametrization=NTK(weight_scale=HE), bias="none"
    ),
    "relu": _hidden("relu", 3, NTK(weight_scale=HE, bias_scale=0.1)),
    "relu, scales by layer": Case(
        Serial(
            *(Dense(1, weight_scale=1.7, bias_scale=0.2), RELU),
            *(Dense(1, weight_scale=0.6, bias=False), RELU),
            *(Dense(1, weight_scale=1.1, bias_scale=1.3), RELU),
            Dense(1, weight_scale=2.0, bias_scale=0.05),
        )
    ),
    "relu, 20 hidden": _hidden("relu", 20, NTK(weight_scale=HE, bias_scale=0.1)),
    "erf, 20 hidden": _hidden("erf", 20, NTK(weight_scale=1.4, bias_scale=0.1)),
    "ends with relu": Case(
        Serial(*(Dense(1), RELU) * 2), parametrization=NTK(weight_scale=1.2, bias_scale=0.4)
    ),
}

SMALL = NTK(weight_scale=0.8, bias_scale=0.2)
TWICE = {
    "leaky relu": LeakyReLU(0.2),
    "two slopes": ABReLU(-0.3, 1.4),
    "abs": "abs",
    "sign": "sign",
    "erf": "erf",
    "scaled erf": Erf(0.7, 1.3, 0.2),
    "sigmoid like": "sigmoid_like",
    "gelu": "gelu",
    "sine": "sine",
    "scaled sine": Sine(1.2, 0.8, 0.3),
    "cosine": "cosine",
    "scaled cosine": Cosine(1.2, 0.8, 0.3),
    "rbf": rbf(0.7),
    "gabor": "gabor",
    "exponential": Exponential(0.5, 0.4),
    "gaussian": GaussianActivation(0.9, 0.6),
    "square": "square",
    "cube": "cube",
    "fifth power": Monomial(5),
    "polynomial": Polynomial((0.2, -0.5, 0.3, 0.1)),
    "tanh": "tanh",
    "swish": "swish",
}
ONCE = {"step": "step", "relu squared": "relu_squared", "relu cubed": RectifiedMonomial(3)}
ACTIVATIONS = {
    **{name: _hidden(function, 2, SMALL) for name, function in TWICE.items()},
    **{name: _hidden(function, 1, SMALL) for name, function in ONCE.items()},
    "hermite": Case(
        Serial(OUTPUT, Activation(Hermite(3)), OUTPUT, Activation(Hermite(2)), OUTPUT), "units"
    ),
    "normalised exponential": Case(
        Serial(
            *(OUTPUT, Activation(normalised_exponential(1.2))),
            *(OUTPUT, Activation(normalised_exponential(0.7)), OUTPUT),
        ),
        "units",
    ),
}


def _conv(*window: int, **settings: Any) -> Conv:
    return Conv(1, window, **settings)


def _same(*window: int) -> Conv:
    return Conv(1, window, padding="same")


def _around(*window: int) -> Conv:
    return Conv(1, window, padding="circular")


FLAT, MEAN = Flatten(), GlobalPool()
MYRTLE = (_conv(3, 3, padding="same", bias=False), RELU)
IMAGES = {
    "signal, valid, flat": _on("signals", _conv(3), RELU, _conv(2), RELU, FLAT),
    "signal, same, pooled": _on("signals", *(_same(3), RELU) * 2, MEAN),
    "signal, circular, pooled": _on("signals", *(_around(3), RELU) * 2, MEAN),
    "image, valid, flat": _on("images", _conv(3, 2), RELU, _conv(2, 2), RELU, FLAT),
    "image, same, flat": _on("images", *(_same(3, 2), RELU) * 2, FLAT),
    "image, valid, pooled": _on("images", _conv(3, 2), RELU, _conv(2, 2), RELU, MEAN),
    "image, circular, pooled": _on("images", *(_around(3, 2), ERF) * 2, MEAN),
    "image, same, strides": _on(
        "images", _conv(3, 3, padding="same", strides=(2, 1)), RELU, _conv(2, 2), RELU, MEAN
    ),
    "image, circular, strides": _on(
        "images", _conv(3, 2, padding="circular", strides=(2, 2)), RELU, FLAT
    ),
    "image, valid, strides": _on("images", _conv(2, 2, strides=(1, 2)), RELU, MEAN),
    "volume, same, pooled": _on("volumes", _same(2, 3, 2), RELU, MEAN),
    "volume, valid, flat": _on("volumes", _conv(2, 3, 2), RELU, FLAT),
    "dense at every position": _on(
        "images", Dense(1), RELU, _conv(3, 2), RELU, Dense(1, bias=False), RELU, MEAN
    ),
    "average pool": _on("images", _same(3, 3), RELU, AvgPool((2, 2)), _conv(2, 2), FLAT),
    "average pool, strides": _on("images", _same(3, 3), RELU, AvgPool((3, 2), (2, 1)), FLAT),
    "average pool, same": _on(
        "images", _same(3, 3), RELU, AvgPool((3, 2), (2, 1), "same"), _conv(2, 2), RELU, MEAN
    ),
    "sum pool, circular": _on(
        "images", _same(3, 3), RELU, AvgPool((3, 2), (1, 2), "circular", "sum"), FLAT
    ),
    "global sum": _on("images", _same(3, 3), RELU, GlobalPool("sum")),
    "myrtle": _on("images", *MYRTLE * 2, AvgPool((2, 2)), *MYRTLE, AvgPool((3, 2)), *MYRTLE, MEAN),
    "local, valid, pooled": _on(
        "images", _conv(3, 2, shared=False), RELU, _conv(2, 2, shared=False), RELU, MEAN
    ),
    "local, same, flat": _on("images", _conv(3, 2, padding="same", shared=False), RELU, FLAT),
    "local after conv": _on("signals", _same(3), RELU, _conv(2, shared=False), RELU, MEAN),
}


def _spread(*window: int, **settings: Any) -> ConvTranspose:
    return ConvTranspose(1, window, **settings)


TRANSPOSED = {
    "transposed, valid": _on("signals", _spread(3), RELU, FLAT),
    "transposed, strides": _on("signals", _spread(3, strides=(2,)), RELU, MEAN),
    "transposed, same": _on(
        "signals",
        _spread(3, strides=(2,), padding="same"),
        RELU,
        _spread(2, padding="same"),
        MEAN,
    ),
    "transposed, circular": _on("signals", _spread(3, padding="circular"), RELU, MEAN),
    "transposed, circular, strides": _on(
        "signals", _spread(3, padding="circular", strides=(2,)), RELU, MEAN
    ),
    "transposed image": _on("images", _spread(2, 3, strides=(1, 2), padding="same"), RELU, FLAT),
    "transposed image, valid": _on("images", _spread(2, 3, strides=(2, 1)), RELU, MEAN),
}


def _residual(*branch: Architecture) -> Residual:
    return Residual(Serial(*branch))


def _attention(bias: bool = True) -> SelfAttention:
    return SelfAttention(1, 1, 1, scaling="linear", tied=True, bias=bias)


ONE = Dense(1)
NORM = LayerNorm(epsilon=1e-12)
MIXING = {
    "residual": _on("vectors", ONE, _residual(RELU, ONE), RELU),
    "residual blocks": _on("vectors", ONE, *[_residual(RELU, ONE, RELU, ONE)] * 3, RELU),
    "residual convolutions": _on("images", _same(3, 3), _residual(RELU, _same(3, 2)), RELU, MEAN),
    "residual with shortcut": _on(
        "vectors",
        Residual(Serial(ONE, RELU, ONE), Dense(1, weight_scale=0.7, bias=False)),
        RELU,
    ),
    "product": _on("vectors", Product(Serial(ONE, RELU, ONE), ONE)),
    "concatenation": _on("vectors", Dense(4), Concatenate(Serial(RELU, Dense(6))), ONE, RELU),
    "layer norm": _on("vectors", ONE, NORM, RELU, ONE, NORM, RELU),
    "layer norm of images": _on("images", _same(3, 2), NORM, RELU, MEAN),
    "dropout": _on("vectors", ONE, RELU, Dropout(0.7), ONE, RELU, training=True),
    "dropout of images": _on(
        "images", _same(3, 2), RELU, Dropout(0.7), ONE, RELU, MEAN, training=True
    ),
    "graph": _on("signals", Aggregate(), ONE, RELU, Aggregate(), MEAN),
    "graph, flat": _on("signals", ONE, RELU, Aggregate(), ONE, RELU, FLAT),
    "attention": _on("signals", ONE, RELU, _attention(bias=False), RELU, MEAN),
    "attention with biases": _on("signals", ONE, RELU, _attention(), FLAT),
    "attention to images": _on("images", _attention(), RELU, FLAT),
    "upsampling, nearest": _on(
        "images", _same(3, 2), RELU, Upsample((2, 3)), _same(3, 2), RELU, MEAN
    ),
    "upsampling, linear": _on(
        "images", _same(3, 2), RELU, Upsample((2, 3), "linear"), _same(3, 2), RELU, FLAT
    ),
}
LIBRARY = Standard(weight_scale=1.3, bias_scale=0.2)
STANDARD = {
    "standard": Case(Serial(Dense(20), RELU, Dense(10), RELU, ONE), parametrization=LIBRARY),
    "standard, no biases": Case(
        Serial(Dense(20), ERF, ONE), "vectors", Standard(weight_scale=LIBRARY.weight_scale), "none"
    ),
    "standard convolutions": Case(
        Serial(
            *(Conv(8, (3, 2), padding="same"), RELU, Conv(6, (2, 2), padding="same"), RELU),
            *(MEAN, ONE),
        ),
        "images",
        LIBRARY,
    ),
}
CASES = {**DENSE, **ACTIVATIONS, **IMAGES, **TRANSPOSED, **MIXING, **STANDARD}
# One batch with itself is asked for as such: with dropout it matters, and for some others.
ALONE = ("relu", "dropout", "dropout of images", "graph", "attention", "myrtle", "standard")


def _kernels(name: str, dtype: str) -> np.ndarray:
    """Both kernels between the three inputs x1 and all five, (kernel, 3, 5)."""
    case = CASES[name]
    x = jnp.asarray(VALUES[case.inputs], dtype)
    graphs = jnp.swapaxes(jnp.asarray(VALUES["graphs"], dtype), 1, 2)  # its edges go from s to t

    def between(second: slice | None) -> np.ndarray:
        given: dict[str, Any] = dict(case.settings)
        if name.startswith("graph"):
            given |= {"graphs1": graphs[:3], "graphs2": None if second is None else graphs[second]}
        x2 = None if second is None else x[second]
        scales, bias = case.parametrization, case.bias
        return np.stack([*infinite_kernels(case.architecture, x[:3], x2, scales, bias, **given)])

    if name in ALONE:
        return np.concatenate([between(None), between(slice(3, 5))], axis=-1)
    return between(slice(0, 5))


def _gap(ours: np.ndarray, theirs: np.ndarray, where: np.ndarray | bool = True) -> float:
    """The largest difference where they have a number, over the largest entry of its kernel."""
    known = np.isfinite(theirs)
    largest = np.max(np.abs(theirs), axis=(1, 2), keepdims=True, where=known, initial=0.0)
    return float(np.max(np.abs(ours - theirs) / largest, where=known & where, initial=0.0))


# Inputs with themselves. There Neural Tangents finds angles of 0 as √(1 − ρ²) of a rounded ρ, off
# by the root of the precision in the tangent kernel of ReLU: 1e-9 in float64, 2e-5 in float32.
SELF = np.eye(3, 5, dtype=bool)[None]


def test_every_stored_network_is_compared():
    assert set(CASES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_those_of_neural_tangents(name):
    """NNGP and tangent kernel; what is NaN there (rectified monomials at ρ = 1) is finite here."""
    theirs = VALUES["float64"][NAMES.index(name)]
    ours = _kernels(name, "float64")
    assert np.isfinite(ours).all()
    assert _gap(ours, theirs, ~SELF) < 1e-10
    assert _gap(ours, theirs) < 2e-9


@pytest.mark.parametrize("name", NAMES[::2])
def test_so_they_are_in_float32(name):
    """Every second network, against what Neural Tangents has in float32 and in float64."""
    index = NAMES.index(name)
    ours = _kernels(name, "float32")
    assert ours.dtype == np.float32
    assert _gap(ours, VALUES["float64"][index]) < 1e-5
    assert _gap(ours, VALUES["float32"][index], ~SELF) < 1e-5
