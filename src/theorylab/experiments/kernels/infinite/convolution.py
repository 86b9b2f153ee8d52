"""A wide convolutional network's kernel is a recursion over pairs of pixels.

In a convolution the same weights act at every pixel, so the kernel of two images is a recursion
over pairs of pixels. Weights at different offsets of a window are independent: only equal offsets
r = r′ meet. Random networks of growing width m approach this kernel with an error ∝ m^(−1/2).

The source prints three formulas otherwise: a double sum over r and r′, the covariance q_L where
the derivatives' E φ′φ′ belongs, and inputs without the factor 1/n₀. Networks approach none of
them. A flattened readout needs equal pixels only, d instead of d² pairs: operations are counted.

Source: golikov · ntk-conv · 2.4.2, Eqs 2.62–2.78; golikov · ntk-fc · Eq. 2.58.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    between,
    exponent_between,
    identity,
    mean_between,
)
from theorylab.experiments.drawing import label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Plural, Seeded, within
from theorylab.kernels import infinite_kernels, ntk, relative_frobenius
from theorylab.kernels.convolution import Misprint, pooled_convolution_kernel
from theorylab.kernels.infinite.cost import pair_operations
from theorylab.models import (
    Activation,
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    Serial,
    mlp,
    network,
)
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"\Theta_l^{s,s'} = q_l^{s,s'} + \sum_{r \in \ker} \Theta_{l-1}^{s+r,s'+r}"
    r" \, \mathbb{E}\, \phi'(z^{s+r}) \phi'(z'^{s'+r})"
)

POOLED = Source("golikov", "ntk-conv", "2.4.2, Eqs 2.62–2.78")
OFFSETS = Source("golikov", "ntk-conv", "Eq. 2.78")
READOUT = Source("golikov", "ntk-conv", "Eqs 2.71, 2.75")
INPUTS = Source("golikov", "ntk-fc", "Eq. 2.58")
COST = Source("golikov", "ntk-conv", "2.5.1")

MISPRINTS: tuple[Misprint, ...] = ("offsets apart", "covariance at the end", "inputs unscaled")


@dataclass(frozen=True)
class Config(Seeded):
    """Random convolutional networks of growing width, on images with one axis of pixels."""

    widths: Increasing[Count] = (32, 64, 128, 256, 512)  # channels m of every hidden layer
    depth: Plural = 3  # layers with weights: L convolutions and the output
    num_pixels: Annotated[int, within(3)] = 16  # pixels d, wrapped around
    num_channels: Count = 3  # channels n₀ of an input
    num_samples: Count = 4  # inputs, where kernels are compared
    pixel_counts: Increasing[Annotated[int, within(3)]] = (
        8,
        16,
        32,
        64,
    )  # where operations are counted
    num_seeds: Count = 40  # independent groups of networks at each width
    num_draws: Count = 8  # networks of a group, whose squared errors are averaged


PRESETS = {
    "smoke": Config(widths=(24, 160), num_pixels=8, pixel_counts=(8, 16), num_draws=16),
    "paper": Config(widths=(64, 128, 256, 512, 1024), depth=4, num_pixels=32, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, n samples, p numbers of pixels. Errors are relative (Frobenius)."""

    error: Float[np.ndarray, "s w"]  # of networks against the kernel
    offsets_error: Float[np.ndarray, "s w"]  # against the double sum over r, r′
    readout_error: Float[np.ndarray, "s w"]  # against q_L in place of E φ′φ′
    inputs_error: Float[np.ndarray, "s w"]  # against inputs without 1/n₀
    dense_error: Float[np.ndarray, "s w"]  # against the kernel of windows of one pixel
    projection: Float[np.ndarray, " s"]  # ⟨Θ̂, Θ⟩/⟨Θ, Θ⟩ at the largest width
    recursion: Float[np.ndarray, "n n"]  # the text's recursion
    reading: Float[np.ndarray, "n n"]  # the architecture, read at infinite width
    one_pixel: Float[np.ndarray, "n n"]  # the recursion for windows of one pixel
    dense: Float[np.ndarray, "n n"]  # the fully connected kernel, over all pairs of pixels
    flat_operations: Float[np.ndarray, " p"]  # for one pair of inputs
    pooled_operations: Float[np.ndarray, " p"]


def memory(config: Config) -> int:
    """Bytes of the widest networks' parameters and Jacobians, and of kernels of pixel pairs."""
    weights = 3 * max(config.widths) ** 2 * (config.depth - 1)
    pairs = config.num_samples**2 * config.num_pixels**2
    return 4 * ((6 + config.num_samples) * weights + 20 * pairs)


