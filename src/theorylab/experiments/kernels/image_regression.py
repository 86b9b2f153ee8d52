"""From half of its pixels an image is learned better, and sooner, if coordinates enter as waves.

A network maps the coordinates of a pixel to its brightness. The kernel of plain coordinates learns
details slowly. As waves γ(x) = [cos 2πBx, sin 2πBx] the kernel is one of translations, and the
frequencies B say which details are learned in a given time: one wave along each axis (basic), a
ladder of them (positional), or many in random directions (Gaussian). What is measured is the error
on the pixels that were left out, after a fixed time: for kernels by gradient flow in units of
1/λ_max, for networks by steps of Adam. With unlimited time the kernels of all waves are equally
good: bias is a matter of time.

Source: golikov · ntk-spectral-bias · 2.6.2.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_least,
    at_most,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.experiments.drawing import panels
from theorylab.kernels import infinite_kernels, kernel_modes, predicted_outputs
from theorylab.kernels.fourier_features import (
    basic_frequencies,
    fourier_features,
    gaussian_frequencies,
    positional_frequencies,
)
from theorylab.models import NTK, mlp, network
from theorylab.progress import report
from theorylab.training import descend
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\gamma(x) = [\cos 2\pi B x, \sin 2\pi B x]"
IMAGES = Source("golikov", "ntk-spectral-bias", "2.6.2, image regression")
TRANSLATIONS = Source("golikov", "ntk-spectral-bias", "2.6.2, Eq. 2.114")

HE = NTK(weight_scale=math.sqrt(2.0))
LEARNING_RATE = 0.1  # of Adam; the variables of NTK() are of order 1
LATE = 1e8  # a time, in units of 1/λ_max, after which little changes
EMBEDDINGS = ("none", "basic", "positional", "gaussian")


@dataclass(frozen=True)
class Config:
    """Random images, half of whose pixels are known."""

    image_size: int = 64  # pixels along each side
    cutoff: float = 7.0  # typical frequency of the images, in waves along a side
    positional: float = 8.0  # σ of the positional embedding
    gaussian: float = 3.5  # σ of the Gaussian embedding
    num_frequencies: int = 64  # waves of the Gaussian embedding
    kernel_time: float = 1000.0  # of the kernel's gradient flow, in units of 1/λ_max
    width: int = 64  # of the networks, with two hidden layers
    num_steps: int = 200  # of Adam
    num_seeds: int = 8  # images
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "seed" and not value > 0:
                raise ValueError(f"{name} must be positive, got {value}.")
        if self.image_size % 2:
            raise ValueError(f"image_size must be even, got {self.image_size}.")


PRESETS = {
    "smoke": Config(image_size=40, cutoff=6.0, positional=7.0, gaussian=3.0, num_steps=60),
    "paper": Config(image_size=128, cutoff=14.0, positional=16.0, gaussian=7.0, width=256),
}


class Result(NamedTuple):
    """Axes: e embeddings, in the order none, basic, positional, Gaussian; s images."""

    kernel_psnr: Float[np.ndarray, "e s"]  # on pixels that were left out, in decibels
    network_psnr: Float[np.ndarray, "e s"]
    patient_psnr: Float[np.ndarray, "e s"]  # of the kernels after unlimited time
    moved: Float[np.ndarray, " e"]  # by how much a translation changes the kernel, relatively


def memory(config: Config) -> int:
    """Bytes of the kernel between all pixels and half of them, and of its modes."""
    pixels = config.image_size**2
    return 8 * (pixels**2 // 2 + 3 * (pixels // 2) ** 2)


def run(config: Config) -> Result:
    """Fit every embedding's kernel, then networks."""
    task_key, network_key = jax.random.split(jax.random.key(config.seed))
    task = _image_task(task_key, config)
    kernels, networks = [], []
    for index, (name, x) in enumerate(zip(EMBEDDINGS, task.inputs, strict=True)):
        report(f"{name}: kernel", index / 4)
        kernels.append(_kernel_psnr(x, task, config.kernel_time))
        report(f"{name}: networks", index / 4 + 0.15)
        networks.append(_network_psnr(network_key, x, task, config.width, config.num_steps))
    return Result(
        kernel_psnr=np.stack([soon for soon, _ in kernels]),
        network_psnr=np.stack(networks),
        patient_psnr=np.stack([late for _, late in kernels]),
        moved=np.array([_movement(task, index) for index in range(len(EMBEDDINGS))]),
    )


