"""Infinite-width kernels of networks with random logits: estimates with standard errors."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models import NTK, Architecture, Parametrization
from theorylab.models.masks import Masked
from theorylab.models.parts import Bias
from theorylab.models.scales import with_arrays, without_arrays
from theorylab.typing import RandomKey

from ..estimate import Estimate
from .kernels import Kernels, input_batches, make_reading
from .reading import InfiniteReading, InputBatch, Outputs, read_batches
from .state import Draws


class KernelEstimates(Answer):
    """Estimates of kernels, and their standard errors.

    Args:
        mean: The kernels, averaged over independent groups of draws.
        standard_error: The standard deviation over groups, divided by the root of their number.

    Example: every kernel has an error of its own shape.
        >>> mean = Kernels(nngp=jnp.eye(2), ntk=2 * jnp.eye(2))
        >>> error = Kernels(nngp=jnp.zeros((2, 2)), ntk=jnp.zeros((2, 2)))
        >>> found = KernelEstimates(mean=mean, standard_error=error)
        >>> found.mean.ntk.shape == found.standard_error.ntk.shape
        True
        >>> found.ntk.mean.tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """

    mean: Kernels
    standard_error: Kernels

    @property
    def ntk(self) -> Estimate:
        """The tangent kernel and its standard error."""
        return Estimate(self.mean.ntk, self.standard_error.ntk)

    @property
    def nngp(self) -> Estimate:
        """The NNGP kernel and its standard error."""
        return Estimate(self.mean.nngp, self.standard_error.nngp)


def infinite_kernels_sampled(
    key: RandomKey,
    architecture: Architecture,
    x1: Float[Array, "n1 ..."] | Masked,
    x2: Float[Array, "n2 ..."] | Masked | None = None,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    num_draws: int = 1024,
    num_groups: int = 16,
    graphs1: Float[Array, "n1 s s"] | None = None,
    graphs2: Float[Array, "n2 s s"] | None = None,
) -> KernelEstimates:
    """Average over the logits of `SelfAttention(scaling="root")`; else as `infinite_kernels`.

    Draws are made in independent groups, each a whole network's estimate: their spread is the
    standard error. An activation after attention bends the estimate inside it, which leaves a bias
    of the order of the number of groups over that of draws, besides.

    Args:
        key: The source of randomness.
        architecture: What the network is.
        x1: The inputs x, (n₁, *positions, channels).
        x2: The inputs x′; the same as x if not given.
        parametrization: `NTK(...)` or `Standard(...)`.
        bias: "none", "zero" or "normal".
        num_draws: How many logits are drawn in all.
        num_groups: In how many groups, at least 2.
        graphs1: The graphs of x, for `Aggregate(None)`.
        graphs2: The graphs of x′.

    Example: one input with two positions, whose logits are random.
        >>> from theorylab.models.mixing import SelfAttention
        >>> attention, x = SelfAttention(1, 1, 1, scaling="root"), jnp.array([[[1.0], [2.0]]])
        >>> key = jax.random.key(0)
        >>> found = infinite_kernels_sampled(key, attention, x, num_draws=8, num_groups=2)
        >>> found.mean.ntk.shape == found.standard_error.ntk.shape
        True
        >>> bool(found.standard_error.nngp.max() > 0)
        True
    """
    if num_groups < 2:
        raise ValueError(f"num_groups must be at least 2, got {num_groups}.")
    if num_draws < num_groups:
        raise ValueError(f"num_draws must be at least num_groups, {num_groups}; got {num_draws}.")
    reading = make_reading(architecture, x1, parametrization, bias, False, tangent=True)
    first, second = input_batches(architecture, x1, x2, graphs1, graphs2)
    keys = jax.random.split(key, num_groups)
    frame, scales = without_arrays(reading)
    count = -(-num_draws // num_groups)
    samples = _groups(frame, scales, keys, count, first, second)
    if x2 is None:  # the two triangles are drawn differently: their mean is the better estimate
        samples = tuple((sample + _exchanged(sample)) / 2 for sample in samples)
    mean = Kernels(*(sample.mean(axis=0) for sample in samples))
    error = Kernels(*(sample.std(axis=0, ddof=1) / math.sqrt(num_groups) for sample in samples))
    return KernelEstimates(mean, error)


def _exchanged(sample: Float[Array, "g n n ..."]) -> Float[Array, "g n n ..."]:
    """K(x′, x) of K(x, x′), for every group: samples and positions exchanged."""
    for axis in range(1, sample.ndim, 2):
        sample = jnp.swapaxes(sample, axis, axis + 1)
    return sample


@partial(jax.jit, static_argnames=("frame", "count"))
def _groups(
    frame: InfiniteReading,
    scales: tuple[Array, ...],
    keys: Array,
    count: int,
    first: InputBatch,
    second: InputBatch | None,
) -> Outputs:
    """The kernels by every group of draws, (groups, n₁, n₂)."""
    reading = with_arrays(frame, scales)

    def kernels(key: Array) -> Outputs:
        return read_batches(reading, first, second, Draws(key, count))

    return jax.lax.map(kernels, keys)