def run(config: Config) -> Result:
    """Compare random networks with the kernel as derived and as printed, and count operations."""
    report("kernels of pixel pairs", 0.0)
    for_inputs, for_networks = jax.random.split(jax.random.key(config.seed))
    shape = (config.num_samples, config.num_pixels, config.num_channels)
    x = jax.random.normal(for_inputs, shape)
    limits = _limits(x, config.depth - 1)
    errors, projection = [], np.zeros(config.num_seeds)
    costs = np.cumsum([0, *config.widths]) / sum(config.widths)
    for width, done in zip(config.widths, costs, strict=False):
        report(f"networks of width {width}", 0.1 + 0.7 * float(done))
        keys = jax.random.split(jax.random.fold_in(for_networks, width), config.num_seeds)
        found, along = _networks(x, limits, keys, width, config.depth - 1, config.num_draws)
        errors.append(np.asarray(found))
        projection = np.asarray(along)
    report("counting operations", 0.8)
    error, offsets, readout, inputs, dense = np.stack(errors, axis=2).swapaxes(0, 1)
    pixels, num_convolutions, channels = config.pixel_counts, config.depth - 1, config.num_channels
    return Result(
        error=error,
        offsets_error=offsets,
        readout_error=readout,
        inputs_error=inputs,
        dense_error=dense,
        projection=projection,
        recursion=np.asarray(limits[0]),
        reading=np.asarray(infinite_kernels(_convolutions(num_convolutions, GlobalPool()), x).ntk),
        one_pixel=np.asarray(limits[-1]),
        dense=_dense_kernel(x, num_convolutions),
        flat_operations=_operations(pixels, num_convolutions, channels, Flatten()),
        pooled_operations=_operations(pixels, num_convolutions, channels, GlobalPool()),
    )


@partial(jax.jit, static_argnums=1)
def _limits(x: Float[Array, "n d c"], num_convolutions: int) -> Float[Array, "limits n n"]:
    """The kernel as derived, as printed in three ways, and for windows of one pixel."""
    window = (-1, 0, 1)
    kernels = [pooled_convolution_kernel(x, window, num_convolutions)]
    for misprint in MISPRINTS:
        kernels.append(pooled_convolution_kernel(x, window, num_convolutions, misprint=misprint))
    return jnp.stack([*kernels, pooled_convolution_kernel(x, (0,), num_convolutions)])


def _convolutions(num_convolutions: int, *end: Architecture, width: int = 1) -> Serial:
    """Windows of three pixels, with weights of variance 1/m, and what comes after."""
    layer = Conv(width, (3,), padding="circular", weight_scale=math.sqrt(3))
    return Serial(*(layer, Activation("relu")) * num_convolutions, *end)


@partial(jax.jit, static_argnums=(3, 4, 5))
def _networks(
    x: Float[Array, "n d c"],
    limits: Float[Array, "limits n n"],
    keys: Key[Array, " s"],
    width: int,
    num_convolutions: int,
    num_draws: int,
) -> tuple[Float[Array, "s limits"], Float[Array, " s"]]:
    """Errors against every limit, and the projection on the first, of every seed."""
    architecture = _convolutions(num_convolutions, GlobalPool(), Dense(1), width=width)
    model = network(architecture, x.shape[1:])

    def kernel(key: RandomKey) -> Float[Array, "n n"]:
        *convolutions, readout = model.init(key)
        # Signs that are not trained: a mean over channels, as the expectation in Θ is.
        params = (*convolutions, jax.tree.map(jnp.sign, readout))
        trained = jax.tree.map(lambda _: 1.0, tuple(convolutions))
        rates = (*trained, jax.tree.map(lambda _: 0.0, readout))
        return ntk(model.apply, params, x, learning_rates=rates)

    def one(key: RandomKey) -> tuple[Float[Array, " limits"], Float[Array, ""]]:
        kernels = jax.lax.map(kernel, jax.random.split(key, num_draws))
        error = jax.vmap(jax.vmap(relative_frobenius, (0, None)), (None, 0))(kernels, limits)
        along = jnp.sum(kernels.mean(axis=0) * limits[0]) / jnp.sum(limits[0] ** 2)
        return jnp.sqrt(jnp.mean(error**2, axis=1)), along

    return jax.lax.map(one, keys)


def _dense_kernel(x: Float[Array, "n d c"], num_convolutions: int) -> Float[np.ndarray, "n n"]:
    """The mean over pairs of pixels of the fully connected kernel, without its last weights."""
    pixels = x.reshape(-1, x.shape[-1])
    whole = infinite_kernels(mlp([1] * num_convolutions), pixels)
    tangent = np.asarray(whole.ntk - whole.nngp)
    sizes = (x.shape[0], x.shape[1])
    return tangent.reshape(*sizes, *sizes).mean(axis=(1, 3))


