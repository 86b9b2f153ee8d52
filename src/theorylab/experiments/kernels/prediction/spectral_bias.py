"""Networks learn smooth functions first: every frequency in a time that the kernel foretells.

On a sphere the tangent kernel of a fully connected network depends on an angle only, and spherical
harmonics are its eigenfunctions. The part of the target that belongs to the eigenvalue λ is learned
by gradient flow as 1 − exp(−λt), in a time proportional to 1/λ; and λ falls as k⁻ᵖ with the
frequency k on Sᵖ⁻¹. One hidden ReLU layer without biases never learns odd frequencies above 1.

A coordinate that enters as a wave, [cos 2πbx, sin 2πbx], makes the kernel one of differences, and
moves its k-th eigenvalue to the frequency kb.

The source prints the eigenvalues of a Gram matrix of m points as m²λ, and the kernel after the
embedding as a series in cos 4πkb(x − x′); they are mλ, and cos 2πkb(x − x′). The series of a kernel
on the circle is λ₀/2π + Σ λₖ cos kθ/π, if λ belongs to sums over its arc.

Source: golikov · ntk-spectral-bias · 2.6.2, Eqs 2.106–2.114.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    at_most,
    between,
    exponent_between,
    identity,
)
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Plural, Seeded, within
from theorylab.kernels import infinite_kernels
from theorylab.kernels.fourier_features import (
    basic_frequencies,
    fourier_features,
    stretched_spectrum,
)
from theorylab.kernels.zonal import area, circle_spectrum, zonal_spectrum
from theorylab.models import NTK, mlp, network
from theorylab.models.parts import Bias
from theorylab.numerics import power_law_exponents
from theorylab.progress import report
from theorylab.training import descend, every, gradient_descent
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = (
    r"u_{t,k} = v_k^\top y - e^{-\lambda_k t} (v_k^\top y - u_{0,k}), \qquad"
    r" \lambda_k \propto k^{-p} \text{ on } S^{p-1}"
)
SPECTRUM = Source("golikov", "ntk-spectral-bias", "2.6.2, Eqs 2.110–2.113")
TIMES = Source("golikov", "ntk-spectral-bias", "2.6.2, Eqs 2.106–2.109")
FEATURES = Source("golikov", "ntk-spectral-bias", "2.6.2, Eq. 2.114")

HE = NTK(weight_scale=math.sqrt(2.0))
NUM_TERMS = 512  # of the series on the circle
LOWEST = 8  # the degree from which power laws are fitted
NUM_POINTS = 64  # on the circle, where networks are trained
AMPLITUDE = 0.1  # of every wave of the target; small, so that the kernel stays


@dataclass(frozen=True)
class Config(Seeded):
    """Spectra of tangent kernels, and when networks on a circle have learned a wave."""

    depth: Plural = 3  # layers with weights of the ReLU networks whose spectra are taken
    num_degrees: Annotated[int, within(16, 511)] = 64  # largest degree k of the fits
    factor: Count = 3  # b, the frequency of the embedding
    width: Count = 4096  # of the trained networks, with one hidden layer
    num_modes: Annotated[int, within(1, 16)] = 8  # waves of their target
    num_seeds: Count = 8  # trained networks


PRESETS = {
    "smoke": Config(width=1024, num_modes=5, num_seeds=6),
    "paper": Config(width=16384, num_modes=16, num_seeds=32),
}


class Result(NamedTuple):
    """Axes: k degrees, t angles or differences, m sizes, s seeds; deep: `depth` layers."""

    degrees: Int[np.ndarray, " k"]
    circle: Float[np.ndarray, " k"]  # λₖ of the deep network on S¹
    ball: Float[np.ndarray, " k"]  # and on S²
    shallow: Float[np.ndarray, " all"]  # from k = 0, of one hidden layer without biases, on S¹
    shallow_biased: Float[np.ndarray, " all"]  # and with them
    gram_sizes: Int[np.ndarray, " m"]
    gram: Float[np.ndarray, " m"]  # an eigenvalue of Gram matrices of these sizes
    gram_limit: Float[np.ndarray, ""]  # its λ
    kernel: Float[np.ndarray, " t"]  # κ at some angles
    series: Float[np.ndarray, " t"]  # and by its series
    shifted: Float[np.ndarray, " f"]  # eigenvalues of the embedded kernel at all frequencies
    expected_shift: Float[np.ndarray, " f"]  # λₖ at kb, 0 elsewhere
    embedded: Float[np.ndarray, " d"]  # the embedded kernel at all differences
    corrected_series: Float[np.ndarray, " d"]  # by cos 2πkb(x − x′)
    printed_series: Float[np.ndarray, " d"]  # by cos 4πkb(x − x′)
    moved: Float[np.ndarray, ""]  # by how much a translation changes the embedded kernel
    moved_plain: Float[np.ndarray, ""]  # and that of plain coordinates, relatively
    eigenvalues: Float[np.ndarray, " modes"]  # of the trained networks' limit
    half_times: Float[np.ndarray, "s modes"]  # when half of a wave was learned


def memory(config: Config) -> int:
    """Bytes of the trained networks with their gradients and neurons."""
    return 8 * config.num_seeds * config.width * (3 * 4 + 4 * NUM_POINTS)


def run(config: Config) -> Result:
    """Take spectra, then train networks on the circle."""
    report("spectra", 0.0)
    gram = infinite_kernels(mlp([1] * (config.depth - 1)), _circle(256), None, HE).ntk
    measured = _spectra(config, gram) | _embedded(config, gram)
    report("networks on the circle", 0.4)
    eigenvalues, half_times = _circle_networks(jax.random.key(config.seed), config)
    return Result(eigenvalues=eigenvalues, half_times=half_times, **measured)


def _profile(cosines: Array, depth: int, bias: Bias, dimension: int) -> Array:
    """κ(t): the tangent kernel between the pole and points at these cosines, of length √p."""
    sines = jnp.sqrt(jnp.maximum(1 - cosines**2, 0.0))
    zeros = jnp.zeros((len(cosines), dimension - 2))
    x = math.sqrt(dimension) * jnp.column_stack([cosines, sines, zeros])
    pole = jnp.zeros((1, dimension)).at[0, 0].set(math.sqrt(dimension))
    return infinite_kernels(mlp([1] * (depth - 1)), pole, x, HE, bias).ntk[0]


def _circle(size: int) -> Float[Array, "m 2"]:
    """Equidistant points, of length √2."""
    angles = 2 * jnp.pi * jnp.arange(size) / size
    return math.sqrt(2) * jnp.column_stack([jnp.cos(angles), jnp.sin(angles)])


def _spectra(config: Config, gram: Float[Array, "m m"]) -> dict[str, np.ndarray]:
    """Eigenvalues by quadrature, of Gram matrices, and the series of the kernel."""
    most, depth = config.num_degrees + 1, config.depth

    def spectrum(depth: int, bias: Bias, dimension: int, num_degrees: int = most) -> Array:
        kappa = partial(_profile, depth=depth, bias=bias, dimension=dimension)
        return zonal_spectrum(kappa, dimension, num_degrees, 1024)

    circle = spectrum(depth, "none", 2, NUM_TERMS)
    half = len(gram) // 2 + 1
    angles = 2 * jnp.pi * jnp.arange(half) / len(gram)
    on_arc = area(2) * circle  # for sums over the arc, as the series is written
    waves = jnp.cos(angles[:, None] * jnp.arange(1.0, NUM_TERMS)[None, :]) @ on_arc[1:]
    degree, strides = 2, (4, 2, 1)
    return {
        "degrees": np.arange(LOWEST, most),
        "circle": np.asarray(circle[LOWEST:most]),
        "ball": np.asarray(spectrum(depth, "none", 3)[LOWEST:]),
        "shallow": np.asarray(spectrum(2, "none", 2)),
        "shallow_biased": np.asarray(spectrum(2, "zero", 2)),
        "gram_sizes": np.array([len(gram) // stride for stride in strides]),
        "gram": np.array([_rayleigh(gram[::s, ::s], degree) for s in strides]),
        "gram_limit": np.asarray(circle[degree]),
        "kernel": np.asarray(gram[0, :half]),
        "series": np.asarray(on_arc[0] / (2 * jnp.pi) + waves / jnp.pi),
    }


def _rayleigh(gram: Float[Array, "m m"], degree: int) -> float:
    """The eigenvalue of cos kθ, an eigenvector on equidistant points."""
    wave = jnp.cos(2 * jnp.pi * degree * jnp.arange(len(gram)) / len(gram))
    return float(wave @ gram @ wave / (wave @ wave))


def _embedded(config: Config, gram: Float[Array, "m m"]) -> dict[str, np.ndarray]:
    """The kernel after the basic embedding: its eigenvalues and its series."""
    b, size = config.factor, config.factor * len(gram)
    grid = jnp.arange(size)[:, None] / size
    waves = math.sqrt(2) * fourier_features(grid, basic_frequencies(1, b))
    kernel = infinite_kernels(mlp([1] * (config.depth - 1)), waves[:1], waves, HE).ntk[0]
    spectrum, shifted = circle_spectrum(gram[0]), circle_spectrum(kernel)
    k = jnp.arange(1.0, len(spectrum))
    weights = (2 * spectrum[1:]).at[-1].divide(2)  # the last wave of an even grid counts once

    def moved(embed: Callable[[Array], Array]) -> np.ndarray:
        architecture, some = mlp([1] * (config.depth - 1)), jnp.linspace(0.0, 0.9, 10)[:, None]
        one, other = (
            infinite_kernels(architecture, embed(x), None, HE).ntk for x in (some, some + 0.37)
        )
        return np.asarray(jnp.abs(one - other).max() / jnp.abs(one).max())

    def series(multiple: float) -> np.ndarray:
        phases = multiple * jnp.pi * b * grid * k[None, :]
        return np.asarray(spectrum[0] + jnp.cos(phases) @ weights)

    return {
        "shifted": np.asarray(shifted),
        "expected_shift": np.asarray(stretched_spectrum(spectrum, b)[: len(shifted)]),
        "embedded": np.asarray(kernel),
        "corrected_series": series(2.0),
        "printed_series": series(4.0),
        "moved": moved(lambda x: fourier_features(x, basic_frequencies(1, b))),
        "moved_plain": moved(lambda x: x),
    }


def _circle_networks(key: RandomKey, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """When trained networks have learned half of each wave of the target."""
    x = _circle(NUM_POINTS)
    spectrum = circle_spectrum(infinite_kernels(mlp([1]), x[:1], x, HE, "zero").ntk[0])
    eigenvalues = np.asarray(spectrum[1 : config.num_modes + 1])
    rate = 0.5 / float(spectrum.max())  # small enough for steps to be a flow
    # Twice the time that the slowest wave needs.
    num_steps = math.ceil(2 * math.log(2) / (rate * eigenvalues.min()))
    keys = jax.random.split(key, config.num_seeds)
    half_times = _half_times(keys, x, config.num_modes, rate, num_steps, config.width)
    return eigenvalues, np.asarray(half_times)


@partial(jax.jit, static_argnames=("num_modes", "rate", "num_steps", "width"))
def _half_times(
    keys: Key[Array, " s"],
    x: Float[Array, "m 2"],
    num_modes: int,
    rate: float,
    num_steps: int,
    width: int,
) -> Float[Array, "s modes"]:
    """Train on the sum of all waves by the mean square, from outputs that are subtracted."""
    angles = 2 * jnp.pi * jnp.arange(len(x)) / len(x)
    waves = jnp.cos(angles[:, None] * jnp.arange(1.0, num_modes + 1)[None, :])
    target = AMPLITUDE * waves.sum(axis=1, keepdims=True)
    model = network(mlp([width]), (2,), HE, bias="zero")

    def train(key: RandomKey) -> Array:
        params = model.init(key)
        start = model.apply(params, x)

        def objective(params) -> Array:
            return jnp.mean((model.apply(params, x) - start - target) ** 2) / 2

        def learned(params) -> Array:
            moved = (model.apply(params, x) - start)[:, 0]
            return moved @ waves * (2 / len(x)) / AMPLITUDE

        steps = every(1, num_steps)
        path = descend(objective, params, gradient_descent(rate), steps, learned)
        return jax.vmap(_half_time, in_axes=1)(path.records) * rate

    return jax.vmap(train)(keys)


def _half_time(amplitudes: Float[Array, " t"]) -> Float[Array, ""]:
    """The step at which half is first reached, what is left being exponential in between.

    NaN if it is never reached.
    """
    above = amplitudes >= 0.5
    index = jnp.maximum(jnp.argmax(above), 1)
    before, after = jnp.log(1 - amplitudes[index - 1]), jnp.log(1 - amplitudes[index])
    share = (before - math.log(0.5)) / (before - after)
    return jnp.where(above.any(), index - 1 + share, jnp.nan)


def _odd(eigenvalues: np.ndarray) -> np.ndarray:
    """Those of odd degree from 3, over the largest of all."""
    return np.abs(eigenvalues[3::2]) / np.abs(eigenvalues).max()


def _factors(result: Result) -> np.ndarray:
    """The median time of every wave, over log 2/λ."""
    return np.median(result.half_times * result.eigenvalues[None] / math.log(2), axis=0)


def _slope(result: Result, eigenvalues: np.ndarray) -> float:
    (slope,) = power_law_exponents(jnp.asarray(result.degrees, float), jnp.asarray([eigenvalues]))
    return float(slope)


CLAIMS = (
    SPECTRUM.claim(
        "On the circle the eigenvalues of a deep ReLU kernel fall as k⁻².",
        lambda r, c: between(_slope(r, r.circle), -2.1, -1.9),
        formula=r"\lambda_k \propto k^{-2}",
    ),
    SPECTRUM.claim(
        "On the sphere in three dimensions they fall as k⁻³.",
        lambda r, c: between(_slope(r, r.ball), -3.2, -2.8),
        formula=r"\lambda_k \propto k^{-3}",
    ),
    SPECTRUM.claim(
        "One hidden layer without biases has no eigenvalue of odd degree from 3 on.",
        lambda r, c: at_most(_odd(r.shallow).max(), 1e-8),
    ),
    SPECTRUM.control(
        "With biases it has all of them.",
        lambda r, c: at_least(_odd(r.shallow_biased).min(), 1e-6),
    ),
    *SPECTRUM.erratum(
        printed=(
            "Eigenvalues of the Gram matrix of m points are m²λ.",
            lambda r, c: identity(r.gram, r.gram_sizes**2 * r.gram_limit, 0.01),
            r"\lambda(K) \approx m^2 \lambda_k",
        ),
        corrected=(
            # Aliases add Σ over j of λ at m·j ± k: less than 1 % from 64 points on, for k = 2.
            "Eigenvalues of the Gram matrix of m points are mλ.",
            lambda r, c: identity(r.gram, r.gram_sizes * r.gram_limit, 0.01),
            r"\lambda(K) \approx m \lambda_k",
        ),
    ),
    SPECTRUM.corrected(
        "The kernel on the circle is λ₀/2π + Σ λₖ cos kθ/π, if λ belongs to sums over the arc.",
        # What 512 terms leave out at the kink, θ = 0, is 2 Σ λₖ ≈ 1/512 of the kernel.
        lambda r, c: identity(r.series, r.kernel, 0.005),
        formula=r"K(\theta) = \frac{\lambda_0}{2\pi} + \frac{1}{\pi} \sum_k \lambda_k \cos k\theta",
    ),
    FEATURES.claim(
        "The embedding of frequency b moves the k-th eigenvalue to kb, and leaves no other.",
        lambda r, c: identity(r.shifted, r.expected_shift, 1e-8),
    ),
    FEATURES.claim(
        "The embedded kernel does not change if both inputs are translated.",
        lambda r, c: at_most(r.moved, 1e-10),
    ),
    FEATURES.control(
        "The kernel of plain coordinates does.",
        lambda r, c: at_least(r.moved_plain, 0.1),
    ),
    *FEATURES.erratum(
        printed=(
            "The embedded kernel is a series in cos 4πkb(x − x′).",
            lambda r, c: identity(r.printed_series, r.embedded, 1e-8),
        ),
        corrected=(
            "The embedded kernel is a series in cos 2πkb(x − x′).",
            lambda r, c: identity(r.corrected_series, r.embedded, 1e-8),
        ),
    ),
    TIMES.claim(
        "A trained network has learned half of a wave in a time proportional to 1/λ.",
        lambda r, c: exponent_between(1 / r.eigenvalues, r.half_times, 0.9, 1.1),
        formula=r"t_{1/2} = \log 2 / \lambda_k",
    ),
    TIMES.claim(
        "The factor is log 2, as for gradient flow of the limiting kernel.",
        # The kernel of a finite network is off by a few times 1/√width.
        lambda r, c: at_most(np.abs(np.log(_factors(r))).max(), math.log(1.25)),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Spectra, the moved modes, and times of training."""
    figure, (spectra, modes, times) = panels(
        "eigenvalues by degree", "modes after the embedding", "when half of a wave is learned"
    )
    degrees = result.degrees
    for values, power, label in ((result.circle, -2, "circle"), (result.ball, -3, "sphere")):
        spectra.loglog(degrees, values, "o", markersize=3, label=label)
        spectra.loglog(degrees, values[0] * (degrees / degrees[0]) ** float(power), **THEORY)
    odd = np.arange(3, len(result.shallow), 2)
    spectra.loglog(
        odd, np.abs(result.shallow[3::2]) + 1e-18, ".", label="one layer, odd, no biases"
    )
    spectra.set(xlabel="degree k", ylabel="λ")
    shown = np.arange(min(24, len(result.shifted)))
    modes.bar(shown, result.shifted[shown], label="measured")
    modes.plot(shown, result.expected_shift[shown], "_", color=THEORY["color"])
    modes.set(xlabel="frequency", ylabel="eigenvalue", yscale="symlog")
    slow = 1 / result.eigenvalues
    times.loglog(slow, result.half_times.T, "o", markersize=3, color="#0072B2", alpha=0.5)
    times.loglog(np.sort(slow), math.log(2) * np.sort(slow), label="log 2/λ", **THEORY)
    times.set(xlabel="1/λ", ylabel="time")
    for axis in (spectra, times):
        axis.legend(fontsize=7)
    return figure
