"""Structured kernels of every layer that `network` reads, against plain Jacobians."""

import jax
import numpy as np
import pytest

from theorylab.kernels import ntk_full
from theorylab.kernels.finite.program import program_of, uses_of
from theorylab.models import (
    Activation,
    Aggregate,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    SelfAttention,
    Serial,
    network,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.mixing import Upsample

TANH = Activation("tanh")
END = (GlobalPool(), Dense(2))
PATH = ((0.5, 0.5, 0.0), (0.2, 0.6, 0.2), (0.0, 0.5, 0.5))
IMAGE, NODES = (5, 4, 2), (3, 4)

# layers, the shape of an input, how many arrays of parameters are plain (biases, gains)
LAYERS = {
    "conv": (
        (Conv(3, (2, 3), (2, 1), "same"), TANH, Conv(2, (3, 2), (1, 2), "circular"), *END),
        IMAGE,
        3,
    ),
    "transposed": (
        (ConvTranspose(2, (3, 2), (2, 2), "same"), TANH, ConvTranspose(2, (2, 3), (1, 2)), *END),
        IMAGE,
        3,
    ),
    "local": (
        (Conv(3, (2, 2), (2, 1), "same", shared=False), LayerNorm(affine=True), TANH, *END),
        IMAGE,
        4,
    ),
    "branches": (
        (Residual(Serial(Dense(4), TANH)), Product(Dense(3), Serial(Dense(3), TANH)), *END),
        NODES,
        4,
    ),
    "graph": (
        (Aggregate(PATH), Concatenate(Serial(Dense(3), TANH)), Upsample((2,)), AvgPool((2,)), *END),
        NODES,
        2,
    ),
    "attention": (
        (SelfAttention(4, 2, 3), TANH, SelfAttention(3, 1, 2, "linear", tied=True), *END),
        NODES,
        3,
    ),
    "flat": ((Dense(3), TANH, Conv(2, (2,)), Flatten(), Dense(2)), NODES, 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_structured_kernels_are_those_of_plain_jacobians(name):
    """Oracle: Jacobian contraction. And every weight is recognised: only the rest is plain."""
    layers, shape, num_plain = LAYERS[name]
    model = network(Serial(*layers), shape, bias="normal")
    params = model.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (3, *shape))

    program = program_of(model.apply, params, jax.ShapeDtypeStruct(shape, x.dtype))
    in_factors = {use.leaf for use in uses_of(program)}
    assert len(program.leaves) - len(in_factors) == num_plain

    structured = ntk_full(model.apply, params, x, method="structured")
    plain = ntk_full(model.apply, params, x, method="jacobian")
    np.testing.assert_allclose(structured, plain, rtol=1e-10, atol=1e-12)
