"""On a sphere the tangent kernel's eigenvalues fall as a power; waves as inputs move them.

On a sphere the tangent kernel of a fully connected network depends on an angle only, and spherical
harmonics are its eigenfunctions. Their eigenvalues λ fall as k⁻ᵖ with the frequency k on Sᵖ⁻¹. One
hidden ReLU layer without biases has none of odd degree above 1.

A coordinate that enters as a wave, [cos 2πbx, sin 2πbx], makes the kernel one of differences, and
moves its k-th eigenvalue to the frequency kb.

The source has three slips. The eigenvalues of a Gram matrix of m points are mλ, not m²λ. The kernel
on the circle is λ₀/2π + Σ λₖ cos kθ/π, if λ belongs to sums over its arc; the constant printed in
its place, 1/4π², would be the mean of every kernel. After the embedding, the series is one in
cos 2πkb(x − x′), not cos 4πkb(x − x′).

Source: golikov · ntk-spectral-bias · 2.6.2, Eqs 2.110–2.114.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, between, identity
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Plural, within
from theorylab.kernels import infinite_kernels
from theorylab.kernels.fourier_features import (
    basic_frequencies,
    fourier_features,
    stretched_spectrum,
)
from theorylab.kernels.zonal import area, circle_spectrum, zonal_spectrum
from theorylab.models import Serial, mlp
from theorylab.models.parts import Bias
from theorylab.numerics import power_law
from theorylab.progress import report

from ._circle import HE, circle

PRECISION = "float64"
FORMULA = (
    r"K(\theta) = \frac{\lambda_0}{2\pi} + \frac{1}{\pi} \sum_k \lambda_k \cos k\theta, \qquad"
    r" \lambda_k \propto k^{-p} \text{ on } S^{p-1}"
)
DECAY = Source("golikov", "ntk-spectral-bias", "2.6.2, after Eq. 2.113")
GRAM = Source("golikov", "ntk-spectral-bias", "2.6.2, Eq. 2.111")
SERIES = Source("golikov", "ntk-spectral-bias", "2.6.2, Eq. 2.113")
EMBEDDED = Source("golikov", "ntk-spectral-bias", "2.6.2, Eq. 2.114")

NUM_TERMS = 512  # of the series on the circle
LOWEST = 8  # the degree from which power laws are fitted


@dataclass(frozen=True)
class Config(Checked):
    """Spectra of tangent kernels on the circle and the sphere, before and after an embedding."""

    depth: Plural = 3  # layers with weights of the ReLU networks whose spectra are taken
    num_degrees: Annotated[int, within(16, 511)] = 64  # largest degree k of the fits
    factor: Count = 3  # b, the frequency of the embedding


PRESETS = {"smoke": Config(), "paper": Config(num_degrees=400, factor=10)}


class Spectra(NamedTuple):
    """Eigenvalues by quadrature and of Gram matrices; axes k degrees, t angles, m sizes."""

    circle: Float[Array, " k"]  # λₖ of the deep network on S¹
    ball: Float[Array, " k"]  # and on S²
    shallow: Float[Array, " all"]  # from k = 0, of one hidden layer without biases, on S¹
    shallow_biased: Float[Array, " all"]  # and with them
    gram_sizes: Int[np.ndarray, " m"]
    gram: Float[Array, " m"]  # an eigenvalue of Gram matrices of these sizes
    gram_limit: Float[Array, ""]  # its λ
    kernel: Float[Array, " t"]  # κ at some angles
    series: Float[Array, " t"]  # λ₀/2π + Σ λₖ cos kθ/π
    printed_series: Float[Array, " t"]  # with 1/4π² for the constant, and the same waves


class Embedded(NamedTuple):
    """The kernel after the embedding of frequency b; axes f frequencies, d differences."""

    shifted: Float[Array, " f"]  # its eigenvalues at all frequencies
    expected_shift: Float[Array, " f"]  # λₖ at kb, 0 elsewhere
    kernel: Float[Array, " d"]  # at all differences
    series: Float[Array, " d"]  # by cos 2πkb(x − x′)
    printed_series: Float[Array, " d"]  # by cos 4πkb(x − x′)
    moved: Float[Array, ""]  # by how much a translation changes the embedded kernel
    moved_plain: Float[Array, ""]  # and that of plain coordinates, relatively


class Result(NamedTuple):
    """Spectra before the embedding, and the kernel after it."""

    degrees: Int[np.ndarray, " k"]  # of the fitted eigenvalues
    spectra: Spectra
    embedded: Embedded


def run(config: Config) -> Result:
    """Take spectra on the circle and the sphere, then embed the line."""
    report("spectra", 0.0)
    gram = infinite_kernels(_network(config.depth), circle(256), None, HE).ntk
    spectra = _spectra(config, gram)
    report("embedding", 0.5)
    degrees = np.arange(LOWEST, config.num_degrees + 1)
    return Result(degrees, spectra, _embedded(config, gram))


def _network(depth: int) -> Serial:
    return mlp([1] * (depth - 1))


def _profile(cosines: Array, depth: int, bias: Bias, dimension: int) -> Array:
    """κ(t): the tangent kernel between the pole and points at these cosines, of length √p."""
    sines = jnp.sqrt(jnp.maximum(1 - cosines**2, 0.0))
    zeros = jnp.zeros((len(cosines), dimension - 2))
    x = math.sqrt(dimension) * jnp.column_stack([cosines, sines, zeros])
    pole = jnp.zeros((1, dimension)).at[0, 0].set(math.sqrt(dimension))
    return infinite_kernels(_network(depth), pole, x, HE, bias).ntk[0]


def _spectra(config: Config, gram: Float[Array, "m m"]) -> Spectra:
    """Eigenvalues by quadrature, of Gram matrices, and the series of the kernel."""
    most, depth = config.num_degrees + 1, config.depth

    def spectrum(depth: int, bias: Bias, dimension: int, num_degrees: int = most) -> Array:
        kappa = partial(_profile, depth=depth, bias=bias, dimension=dimension)
        return zonal_spectrum(kappa, dimension, num_degrees, 1024)

    eigenvalues = spectrum(depth, "none", 2, NUM_TERMS)
    half = len(gram) // 2 + 1
    angles = 2 * jnp.pi * jnp.arange(half) / len(gram)
    on_arc = area(2) * eigenvalues  # for sums over the arc, as the series is written
    waves = jnp.cos(angles[:, None] * jnp.arange(1.0, NUM_TERMS)[None, :]) @ on_arc[1:]
    degree, strides = 2, (4, 2, 1)
    return Spectra(
        circle=eigenvalues[LOWEST:most],
        ball=spectrum(depth, "none", 3)[LOWEST:],
        shallow=spectrum(2, "none", 2),
        shallow_biased=spectrum(2, "zero", 2),
        gram_sizes=np.array([len(gram) // stride for stride in strides]),
        gram=jnp.stack([_rayleigh(gram[::s, ::s], degree) for s in strides]),
        gram_limit=eigenvalues[degree],
        kernel=gram[0, :half],
        series=on_arc[0] / (2 * jnp.pi) + waves / jnp.pi,
        printed_series=1 / (4 * jnp.pi**2) + waves / jnp.pi,
    )


def _rayleigh(gram: Float[Array, "m m"], degree: int) -> Float[Array, ""]:
    """The eigenvalue of cos kθ, an eigenvector on equidistant points."""
    wave = jnp.cos(2 * jnp.pi * degree * jnp.arange(len(gram)) / len(gram))
    return wave @ gram @ wave / (wave @ wave)


def _embedded(config: Config, gram: Float[Array, "m m"]) -> Embedded:
    """The kernel after the basic embedding: its eigenvalues and its series."""
    b, size = config.factor, config.factor * len(gram)
    grid = jnp.arange(size)[:, None] / size
    waves = math.sqrt(2) * fourier_features(grid, basic_frequencies(1, b))
    kernel = infinite_kernels(_network(config.depth), waves[:1], waves, HE).ntk[0]
    spectrum, shifted = circle_spectrum(gram[0]), circle_spectrum(kernel)
    k = jnp.arange(1.0, len(spectrum))
    weights = (2 * spectrum[1:]).at[-1].divide(2)  # the last wave of an even grid counts once

    def moved(embed: Callable[[Array], Array]) -> Float[Array, ""]:
        some = jnp.linspace(0.0, 0.9, 10)[:, None]
        one, other = (
            infinite_kernels(_network(config.depth), embed(x), None, HE).ntk
            for x in (some, some + 0.37)
        )
        return jnp.abs(one - other).max() / jnp.abs(one).max()

    def series(multiple: float) -> Float[Array, " d"]:
        phases = multiple * jnp.pi * b * grid * k[None, :]
        return spectrum[0] + jnp.cos(phases) @ weights

    return Embedded(
        shifted=shifted,
        expected_shift=stretched_spectrum(spectrum, b)[: len(shifted)],
        kernel=kernel,
        series=series(2.0),
        printed_series=series(4.0),
        moved=moved(lambda x: fourier_features(x, basic_frequencies(1, b))),
        moved_plain=moved(lambda x: x),
    )


def _odd(eigenvalues: np.ndarray) -> np.ndarray:
    """Those of odd degree from 3, over the largest of all."""
    return np.abs(eigenvalues[3::2]) / np.abs(eigenvalues).max()


CLAIMS = (
    DECAY.claim(
        "On the circle the eigenvalues of a deep ReLU kernel fall as k⁻².",
        lambda r, c: between(power_law(r.degrees, r.spectra.circle).exponent, -2.1, -1.9),
        formula=r"\lambda_k \propto k^{-2}",
        quote="has eigenvalues decaying as a power-law",
        demand="lab: ±0.1 at finite k, chosen before the first run",
    ),
    DECAY.claim(
        "On the sphere in three dimensions they fall as k⁻³.",
        lambda r, c: between(power_law(r.degrees, r.spectra.ball).exponent, -3.2, -2.8),
        formula=r"\lambda_k \propto k^{-3}",
        quote="has eigenvalues decaying as a power-law",
        demand="lab: ±0.2 at finite k, chosen before the first run",
    ),
    DECAY.found(
        "One hidden layer without biases has no eigenvalue of odd degree from 3 on.",
        lambda r, c: at_most(_odd(r.spectra.shallow).max(), 1e-8),
    ),
    DECAY.control(
        "With biases it has all of them.",
        lambda r, c: at_least(_odd(r.spectra.shallow_biased).min(), 1e-6),
        demand="derived: k⁻² at the largest degree, 511, is 4·10⁻⁶",
    ),
    *GRAM.erratum(
        printed=(
            "Eigenvalues of the Gram matrix of m points are m²λ.",
            lambda r, c: identity(
                r.spectra.gram, r.spectra.gram_sizes**2 * r.spectra.gram_limit, 0.01
            ),
            r"\lambda(K) \approx m^2 \lambda_k",
        ),
        corrected=(
            # Aliases add Σ over j of λ at m·j ± k: less than 1 % from 64 points on, for k = 2.
            "Eigenvalues of the Gram matrix of m points are mλ.",
            lambda r, c: identity(
                r.spectra.gram, r.spectra.gram_sizes * r.spectra.gram_limit, 0.01
            ),
            r"\lambda(K) \approx m \lambda_k",
        ),
        quote="are approximately the eigenvectors of … with eigenvalues",
    ),
    *SERIES.erratum(
        printed=(
            "The constant in the series of a kernel on the circle is 1/4π², whatever the kernel.",
            lambda r, c: identity(r.spectra.printed_series, r.spectra.kernel, 0.005),
            r"K = \frac{1}{4\pi^2} + \frac{1}{\pi^2} \sum_k \lambda_k \cos k\theta",
        ),
        corrected=(
            "The kernel on the circle is λ₀/2π + Σ λₖ cos kθ/π, if λ belongs to sums over the arc.",
            # What 512 terms leave out at the kink, θ = 0, is 2 Σ λₖ ≈ 1/512 of the kernel.
            lambda r, c: identity(r.spectra.series, r.spectra.kernel, 0.005),
            r"K = \frac{\lambda_0}{2\pi} + \frac{1}{\pi} \sum_k \lambda_k \cos k\theta",
        ),
        quote="this decomposition gets a simpler form",
    ),
    *EMBEDDED.erratum(
        printed=(
            "The embedded kernel is a series in cos 4πkb(x − x′).",
            lambda r, c: identity(r.embedded.printed_series, r.embedded.kernel, 1e-8),
        ),
        corrected=(
            "The embedded kernel is a series in cos 2πkb(x − x′): λₖ becomes the kb-th eigenvalue.",
            lambda r, c: identity(r.embedded.series, r.embedded.kernel, 1e-8),
        ),
        quote="The corresponding kernel is then given as",
    ),
    EMBEDDED.claim(
        "The embedded kernel does not change if both inputs are translated.",
        lambda r, c: at_most(r.embedded.moved, 1e-10),
        quote="The simplest non-trivial embedding of this kind",
    ),
    EMBEDDED.control(
        "The kernel of plain coordinates does.",
        lambda r, c: at_least(r.embedded.moved_plain, 0.1),
        quote="hence the kernel cannot be translation-invariant",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw spectra and their power laws, and the eigenvalues after the embedding."""
    figure, (spectra, modes) = panels("eigenvalues by degree", "eigenvalues after the embedding")
    degrees, found = result.degrees, result.spectra
    for values, power, label in ((found.circle, -2, "circle"), (found.ball, -3, "sphere")):
        spectra.plot(degrees, values, "o", markersize=3, label=label)
        spectra.plot(degrees, values[0] * (degrees / degrees[0]) ** float(power), **THEORY)
    odd = np.arange(3, len(found.shallow), 2)
    spectra.plot(odd, np.abs(found.shallow[3::2]) + 1e-18, ".", label="one layer, odd, no biases")
    label_axes(spectra, "degree k", "λ", logarithmic="xy")
    spectra.legend(fontsize=7)
    shown = np.arange(min(24, len(result.embedded.shifted)))
    modes.bar(shown, result.embedded.shifted[shown], label="measured")
    modes.plot(shown, result.embedded.expected_shift[shown], "_", color=THEORY["color"])
    label_axes(modes, "frequency", "eigenvalue")
    modes.set_yscale("symlog")
    return figure
