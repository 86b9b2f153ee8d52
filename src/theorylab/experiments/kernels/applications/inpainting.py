"""An infinitely wide convolutional network, trained on one image, fills in its missing pixels.

Some pixels of a handwritten digit are missing. A convolutional network with one fixed input is
trained on the others. At infinite width this is a kernel regression between pixels, with the kernel
Θ(s, s′) of the outputs at two positions. What it paints depends on the architecture alone. With
layers that halve and double the resolution, neighbouring pixels have much in common, and the
network does better than linear interpolation. Without them it does nothing useful.

If doubling repeats pixels, and padding is circular, Θ is the same after a shift by two pixels, but
not by one. So its rows at two by two pixels are the whole of it: with s halvings, 2^(2s) times the
number of pixels, in place of the square of that number.

Source: golikov · ntk-matrix-completion · 2.6.1.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure
from scipy.interpolate import griddata

from theorylab.claims import Source, at_least, identity, ordered
from theorylab.data import mnist5k
from theorylab.experiments.drawing import agreement, label_axes, panels
from theorylab.fields import Checked, OpenFraction, Seed, within
from theorylab.kernels import infinite_kernels
from theorylab.kernels.applications.completion import complete
from theorylab.models import NTK, Activation, Architecture, AvgPool, Conv, Serial
from theorylab.models.mixing import Upsample
from theorylab.progress import report
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = (
    r"f(s) = \Theta(s, O)\,\Theta(O, O)^{-1}\,y(O), \qquad O: \text{the pixels that are there}"
)
INPAINTING = Source("golikov", "ntk-matrix-completion", "2.6.1, inpainting")
RIDGE = 1e-4  # of the kernel's mean diagonal
SMALL = 8  # pixels, where shifts are looked at


@dataclass(frozen=True)
class Config(Checked):
    """Digits with missing pixels, filled in by two networks and by interpolation."""

    halvings: Annotated[int, within(0, 1)] = 0  # times that images of 28 × 28 are halved
    missing: OpenFraction = 0.3  # share of missing pixels
    num_images: Annotated[int, within(1, 5000)] = 24  # digits
    seed: Seed = 0  # of all randomness


PRESETS = {"smoke": Config(halvings=1, num_images=20), "paper": Config(num_images=1000)}


class Result(NamedTuple):
    """Axes: i images, h rows and columns of pixels. Noise ratios in decibel, on missing pixels."""

    images: Float[Measured, "i h h"]
    present: Bool[Measured, "i h h"]
    painted: Float[Measured, "i h h"]  # by the network with halving and doubling
    network: Float[Measured, " i"]  # its peak signal to noise ratio
    flat_network: Float[Measured, " i"]  # of the network with convolutions only
    interpolation: Float[Measured, " i"]  # of linear interpolation
    kernel: Float[Measured, "a a a a"]  # Θ(s, s′) of a small image, (row, row′, column, column′)
    shifted_by_two: Float[Measured, "a a a a"]
    shifted_by_one: Float[Measured, "a a a a"]


def memory(config: Config) -> int:
    """Bytes of the kernel of all pixels, its copies, and the systems of some images."""
    pixels = (28 // 2**config.halvings) ** 2
    return 8 * pixels**2 * (12 + config.num_images)


def run(config: Config) -> Result:
    """Fill in every image by every method."""
    report("digits", 0.0)
    key, mask_key = jax.random.split(jax.random.key(config.seed))
    images = mnist5k().shuffled(key).x[: config.num_images].reshape(-1, 28, 28)
    for _ in range(config.halvings):
        images = images.reshape(len(images), 14, 2, 14, 2).mean(axis=(2, 4))
    side = images.shape[1]
    present = ~jax.random.bernoulli(mask_key, config.missing, images.shape)
    report("kernel of the pixels", 0.1)
    painted = _painted(_kernel(_halving_network("linear"), side), images, present)
    report("kernel without halving", 0.5)
    flat = _painted(_kernel(_flat_network(), side), images, present)
    report("interpolation", 0.9)
    between = jnp.asarray(_interpolated(np.asarray(images), np.asarray(present)))
    kernel = _kernel(_halving_network("nearest"), SMALL)
    return Result(
        images=images,
        present=present,
        painted=painted,
        network=_noise_ratio(painted, images, present),
        flat_network=_noise_ratio(flat, images, present),
        interpolation=_noise_ratio(between, images, present),
        kernel=kernel,
        shifted_by_two=jnp.roll(kernel, (2,) * 4, (0, 1, 2, 3)),
        shifted_by_one=jnp.roll(kernel, (1,) * 4, (0, 1, 2, 3)),
    )


def _convolution() -> tuple[Conv, Activation]:
    return Conv(1, (3, 3), padding="circular"), Activation("relu")


def _halving_network(doubling: Literal["nearest", "linear"]) -> Architecture:
    return Serial(
        *_convolution(),
        AvgPool((2, 2)),
        *_convolution(),
        *_convolution(),
        Upsample((2, 2), doubling),
        *_convolution(),
        Conv(1, (3, 3), padding="circular"),
    )


def _flat_network() -> Architecture:
    layers = [layer for _ in range(3) for layer in _convolution()]
    return Serial(*layers, Conv(1, (3, 3), padding="circular"))


def _kernel(architecture: Architecture, side: int) -> Float[Array, "h h h h"]:
    """Θ(s, s′) of the outputs, for the one input in which all pixels are orthogonal.

    So is noise with many channels.
    """
    pixels = side**2
    one = side * jnp.eye(pixels).reshape(1, side, side, pixels)
    kernels = infinite_kernels(architecture, one, parametrization=NTK(weight_scale=math.sqrt(2.0)))
    return kernels.ntk[0, 0]


def _painted(
    kernel: Float[Array, "h h h h"], images: Float[Array, "i h h"], present: Bool[Array, "i h h"]
) -> Float[Array, "i h h"]:
    """Kernel regression between pixels, about the mean of those that are there."""
    side = len(kernel)
    matrix = jnp.transpose(kernel, (0, 2, 1, 3)).reshape(side**2, side**2)
    ridge = RIDGE * jnp.mean(jnp.diag(matrix))
    known = present.reshape(len(images), -1)
    values = images.reshape(len(images), -1)
    mean = jnp.sum(jnp.where(known, values, 0.0), axis=1) / jnp.sum(known, axis=1)
    centred = values - mean[:, None]
    painted = complete(matrix, centred, known, ridge) + mean[:, None]
    return jnp.clip(painted, 0.0, 1.0).reshape(images.shape)


def _interpolated(images: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Linear between the pixels that are there; at the border, the nearest of them."""
    places = np.indices(images.shape[1:]).reshape(2, -1).T

    def one(image: np.ndarray, there: np.ndarray) -> np.ndarray:
        known = places[there.ravel()], image[there]
        linear, nearest = (griddata(*known, places, method=how) for how in ("linear", "nearest"))
        return np.where(np.isnan(linear), nearest, linear).reshape(image.shape)

    return np.stack([one(image, there) for image, there in zip(images, present, strict=True)])


