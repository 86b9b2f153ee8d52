"""Products with fixed arrays at infinite width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.models import (
    NTK,
    Activation,
    Aggregate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    Serial,
    network,
)
from theorylab.models.einsum import Einsum

SCALES = NTK(weight_scale=1.4, bias_scale=0.5)
RELU = Activation("relu")
X = jax.random.normal(jax.random.key(1), (3, 4, 2))
IMAGES = X.reshape(3, 2, 2, 2)
A = np.asarray(jax.random.normal(jax.random.key(2), (4, 5)))


def kernels(*layers, x=X):
    return infinite_kernels(Serial(*layers), x, None, SCALES, "normal")


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


FIRST = (Conv(6, (2,), padding="same"), RELU)
CASES = {
    "a matrix": (Einsum("sc,st->tc", A), lambda k: np.einsum("...su,st,uv->...tv", k, A, A)),
    "a sum": (Einsum("sc,s->c", A[:, 0]), lambda k: A[:, 0] @ k @ A[:, 0]),
    "factors": (Einsum("sc,s->sc", A[:, 0]), lambda k: k * np.outer(A[:, 0], A[:, 0])),
    "a number": (Einsum("sc,->sc", 3.0), lambda k: 9 * k),
    "new positions": (
        Einsum("sc,st->tsc", A),
        lambda k: np.einsum("...su,st,uv->...tvsu", k, A, A),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_positions_are_multiplied_as_their_covariance_is(name):
    """Oracle: A K Aᵀ, multiplied out in NumPy from the kernel of the layers before."""
    layer, expected = CASES[name]
    for ours, before in zip(kernels(*FIRST, layer), kernels(*FIRST), strict=True):
        close(ours, expected(np.asarray(before)))


def test_exchanged_axes_and_equal_positions():
    """Oracle: transposition of the kernel of an image; its mean where s = s′ is enough."""
    first = (Conv(6, (2, 1), padding="same"), RELU)
    for ours, before in zip(
        kernels(*first, Einsum("hwc->whc"), x=IMAGES), kernels(*first, x=IMAGES), strict=True
    ):
        close(ours, np.einsum("ijhkwl->ijwlhk", before))
    weights = np.abs(A[:, 1])
    ours = kernels(*FIRST, Einsum("sc,s->sc", weights), Flatten())
    for one, before in zip(ours, kernels(*FIRST), strict=True):
        close(one, np.einsum("...ss,s->...", before, weights**2) / 4)


def test_a_matrix_of_positions_is_a_graph():
    """Oracle: `Aggregate`, which multiplies by the rows of its graph."""
    graph = tuple(map(tuple, A[:, :4].tolist()))
    ours = kernels(*FIRST, Einsum("tc,st->sc", graph), Dense(1), RELU, GlobalPool())
    theirs = kernels(*FIRST, Aggregate(graph), Dense(1), RELU, GlobalPool())
    close(np.stack([*ours]), np.stack([*theirs]))


MIXED = {
    "channels mixed": Einsum("hwc,ck->hwk", A),
    "channels scaled": Einsum("hwc,c->hwc", A[:, 0]),
    "channels summed": Einsum("hwc,hk->whk", A[:2]),
    "channels as positions": Einsum("hwc->chw"),
    "positions as channels, and rows summed": Einsum("hwc,hk->kcw", A[:2]),
    "all at once": Einsum("hwc,wco->cow", A[:, :4].reshape(2, 4, 2)),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("end", [GlobalPool(), Flatten(), Serial()])
def test_mixed_channels_have_the_covariance_of_a_linear_map(name, end):
    """Oracle: J (K ⊗ I) Jᵀ with the matrix J of the map, as the finite network has it."""
    first, layer = Conv(4, (2, 1), padding="same"), MIXED[name]
    apply = network(layer, (2, 2, 4)).apply
    matrix = jax.jacobian(lambda x: apply((), x[None])[0])(jnp.zeros((2, 2, 4)))
    for ours, before in zip(
        kernels(first, layer, end, x=IMAGES), kernels(first, x=IMAGES), strict=True
    ):
        full = np.einsum("pqohwc,PQoHWc,ijhHwW->ijpPqQ", matrix, matrix, before, optimize=True)
        full = full / matrix.shape[2]  # the mean over the channels that come out
        if isinstance(end, GlobalPool):
            full = full.mean(axis=(2, 3, 4, 5))
        elif isinstance(end, Flatten):
            full = np.einsum("ijppqq->ijpq", full).mean(axis=(2, 3))
        close(ours, full)


def test_what_is_not_defined_is_refused_in_words():
    with pytest.raises(ValueError, match="to mix channels"):
        kernels(Einsum("sc,ck->sk", np.ones((2, 3))), Dense(1))
    with pytest.raises(ValueError, match="must stand after a Dense"):  # channels are correlated
        kernels(Dense(2), Einsum("sc,ck->sk", np.ones((2, 3))), RELU)
    kernels(Einsum("sc,s->sc", A[:, 0]), Dense(1))  # inputs, all channels alike
