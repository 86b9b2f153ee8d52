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
    ConvTranspose,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Product,
    Residual,
    SelfAttention,
    Serial,
    Upsample,
    network,
)

TANH = Activation("tanh")
END = (GlobalPool(), Dense(2))
PATH = ((0.5, 0.5, 0.0), (0.2, 0.6, 0.2), (0.0, 0.5, 0.5))
IMAGE, NODES = (5, 4, 2), (3, 4)

# layers, the shape of an input, how many arrays of parameters are plain (biases, gains)
LAYERS = {
    "conv": ((Conv(3, (2, 3), (2, 1), "same"), TANH, Conv(2, (2, 2)), TANH, *END), IMAGE, 3),
    "circular": ((Conv(3, (3, 2), (1, 2), "circular"), TANH, Flatten(), Dense(2)), IMAGE, 2),
    "transposed": ((ConvTranspose(2, (3, 2), (2, 2), "same"), TANH, *END), IMAGE, 2),
    "transposed_valid": ((ConvTranspose(2, (2, 3), (1, 2)), TANH, *END), IMAGE, 2),
    "local": ((Conv(3, (2, 2), (2, 1), "same", shared=False), TANH, *END), IMAGE, 2),
    "norm": ((Dense(4), LayerNorm(affine=True), TANH, AvgPool((2, 2)), *END), IMAGE, 4),
    "residual": ((Residual(Serial(Dense(4), TANH)), Dense(2), Flatten(), Dense(2)), NODES, 3),
    "product": ((Product(Dense(3), Serial(Dense(3), TANH)), *END), NODES, 3),
    "dense_net": ((Concatenate(Serial(Dense(3), TANH)), Upsample((2,)), *END), NODES, 2),
    "attention": ((SelfAttention(4, 2, 3), TANH, *END), NODES, 2),
    "tied_attention": ((SelfAttention(4, 2, 3, tied=True, scaling="linear"), *END), NODES, 2),
    "graph": ((Aggregate(PATH), Dense(4), TANH, *END), NODES, 2),
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
