"""Masked inputs and attention against Neural Tangents, network by network.

Oracle: Neural Tangents 0.6.6, whose kernels are stored in `sequence_values.npz`;
`make_sequence_values.py` made them, and has the same networks by the same names.
"""

import importlib.util
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.models import (
    NTK,
    Activation,
    Architecture,
    AvgPool,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    SelfAttention,
    Serial,
    Standard,
)
from theorylab.models.architecture import ConvTranspose
from theorylab.models.masks import mask_constant
from theorylab.models.mixing import Resize, Upsample
from theorylab.models.positional import PositionalEmbedding

HERE = Path(__file__).parent
VALUES = np.load(HERE / "sequence_values.npz")
NTK_SCALES, STANDARD = (kind(weight_scale=1.3, bias_scale=0.2) for kind in (NTK, Standard))
RELU, ERF, POOL, DENSE = Activation("relu"), Activation("erf"), GlobalPool(), Dense(1)
IMAGES = (
    *("average pool", "strides", "layer norm of rows", "layer norm of images", "transposed"),
    *("images", "images, root", "normalized edges", "smaller", "smaller, no antialias", "nearest"),
)


def _made_inputs() -> Any:
    spec = importlib.util.spec_from_file_location("made", HERE / "make_sequence_values.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.inputs()


INPUTS = _made_inputs()


def _norm(*axes: int) -> LayerNorm:
    return LayerNorm(epsilon=1e-12, axes=axes)


def _masked() -> dict[str, Architecture]:
    conv, wide = Conv(1, (3,)), Conv(1, (3,), padding="same")
    images = Conv(1, (3, 3), padding="same")
    end = (RELU, POOL, DENSE)
    return {
        "pool": Serial(conv, *end),
        "sum pool": Serial(wide, ERF, GlobalPool("sum"), DENSE),
        "cosine": Serial(DENSE, Activation("cosine"), POOL, DENSE),
        "flatten": Serial(Conv(1, (2,), (2,), "same"), RELU, Flatten(), DENSE),
        "layer norm": Serial(DENSE, _norm(-1), RELU, wide, *end),
        "layer norm of all": Serial(DENSE, _norm(0, 1), RELU, wide, *end),
        "local": Serial(Conv(1, (3,), shared=False), RELU, Flatten(), DENSE),
        "residual": Serial(DENSE, Residual(Serial(RELU, wide)), *end),
        "standard": Serial(Conv(16, (3,), padding="same"), *end),
        "dropout": Serial(DENSE, RELU, Dropout(0.8), POOL, DENSE),
        "resize": Serial(DENSE, RELU, Upsample((2,), "linear"), Conv(1, (2,)), *end),
        "outputs with positions": Serial(conv, RELU, DENSE, GlobalPool("sum")),
        "average pool": Serial(images, RELU, AvgPool((2, 2)), Conv(1, (2, 2)), ERF, POOL, DENSE),
        "strides": Serial(
            *(Conv(1, (3, 2), (2, 1), "same"), RELU, Conv(1, (3, 3), (2, 2), "circular"), RELU),
            *(Flatten(), DENSE),
        ),
        "normalized edges": Serial(
            *(images, RELU, AvgPool((2, 3), (1, 2), "same", count_padding=False)),
            *(Conv(1, (2, 1)), ERF, POOL, DENSE),
        ),
        "smaller": Serial(DENSE, RELU, Resize((4, 3)), Conv(1, (2, 2)), *end),
        "smaller, no antialias": Serial(DENSE, Resize((4, 5), antialias=False), images, *end),
        "nearest": Serial(
            *(DENSE, RELU, Resize((4, 6), "nearest"), Conv(1, (2, 2)), RELU, Flatten(), DENSE)
        ),
        "layer norm of rows": Serial(images, _norm(1, 2), *end),
        "layer norm of images": Serial(images, _norm(0, 1, 2), *end),
        "transposed": Serial(ConvTranspose(1, (2, 2), (2, 2)), *end),
    }


def _attention() -> dict[str, Architecture]:
    linear = {"scaling": "linear", "tied": True}
    root = {"scaling": "root", "mechanism": "identity"}
    decay = {"decay": lambda distance: jnp.exp(-0.3 * distance), "norm": 1.5}

    def attend(**settings: Any) -> Architecture:
        matrices = {"query_scale": 1.4, "key_scale": 0.9, "value_scale": 1.2, "output_scale": 0.8}
        layer = SelfAttention(1, 1, 1, bias_scale=0.3, **matrices, **settings)
        return Serial(Dense(3), layer, RELU, POOL, DENSE)

    found = {"softmax whole": attend(**linear), "root whole": attend(**root)}
    for mechanism in ("softmax", "identity", "abs", "relu"):
        found[mechanism] = attend(**linear, mechanism=mechanism)
    found["root"] = attend(**root)
    for join in ("sum", "concatenate"):
        for in_values in (False, True):
            name = f"{join}{' in values' if in_values else ''}"
            given: dict[str, Any] = {"join": join, "scale": 0.7, "in_values": in_values}
            more = {**given, **decay, "channels": 5 if join == "concatenate" else None}
            found[name] = attend(**linear, embedding=PositionalEmbedding(**given))
            found[f"{name}, decay"] = attend(**linear, embedding=PositionalEmbedding(**more))
            found[f"{name}, root"] = attend(**root, embedding=PositionalEmbedding(**given))
    of_images = PositionalEmbedding(in_values=True, **decay)
    found["images"] = attend(**linear, embedding=of_images)
    found["images, root"] = attend(**root, embedding=of_images)
    return found


CASES = {**_masked(), **_attention()}


def test_every_stored_network_is_compared():
    assert set(CASES) == set(VALUES.files)


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_those_of_neural_tangents(name):
    """NNGP and tangent kernel, all pairs of inputs with different masks."""
    x = jnp.asarray(INPUTS["images" if name in IMAGES else "sequences"])
    inputs = jnp.where(x == 99.0, 0.5, x) if name.endswith("whole") else mask_constant(x, 99.0)
    scales = STANDARD if name == "standard" else NTK_SCALES
    kernels = infinite_kernels(
        CASES[name], inputs, parametrization=scales, bias="normal", training=True
    )
    for ours, theirs in zip(kernels, VALUES[name], strict=True):
        np.testing.assert_allclose(ours[:3], theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())