class ImageTask(NamedTuple):
    """Random images, the pixels that are known, and the coordinates in every embedding."""

    grid: Float[Array, "n 2"]
    frequencies: tuple[Array | None, ...]
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
        None,
        basic_frequencies(2),
        positional_frequencies(2, max(waves // 4, 1), config.positional),
        gaussian_frequencies(wave_key, 2, waves, config.gaussian),
    )
    order = jax.random.permutation(choice_key, size**2)
    images = jax.vmap(lambda key: _image(key, size, config.cutoff))
    return ImageTask(
        grid=grid,
        frequencies=frequencies,
        inputs=tuple(_embed(grid, b) for b in frequencies),
        pixels=images(jax.random.split(image_key, config.num_seeds)).reshape(-1, size**2).T,
        known=order[: size**2 // 2],
        unknown=order[size**2 // 2 :],
    )


def _image(key: RandomKey, size: int, cutoff: float) -> Float[Array, "size size"]:
    """A Gaussian field with power exp(−|f|²/cutoff²) at the frequency f, scaled to [0, 1]."""
    f = jnp.fft.fftfreq(size) * size
    envelope = jnp.exp(-(f[:, None] ** 2 + f[None, :] ** 2) / (2 * cutoff**2))
    field = jnp.fft.ifft2(jnp.fft.fft2(jax.random.normal(key, (size, size))) * envelope).real
    return (field - field.min()) / (field.max() - field.min())


def _embed(grid: Array, frequencies: Array | None) -> Array:
    return grid if frequencies is None else fourier_features(grid, frequencies)


def _image_kernel(x1: Array, x2: Array) -> Array:
    """The tangent kernel of three hidden layers with biases."""
    scales = NTK(weight_scale=math.sqrt(2.0), bias_scale=0.3)
    return infinite_kernels(mlp([1] * 3), x1, x2, scales, "normal").ntk


def _kernel_psnr(x: Array, task: ImageTask, time: float) -> tuple[np.ndarray, np.ndarray]:
    """How good gradient flow of the kernel is on the unknown pixels, at this time and at last."""
    known = task.pixels[task.known]
    mean = known.mean(axis=0, keepdims=True)
    kernel = _image_kernel(x, x[task.known])
    modes = kernel_modes(kernel[task.known])
    times = jnp.array([time, LATE]) / modes.eigenvalues.max()
    soon, late = predicted_outputs(modes, kernel[task.unknown], known - mean, times)
    pixels = task.pixels[task.unknown]
    return _psnr(soon + mean, pixels), _psnr(late + mean, pixels)


def _network_psnr(
    key: RandomKey, x: Array, task: ImageTask, width: int, num_steps: int
) -> np.ndarray:
    """How good trained networks are on them."""
    model = network(mlp([width] * 2), x.shape[1:], HE, bias="zero")
    optimizer = optax.adam(LEARNING_RATE)
    known = task.pixels[task.known]

    def train(key: RandomKey, y: Array) -> Array:
        def objective(params) -> Array:
            return jnp.mean((model.apply(params, x[task.known])[:, 0] - y) ** 2)

        params = model.init(key)
        path = descend(objective, params, optimizer, [num_steps], lambda params: ())
        return model.apply(path.params, x[task.unknown])[:, 0]

    keys = jax.random.split(key, known.shape[1])
    predicted = jax.jit(jax.vmap(train))(keys, (known - known.mean(axis=0, keepdims=True)).T)
    return _psnr(predicted.T + known.mean(axis=0, keepdims=True), task.pixels[task.unknown])


def _psnr(predicted: Array, pixels: Array) -> np.ndarray:
    return np.asarray(-10 * jnp.log10(jnp.mean((predicted - pixels) ** 2, axis=0)))


def _movement(task: ImageTask, embedding: int) -> float:
    """By how much a translation changes the kernel between some pixels, relatively."""
    some = task.grid[task.known[:20]]
    one, other = (
        _image_kernel(x, x)
        for x in (_embed(some + shift, task.frequencies[embedding]) for shift in (0.0, 0.37))
    )
    return float(jnp.abs(one - other).max() / jnp.abs(one).max())


def _gain(psnr: np.ndarray, better: str, worse: str) -> np.ndarray:
    """By how many decibels one embedding is better than another."""
    return psnr[EMBEDDINGS.index(better)] - psnr[EMBEDDINGS.index(worse)]


def _least_gain(psnr: np.ndarray) -> np.ndarray:
    """That of many waves, positional or Gaussian, over one along each axis."""
    return np.minimum(*(_gain(psnr, better, "basic") for better in ("positional", "gaussian")))


CLAIMS = (
    Claim(
        "One wave along each axis gives better images than plain coordinates.",
        judge=lambda r: ordered(*r.kernel_psnr[:2]),
        source=IMAGES,
    ),
    Claim(
        "Many waves, in a ladder or at random, are 3 decibels better than one.",
        judge=lambda r: median_at_least(_least_gain(r.kernel_psnr), 3.0),
        source=IMAGES,
    ),
    Claim(
        "Ladder and random waves are within 1.5 decibels of each other.",
        judge=lambda r: median_between(_gain(r.kernel_psnr, "gaussian", "positional"), -1.5, 1.5),
        source=IMAGES,
    ),
    Claim(
        "Trained networks order plain coordinates and one wave in the same way.",
        judge=lambda r: ordered(*r.network_psnr[:2]),
        source=IMAGES,
    ),
    Claim(
        "They order one wave and many in the same way.",
        judge=lambda r: median_at_least(_least_gain(r.network_psnr), 0.0),
        source=IMAGES,
    ),
    Claim(
        "Without a limit of time, many waves have no such advantage over one.",
        judge=lambda r: median_at_most(_least_gain(r.patient_psnr), 3.0),
        source=IMAGES,
        kind="control",
    ),
    Claim(
        "Kernels of waves do not change if both inputs are translated.",
        judge=lambda r: at_most(r.moved[1:], 1e-10),
        source=TRANSLATIONS,
    ),
    Claim(
        "The kernel of plain coordinates does.",
        judge=lambda r: at_least(r.moved[0], 0.1),
        source=TRANSLATIONS,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """The error of every embedding."""
    figure, axes = panels("kernels, in time", "networks", "kernels, at last")
    values = (result.kernel_psnr, result.network_psnr, result.patient_psnr)
    for axis, psnr in zip(axes, values, strict=True):
        axis.plot(EMBEDDINGS, psnr, "o", markersize=3, color="#0072B2", alpha=0.5)
        axis.plot(EMBEDDINGS, np.median(psnr, axis=1), "_", markersize=24, color="#D55E00")
        axis.set(ylabel="decibels on unknown pixels")
    return figure
