"""From half of its pixels an image is learned better, and sooner, if coordinates enter as waves.

A network maps the coordinates of a pixel to its brightness. The kernel of plain coordinates learns
details slowly. With waves γ(x) = [cos 2πBx, sin 2πBx] for inputs the kernel is one of translations,
and the frequencies B say which details are learned in a given time: one wave along each axis
(basic), a ladder of them (positional), or many in random directions (Gaussian). What is measured is
the error on pixels that were left out: for kernels by ridge regression, where the ridge is the
inverse of a time, for networks after some steps of Adam. Nearly without ridge, one wave is about as
good as many: the bias is a matter of time.

Source: golikov · ntk-spectral-bias · 2.6.2.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.experiments.drawing import panels
from theorylab.fields import Count, Positive, Seeded
from theorylab.kernels import cholesky_solve, infinite_kernels
from theorylab.kernels.fourier_features import (
    basic_frequencies,
    fourier_features,
    gaussian_frequencies,
    positional_frequencies,
)
from theorylab.models import NTK, mlp, network
from theorylab.numerics import power_iteration
from theorylab.progress import report
from theorylab.training import descend
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\gamma(x) = [\cos 2\pi B x, \sin 2\pi B x]"
IMAGES = Source("golikov", "ntk-spectral-bias", "2.6.2, image regression")

HE = NTK(weight_scale=math.sqrt(2.0))
LEARNING_RATE = 0.05  # of Adam; the variables of NTK() are of order 1
LATE = 1e6  # λ_max over the ridge, when nearly all is learned
EMBEDDINGS = ("none", "basic", "positional", "gaussian")


@dataclass(frozen=True)
class Config(Seeded):
    """Random images, half of whose pixels are known."""

    image_size: Count = 64  # pixels along each side
    cutoff: Positive = 7.0  # typical frequency of the images, in waves along a side
    positional: Positive = 8.0  # σ of the positional embedding
    gaussian: Positive = 3.5  # σ of the Gaussian embedding
    num_frequencies: Count = 64  # waves of the Gaussian embedding
    time: Positive = 3000.0  # of the kernels: λ_max over the ridge
    width: Count = 64  # of the networks, with two hidden layers
    num_steps: Count = 200  # of Adam
    num_seeds: Count = 8  # images

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size % 2:
            raise ValueError(f"image_size must be even, got {self.image_size}.")


PRESETS = {
    "smoke": Config(image_size=48, cutoff=6.0, positional=6.0, gaussian=3.0, num_steps=150),
    "paper": Config(image_size=128, cutoff=14.0, positional=16.0, gaussian=7.0, width=256),
}


class Result(NamedTuple):
    """Axes: e embeddings, in the order none, basic, positional, Gaussian; s images."""

    kernel_psnr: Float[np.ndarray, "e s"]  # on pixels that were left out, in decibels
    network_psnr: Float[np.ndarray, "e s"]
    patient_psnr: Float[np.ndarray, "e s"]  # of the kernels after unlimited time


def memory(config: Config) -> int:
    """Bytes of the kernel between all pixels and half of them, twice, and of its factor."""
    pixels = config.image_size**2
    return 4 * (2 * pixels**2 // 2 + 3 * (pixels // 2) ** 2)


def run(config: Config) -> Result:
    """Fit every embedding's kernel, then networks."""
    task_key, network_key = jax.random.split(jax.random.key(config.seed))
    task = _image_task(task_key, config)
    kernels, networks = [], []
    for index, (name, x) in enumerate(zip(EMBEDDINGS, task.inputs, strict=True)):
        report(f"{name}: kernel", index / 4)
        kernels.append(_kernel_psnr(x, task, config.time))
        report(f"{name}: networks", index / 4 + 0.15)
        networks.append(_network_psnr(network_key, x, task, config.width, config.num_steps))
    return Result(
        kernel_psnr=np.stack([soon for soon, _ in kernels]),
        network_psnr=np.stack(networks),
        patient_psnr=np.stack([late for _, late in kernels]),
    )


class ImageTask(NamedTuple):
    """Random images, the pixels that are known, and the coordinates in every embedding."""

    grid: Float[Array, "n 2"]
    inputs: tuple[Float[Array, "n d"], ...]
    pixels: Float[Array, "n s"]
    known: Int[Array, " half"]
    unknown: Int[Array, " half"]


