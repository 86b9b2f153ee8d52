"""How many neurons are active: the share with φ(z) > 0, layer by layer of any architecture.

    share_l = mean over examples, positions and channels of 1[φ(z_l) > 0]

A ReLU layer of a fresh network has about ½, by symmetry; training makes the share fall.

Source: karp · wrn-sparsity · 3.1, Fig. 3.2, B.3.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import NTK, Activation, Architecture, Parametrization, activation, network
from theorylab.models.network import in_batches
from theorylab.models.parts import Bias
from theorylab.models.unfold import map_layers
from theorylab.typing import Params

Probe = Callable[[Params, Array], tuple[Array, ...]]


def activations(
    architecture: Architecture,
    input_shape: tuple[int, ...],
    parametrization: Parametrization = NTK(),  # noqa: B008 (it is frozen)
    bias: Bias = "none",
) -> Probe:
    """Make (params, inputs) ─► φ(z) of every `Activation`, in the order in which they are computed.

    Args:
        architecture: What the network is; its parameters are those of `network` with the same
            arguments.
        input_shape: The shape of one input.
        parametrization: That of the network.
        bias: That of the network.

    Example:
        >>> import jax
        >>> from theorylab.models import mlp
        >>> probe, model = activations(mlp([3, 5]), (2,)), network(mlp([3, 5]), (2,))
        >>> [values.shape for values in probe(model.init(jax.random.key(0)), jnp.ones((4, 2)))]
        [(4, 3), (4, 5)]
    """
    seen: list[Array] = []

    def tap(layer: Architecture) -> Architecture:
        if not isinstance(layer, Activation):
            return layer
        function = activation(layer.function)

        def watched(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
            seen.append(function(z))
            return seen[-1]

        return Activation(watched)

    model = network(map_layers(architecture, tap), input_shape, parametrization, bias)

    def probe(params: Params, x: Array) -> tuple[Array, ...]:
        seen.clear()
        model.apply(params, x)
        found = tuple(seen)
        seen.clear()  # what is traced must not outlive its trace
        return found

    return probe


def active_shares(
    probe: Probe, params: Params, x: Float[Array, "n ..."], at_once: int | None = None
) -> Float[Array, " layers"]:
    """The share of active neurons of every layer, averaged over inputs.

    Args:
        probe: From `activations`.
        params: The network's parameters.
        x: Inputs.
        at_once: How many inputs are taken at a time, the activations of which must fit into memory;
            all by default. A `BatchNorm` has the statistics of those.

    Example:
        >>> import jax
        >>> from theorylab.models import Serial
        >>> probe = activations(Serial(Activation("relu"), Activation("cosine")), (4,))
        >>> active_shares(probe, ((), ()), jnp.array([[-1.0, 0.0, 1.0, -2.0]])).tolist()
        [0.25, 1.0]
    """

    def shares(params: Params, x: Array) -> Array:
        values = probe(params, x)
        if not values:
            raise ValueError("the architecture must have an Activation, got none.")
        return jnp.stack([jnp.mean(value > 0, dtype=x.dtype) for value in values])

    def repeated(params: Params, x: Array) -> Array:
        found = shares(params, x)
        return jnp.broadcast_to(found, (len(x), *found.shape))

    if at_once is None or len(x) <= at_once:
        return shares(params, x)
    return in_batches(repeated, at_once)(params, x).mean(axis=0)
