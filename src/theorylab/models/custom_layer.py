"""A layer of your own: a frozen dataclass with a finite and an infinite reading.

    class Shift(CustomLayer):
        def output_shape(self, input_shape): ...     shape of one input ─► shape of one output
        def init(self, key, input_shape): ...        ─► parameters; () if there are none
        def apply(self, params, x): ...              inputs (n, ...) ─► outputs (n, ...)
        def kernel(self, kernels): ...               kernels of inputs ─► kernels of outputs

It stands in an architecture like any other layer. `outputs` says what its outputs are at infinite
width, which decides what may stand after it.
"""

import abc
from typing import ClassVar, Literal

from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer, fixed
from theorylab.typing import Params, RandomKey

from .architecture import Architecture, Shape


class LayerKernels(Answer):
    """The kernels that a custom layer is given, and gives back changed.

    In front stand the pairs of inputs, of which a layer need not know how many axes they have; at
    the end stand the positions: (..., H, W) where only equal positions s = s′ count, and
    (..., H, H′, W, W′) where all pairs of them do, which `paired` says.

    Args:
        nngp: The covariance K(x(s), x′(s′)), the mean over channels.
        ntk: The tangent kernel Θ, 0 before the first parameters.
        variance1: K(x(s), x(s)), with axes that fit those of `nngp`.
        variance2: K(x′(s′), x′(s′)), likewise.
        shape: The shape of one input here, (*positions, channels).
        paired: Whether there are pairs of positions (s, s′), or s = s′ only.

    Example: a layer that doubles its inputs.
        >>> import jax.numpy as jnp
        >>> one = jnp.array([1.0])
        >>> kernels = LayerKernels(one, one, one, one, shape=(3,), paired=False)
        >>> doubled = kernels.replace(nngp=4 * kernels.nngp, ntk=4 * kernels.ntk)
        >>> float(doubled.nngp[0]), doubled.shape
        (4.0, (3,))
    """

    nngp: Float[Array, "..."]
    ntk: Float[Array, "..."]
    variance1: Float[Array, "..."]
    variance2: Float[Array, "..."]
    shape: Shape = fixed()
    paired: bool = fixed()


class CustomLayer(Architecture):
    """The base of layers of your own; see the page "Your own layer" of the docs.

    A subclass is a frozen dataclass, whose fields are its settings. Class attributes say what the
    infinite-width reading must know:

        outputs           "new": centred Gaussians made by new independent weights, as by `Dense`;
                          "kept": as Gaussian as its inputs, which are moved or added up;
                          "other": anything else, as after an activation
        needs_gaussian    its inputs must be Gaussian, as those of an activation
        needs_pairs       its kernel reads K(s, s′) at different positions s ≠ s′

    Example: random signs for weights, σ_w = 1.
        >>> import math
        >>> from dataclasses import dataclass
        >>> import jax
        >>> from theorylab.models import Activation, Dense, Serial, network
        >>> @dataclass(frozen=True)
        ... class Signs(CustomLayer):
        ...     width: int
        ...     outputs = "new"
        ...
        ...     def output_shape(self, input_shape):
        ...         return (*input_shape[:-1], self.width)
        ...
        ...     def init(self, key, input_shape):
        ...         return jax.random.rademacher(key, (input_shape[-1], self.width), float)
        ...
        ...     def apply(self, params, x):
        ...         return x @ params / math.sqrt(x.shape[-1])
        ...
        ...     def kernel(self, kernels):
        ...         return kernels.replace(ntk=kernels.nngp + kernels.ntk)
        >>> model = network(Serial(Signs(8), Activation("relu"), Dense(1)), input_shape=(3,))
        >>> model.init(jax.random.key(0))[0].shape
        (3, 8)
    """

    outputs: ClassVar[Literal["new", "kept", "other"]] = "other"
    needs_gaussian: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False

    def init(self, key: RandomKey, input_shape: Shape) -> Params:
        """Draw the parameters; none, if a layer does not say otherwise."""
        return ()

    @abc.abstractmethod
    def apply(self, params: Params, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Compute the outputs of a batch of inputs."""

    def kernel(self, kernels: LayerKernels) -> LayerKernels:
        """Compute the kernels of the outputs, `nngp` and `ntk`; the rest is not looked at."""
        raise NotImplementedError(
            f"{type(self).__name__} must have a method kernel(kernels) to be read at infinite "
            "width."
        )

    def output_mask(self, mask: Bool[Array, "n ..."], input_shape: Shape) -> Bool[Array, "n ..."]:
        """Say which positions are missing after it: those before it, if positions stay.

        Both have an axis for channels, of size 1 where all channels are alike.
        """
        if self.output_shape(input_shape)[:-1] != input_shape[:-1]:
            raise NotImplementedError(
                f"{type(self).__name__} must have a method output_mask(mask, input_shape) to be "
                "given masked inputs, for it changes positions."
            )
        return mask