def _image_task(key: RandomKey, config: Config) -> ImageTask:
    size, waves = config.image_size, config.num_frequencies
    image_key, wave_key, choice_key = jax.random.split(key, 3)
    axis = jnp.arange(size) / size
    grid = jnp.stack(jnp.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    frequencies = (
        basic_frequencies(2),
        positional_frequencies(2, max(waves // 4, 1), config.positional),
        gaussian_frequencies(wave_key, 2, waves, config.gaussian),
    )
    order = jax.random.permutation(choice_key, size**2)
    noise = np.asarray(jax.random.normal(image_key, (config.num_seeds, size, size)))
    images = np.stack([_image(one, config.cutoff).ravel() for one in noise], axis=1)
    return ImageTask(
        grid=grid,
        inputs=(grid, *(fourier_features(grid, b) for b in frequencies)),
        pixels=jnp.asarray(images, grid.dtype),
        known=order[: size**2 // 2],
        unknown=order[size**2 // 2 :],
    )


def _image(noise: Float[np.ndarray, "size size"], cutoff: float) -> Float[np.ndarray, "size size"]:
    """A Gaussian field with power exp(−|f|²/cutoff²) at the frequency f, scaled to [0, 1]."""
    f = np.fft.fftfreq(len(noise), 1 / len(noise))
    envelope = np.exp(-(f[:, None] ** 2 + f[None, :] ** 2) / (2 * cutoff**2))
    field = np.fft.ifft2(np.fft.fft2(noise) * envelope).real
    return (field - field.min()) / (field.max() - field.min())


def _image_kernel(x1: Array, x2: Array) -> Array:
    """The tangent kernel of three hidden layers with biases."""
    scales = NTK(weight_scale=math.sqrt(2.0), bias_scale=0.3)
    return infinite_kernels(mlp([1] * 3), x1, x2, scales, "normal").ntk


def _kernel_psnr(x: Array, task: ImageTask, time: float) -> list[np.ndarray]:
    """How good ridge regression is on the unknown pixels, with the ridges of this time and LATE."""
    known, unknown = (np.asarray(task.pixels[chosen]) for chosen in (task.known, task.unknown))
    mean = known.mean(axis=0, keepdims=True)
    kernel = _image_kernel(x, x[task.known])
    train, cross = kernel[task.known], np.asarray(kernel[task.unknown])
    largest = float(_largest(train))
    solutions = (
        cholesky_solve(np.asarray(train), known - mean, ridge=largest / limit)
        for limit in (time, LATE)
    )
    return [_psnr(cross @ solution.coefficients + mean, unknown) for solution in solutions]


@jax.jit
def _largest(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    start = jnp.ones(len(kernel), kernel.dtype)
    return power_iteration(lambda v: kernel @ v, start, 30).values


def _network_psnr(
    key: RandomKey, x: Array, task: ImageTask, width: int, num_steps: int
) -> np.ndarray:
    """How good trained networks are on them, in a quarter of the images."""
    quarter = np.asarray((task.grid < 0.5).all(axis=1))
    known, unknown = (
        np.asarray(chosen)[quarter[np.asarray(chosen)]] for chosen in (task.known, task.unknown)
    )
    mean = task.pixels[known].mean(axis=0, keepdims=True)
    keys = jax.random.split(key, task.pixels.shape[1])
    targets = (task.pixels[known] - mean).T
    predicted = _trained(keys, x[known], targets, x[unknown], width, num_steps)
    return _psnr(np.asarray(predicted.T + mean), np.asarray(task.pixels[unknown]))


@partial(jax.jit, static_argnames=("width", "num_steps"))
def _trained(
    keys: Key[Array, " s"],
    x: Float[Array, "n d"],
    targets: Float[Array, "s n"],
    others: Float[Array, "m d"],
    width: int,
    num_steps: int,
) -> Float[Array, "s m"]:
    """What networks trained on each image give at other inputs."""
    model = network(mlp([width] * 2), x.shape[1:], HE, bias="zero")
    optimizer = optax.adam(LEARNING_RATE)

    def train(key: RandomKey, y: Array) -> Array:
        def objective(params) -> Array:
            return jnp.mean((model.apply(params, x)[:, 0] - y) ** 2)

        path = descend(objective, model.init(key), optimizer, [num_steps], lambda params: ())
        return model.apply(path.params, others)[:, 0]

    return jax.vmap(train)(keys, targets)


def _psnr(predicted: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Of every image, in decibels; brightness is in [0, 1]."""
    return -10 * np.log10(np.mean((predicted - pixels) ** 2, axis=0))


def _gain(psnr: np.ndarray, better: str, worse: str) -> np.ndarray:
    """By how many decibels one embedding is better than another."""
    return psnr[EMBEDDINGS.index(better)] - psnr[EMBEDDINGS.index(worse)]


def _least_gain(psnr: np.ndarray) -> np.ndarray:
    """That of many waves, positional or Gaussian, over one along each axis."""
    return np.minimum(*(_gain(psnr, better, "basic") for better in ("positional", "gaussian")))


CLAIMS = (
    IMAGES.claim(
        "One wave along each axis gives better images than plain coordinates.",
        lambda r, c: ordered(*r.kernel_psnr[:2]),
    ),
    IMAGES.claim(
        "Many waves, in a ladder or at random, are 2 decibels better than one.",
        # On other seeds the ladder was 2.4 to 3.1 better, random waves 3.3 to 4; it grows with the
        # size of the image.
        lambda r, c: median_at_least(_least_gain(r.kernel_psnr), 2.0),
    ),
    IMAGES.claim(
        "Ladder and random waves are within 1.5 decibels of each other.",
        lambda r, c: median_between(_gain(r.kernel_psnr, "gaussian", "positional"), -1.5, 1.5),
    ),
    IMAGES.claim(
        "Trained networks order plain coordinates and one wave in the same way.",
        lambda r, c: ordered(*r.network_psnr[:2]),
    ),
    IMAGES.claim(
        "They order one wave and many in the same way.",
        lambda r, c: ordered(r.network_psnr[1], r.network_psnr[2:].mean(axis=0)),
    ),
    IMAGES.control(
        "With enough time, many waves have no such advantage over one.",
        lambda r, c: median_at_most(_least_gain(r.patient_psnr), 1.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The error of every embedding."""
    figure, axes = panels("kernels", "networks", "kernels, with much time")
    values = (result.kernel_psnr, result.network_psnr, result.patient_psnr)
    for axis, psnr in zip(axes, values, strict=True):
        axis.plot(EMBEDDINGS, psnr, "o", markersize=3, color="#0072B2", alpha=0.5)
        axis.plot(EMBEDDINGS, np.median(psnr, axis=1), "_", markersize=24, color="#D55E00")
        axis.set(ylabel="decibels on unknown pixels")
    return figure