def _noise_ratio(
    painted: Float[Array, "i h h"], images: Float[Array, "i h h"], present: Bool[Array, "i h h"]
) -> Float[Array, " i"]:
    """−10 log₁₀ of the mean squared error on missing pixels; the peak is 1."""
    squares = jnp.where(present, 0.0, (painted - images) ** 2)
    return -10 * jnp.log10(jnp.sum(squares, axis=(1, 2)) / jnp.sum(~present, axis=(1, 2)))


CLAIMS = (
    INPAINTING.claim(
        "The kernel between pixels is given by its rows at two by two pixels: it is the same after"
        " a shift by two.",
        lambda r, c: identity(r.shifted_by_two, r.kernel, 1e-10),
        formula=r"\Theta(s + 2, s' + 2) = \Theta(s, s')",
        quote="propose a way to reconstruct the … Gram matrix from a smaller Gram matrix",
    ),
    INPAINTING.control(
        "After a shift by one pixel it is another.",
        lambda r, c: at_least(
            np.abs(r.shifted_by_one - r.kernel).max() / np.abs(r.kernel).max(), 0.01
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    INPAINTING.found(
        "The network fills in pixels better than linear interpolation.",
        lambda r, c: ordered(r.interpolation, r.network),
    ),
    INPAINTING.control(
        "Without halving and doubling, it does so worse than interpolation.",
        lambda r, c: ordered(r.flat_network, r.interpolation),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """One image, what was seen of it, what was painted; and all ratios."""
    figure, (image, seen, painted, ratios) = panels(
        "image", "what the network saw", "what it filled in", "peak signal to noise ratio, dB"
    )
    shown = np.where(result.present[0], result.images[0], 0.5)
    for axis, pixels in ((image, result.images[0]), (seen, shown), (painted, result.painted[0])):
        axis.imshow(pixels, cmap="gray", vmin=0, vmax=1)
        axis.set(xticks=(), yticks=())
        axis.grid(visible=False)
    named = {"with halving": result.network, "without": result.flat_network}
    agreement(ratios, {name: (result.interpolation, values) for name, values in named.items()})
    label_axes(ratios, "linear interpolation", "network")
    return figure