def _operations(
    pixels: tuple[int, ...], num_convolutions: int, num_channels: int, end: Architecture
) -> Float[np.ndarray, " p"]:
    architecture = _convolutions(num_convolutions, end, Dense(1))
    return np.array([pair_operations(architecture, (count, num_channels)) for count in pixels])


CLAIMS = (
    OFFSETS.printed(
        "The kernel of random convolutional networks goes to the double sum over offsets.",
        lambda r, c: exponent_between(c.widths, r.offsets_error, -0.6, -0.4),
        quote="which resembles the corresponding result for fully-connected nets when",
        formula=(
            r"\sum_{r,r'} \Theta_{l-1}^{s+r,s'+r'}"
            r" \, \mathbb{E}\, \phi'(z^{s+r}) \phi'(z'^{s'+r'})"
        ),
    ),
    READOUT.printed(
        "Pooling weighs pairs of pixels by their covariance.",
        lambda r, c: exponent_between(c.widths, r.readout_error, -0.6, -0.4),
        quote="Adding a nonlinearity and a convolutional layer with weights",
        formula=r"\Theta = \frac{1}{d^2} \sum_{s,s'} q_L^{s,s'} \, \Theta_L^{s,s'}",
    ),
    INPUTS.printed(
        "The first covariance is the inputs' product.",
        lambda r, c: exponent_between(c.widths, r.inputs_error, -0.6, -0.4),
        quote="has iid Gaussian components with zero mean and variance",
        formula=r"q_1 = x^\top x'",
    ),
    POOLED.corrected(
        "It goes to the recursion over equal offsets, E φ′φ′ at the end, inputs over n₀.",
        lambda r, c: exponent_between(c.widths, r.error, -0.6, -0.4),
        formula=(
            r"\sum_{r} \Theta_{l-1}^{s+r,s'+r}\,\mathbb{E}\,\phi'(z^{s+r})\phi'(z'^{s'+r}), \quad"
            r" \frac{1}{d^2} \sum_{s,s'} \mathbb{E}[\phi'\phi'] \, \Theta_L^{s,s'}"
        ),
        demand="derived: a mean over m channels; other seeds gave −0.49 to −0.51",
    ),
    POOLED.corrected(
        "On average, wide networks have this kernel to 2 percent.",
        lambda r, c: mean_between(r.projection, 0.98, 1.02),
        formula=r"\mathbb{E} \langle \hat\Theta, \Theta \rangle = \langle \Theta, \Theta \rangle",
        demand="lab: other seeds gave 0.997 to 1.004",
    ),
    POOLED.check(
        "The recursion is the infinite-width reading of the architecture.",
        lambda r, c: identity(r.recursion, r.reading, 1e-5),  # single precision
    ),
    OFFSETS.claim(
        "Windows of one pixel give the fully connected kernel, averaged over pairs of pixels.",
        lambda r, c: identity(r.one_pixel, r.dense, 1e-4),  # a pixel's angle with itself: √1e-7
        quote="which resembles the corresponding result for fully-connected nets when",
    ),
    COST.claim(
        "Operations for a flattened readout grow as the number of pixels.",
        lambda r, c: between(_exponent(c.pixel_counts, r.flat_operations), 0.8, 1.2),
        quote="if no pooling is used in the network, it suffices to compute and store",
        demand="lab: the source's 1, ± 0.2",
    ),
    COST.claim(
        "Operations for a pooled readout grow as its square.",
        lambda r, c: between(_exponent(c.pixel_counts, r.pooled_operations), 1.8, 2.2),
        quote="storing and computing them for each pair of points requires",
        demand="lab: the source's 2, ± 0.2",
    ),
    POOLED.control(
        "Against the kernel of windows of one pixel the error does not fall.",
        lambda r, c: exponent_between(c.widths, r.dense_error, -0.1, 0.1),
    ),
)


def _exponent(x: tuple[int, ...], y: np.ndarray) -> float:
    return power_law(np.asarray(x), y).exponent


def plot(result: Result, config: Config) -> Figure:
    """Draw errors over the width, and operations over the pixels."""
    figure, (error, cost) = panels("kernel of random networks: error", "operations for a pair")
    errors = {
        "equal offsets": result.error,
        "printed: double sum": result.offsets_error,
        "printed: covariance at the end": result.readout_error,
        "printed: inputs unscaled": result.inputs_error,
        "windows of one pixel": result.dense_error,
    }
    scaling(error, config.widths, errors, -0.5)
    operations = {"flattened": result.flat_operations, "pooled": result.pooled_operations}
    scaling(cost, config.pixel_counts, {name: row[None] for name, row in operations.items()})
    label_axes(error, "width m")
    label_axes(cost, "pixels d")
    return figure
