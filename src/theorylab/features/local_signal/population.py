"""Descent on the true risk of the soft-threshold filter, without samples: a map of three numbers.

With labels 1 the output is f = g + S: the signal g = φ_b(c), and S the sum of k independent
soft-thresholded Gaussians S₁ = φ_b(Z), Z ~ N(0, s²), s² = (c² + v²)σ², all symmetric about 0. Their
characteristic function ψ(t) = E cos(tS₁) is real, and that of S is ψᵏ. Because
½ tanh(x/2) = ∫₀^∞ sin(tx)/sinh(πt) dt, the risk E log(1 + e^{−f}) is one integral,

    L = log 2 − g/2 + ∫₀^∞ (1 − cos(tg) ψ(t)ᵏ)/(t sinh πt) dt,

and so are its derivatives, with x = Z/s and the slope q = φ_b′(Z):

    ∂L/∂g = −E ς(−f)   = −½ + ∫ sin(tg) ψᵏ / sinh(πt) dt                       (the signal)
    ∂L/∂s              = k ∫ cos(tg) ψᵏ⁻¹ E[sin(tS₁) q x] / sinh(πt) dt        (the noise)
    ∂L/∂b at fixed g   = k ∫ cos(tg) ψᵏ⁻¹ E[sin(tS₁) ∂_bφ_b] / sinh(πt) dt

The noise pulls w back, by ∂L/∂s · σ w/‖w‖ along w* and along w − c w* alike. The integrands are
even and analytic, so that the midpoint rule with spacing h errs by e^{−(2π/h − |f|)} only; with
the default grid outputs may reach |f| ≈ 35. (Another engine, masses on a grid and a Fourier
transform, is `accuracy.error_rate`, which agrees.)

Source: karp · lsa-pop · 3.4, B.1.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.data.patches import PatchLaw
from theorylab.training import Trajectory, ensemble
from theorylab.training.trajectory import Steps, run_and_record

from .network import FilterRates, soft_threshold
from .projected import FilterState, signal_slopes


class Grid(NamedTuple):
    """Frequencies of the integral over t, and nodes of the expectations over the noise."""

    num_frequencies: int = 96
    spacing: float = 0.1
    num_nodes: int = 96


class ManyLaws(NamedTuple):
    """Numbers of patches k and noises σ, as arrays: many laws in one compiled program.

    Only for b at most a little above 0: at a traced k the sign of ψᵏ for ψ < 0 is not sure.
    """

    num_patches: Float[Array, "..."]
    noise: Float[Array, "..."]


_GRID = Grid()
_FARTHEST = 9.0  # standard deviations: beyond, nothing is left
_BEYOND = 8.5  # how far beyond the threshold the noise is followed


class PopulationRisk(NamedTuple):
    """The true risk of a filter, and its gradient in parts."""

    loss: Float[Array, ""]
    signal: Float[Array, ""]  # the signal patch's part of ∂L/∂c
    noise: Float[Array, ""]  # the noise patches' part of ∂L/∂c
    rest: Float[Array, ""]  # ∂L/∂v
    bias_signal: Float[Array, ""]  # the signal patch's part of ∂L/∂b
    bias_noise: Float[Array, ""]  # the noise patches' part

    @property
    def gradient(self) -> FilterState:
        """∂L/∂(c, v, b)."""
        return FilterState(self.signal + self.noise, self.rest, self.bias_signal + self.bias_noise)


def risk(state: FilterState, law: PatchLaw | ManyLaws, grid: Grid = _GRID) -> PopulationRisk:
    """L and the parts of its gradient, at one filter.

    Args:
        state: c, v and b, not with c = v = 0.
        law: k and σ.
        grid: How finely to integrate.

    Example:
        >>> from theorylab.data import patch_law
        >>> start = FilterState(jnp.array(1e-6), jnp.array(0.0), jnp.array(0.0))
        >>> round(float(risk(start, patch_law(1000, 10)).gradient.signal), 4)
        -0.5
    """
    c, v, b = state
    length = jnp.hypot(c, v)
    g, k = soft_threshold(c, b), law.num_patches
    t = grid.spacing * (jnp.arange(grid.num_frequencies) + 0.5)
    weight = grid.spacing / jnp.sinh(math.pi * t)
    psi, along, lifted = _transforms(t, length * law.noise, b, grid)
    others = psi ** (k - 1)
    by_signal = -0.5 + jnp.sum(weight * jnp.sin(t * g) * others * psi)
    by_scale = k * jnp.sum(weight * jnp.cos(t * g) * others * along)
    slope, bias_slope = signal_slopes(state)
    return PopulationRisk(
        loss=math.log(2) - g / 2 + jnp.sum(weight / t * (1 - jnp.cos(t * g) * others * psi)),
        signal=by_signal * slope,
        noise=by_scale * law.noise * c / length,
        rest=by_scale * law.noise * v / length,
        bias_signal=by_signal * bias_slope,
        bias_noise=k * jnp.sum(weight * jnp.cos(t * g) * others * lifted),
    )


def population_step(
    state: FilterState, law: PatchLaw | ManyLaws, rates: FilterRates, grid: Grid = _GRID
) -> FilterState:
    """One step of gradient descent on the true risk. As a length, v stays positive.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> start = FilterState(jnp.array(0.1), jnp.array(0.1), jnp.array(0.0))
        >>> bool(population_step(start, law, FilterRates(1.0, 0.0)).signal > start.signal)
        True
    """
    gradient = risk(state, law, grid).gradient
    return FilterState(
        state.signal - rates.weights * gradient.signal,
        jnp.abs(state.rest - rates.weights * gradient.rest),
        state.bias - rates.bias * gradient.bias,
    )


def descend_population(
    start: FilterState,
    law: PatchLaw | ManyLaws,
    rates: FilterRates,
    steps: Steps,
    grid: Grid = _GRID,
) -> Trajectory:
    """Gradient descent on the true risk; records (state, risk).

    Args:
        start: c, v and b.
        law: k and σ.
        rates: η and η_b.
        steps: Increasing numbers of steps after which to record.
        grid: How finely to integrate.

    Example:
        >>> law = PatchLaw(num_patches=9, dimension=4, noise=0.5)
        >>> start = FilterState(jnp.array(0.1), jnp.array(0.1), jnp.array(0.0))
        >>> states, risks = descend_population(start, law, FilterRates(0.1, 0.01), [0, 5]).records
        >>> bool(states.signal[1] > states.signal[0])
        True
    """

    def advance(state: FilterState, _: Array) -> FilterState:
        return population_step(state, law, rates, grid)

    def measure(state: FilterState) -> tuple[FilterState, PopulationRisk]:
        return state, risk(state, law, grid)

    return run_and_record(advance, start, steps, measure, lambda state: state)


def descend_each(
    start: FilterState,
    laws: Sequence[PatchLaw],
    rates: Sequence[FilterRates],
    steps: Steps,
    grid: Grid = _GRID,
) -> Trajectory:
    """Gradient descent on the true risk of several laws, each with its own learning rates.

    Args:
        start: c, v and b of all.
        laws: k and σ of each.
        rates: η and η_b of each.
        steps: Increasing numbers of steps after which to record.
        grid: How finely to integrate.

    Example:
        >>> laws = [PatchLaw(num_patches=k, dimension=4, noise=0.5) for k in (9, 25)]
        >>> start = FilterState(jnp.array(0.1), jnp.array(0.1), jnp.array(0.0))
        >>> states, risks = descend_each(start, laws, [FilterRates(0.1, 0.01)] * 2, [0, 2]).records
        >>> states.signal.shape
        (2, 2)
    """
    if len(laws) != len(rates):
        raise ValueError(f"laws and rates must be as many, got {len(laws)} and {len(rates)}.")
    many = ManyLaws(
        jnp.array([float(law.num_patches) for law in laws]), jnp.array([law.noise for law in laws])
    )
    each = FilterRates(*(jnp.array([float(rate[part]) for rate in rates]) for part in range(2)))
    return ensemble(
        lambda given: descend_population(start, given[0], given[1], steps, grid), (many, each)
    )


def _transforms(
    t: Float[Array, " f"], scale: Float[Array, ""], bias: Float[Array, ""], grid: Grid
) -> tuple[Float[Array, " f"], Float[Array, " f"], Float[Array, " f"]]:
    """E cos(tS₁), E[sin(tS₁) q x] and E[sin(tS₁) ∂_bφ_b], by symmetry twice those of x > 0."""
    edge = jnp.minimum(jnp.abs(bias) / scale, _FARTHEST)

    def beyond(x: Array, density: Array) -> tuple[Array, Array, Array]:
        phase = t[:, None] * soft_threshold(scale * x, bias)[None, :]
        sine = jnp.sin(phase)
        return jnp.cos(phase) @ density, sine @ (density * x), sine @ density

    def below() -> tuple[Array, Array]:  # the slope there is 2 if b > 0
        x, density = half_gaussian(jnp.zeros_like(edge), edge, grid.num_nodes)
        phase = t[:, None] * (2 * scale * x)[None, :]
        return jnp.cos(phase) @ density, 2 * jnp.sin(phase) @ (density * x)

    def dead() -> tuple[Array, Array]:  # and nothing passes if b < 0
        zero = jnp.zeros_like(t)
        return zero + jax.scipy.special.erf(edge / math.sqrt(2)), zero

    x, density = half_gaussian(edge, edge + _BEYOND, grid.num_nodes)
    psi, along, lifted = beyond(x, density)
    psi_below, along_below = jax.lax.cond(bias > 0, below, dead)
    return psi + psi_below, along + along_below, lifted


def half_gaussian(
    low: Float[Array, ""], high: Float[Array, ""], num_nodes: int
) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
    """Nodes x in [low, high], and weights times twice the normal density.

    Example:
        >>> _, weights = half_gaussian(jnp.array(0.0), jnp.array(9.0), num_nodes=50)
        >>> round(float(weights.sum()), 6)
        1.0
    """
    nodes, weights = _legendre(num_nodes)
    x = low + (high - low) * (jnp.asarray(nodes) + 1) / 2
    density = math.sqrt(2 / math.pi) * jnp.exp(-(x**2) / 2)
    return x, (high - low) / 2 * jnp.asarray(weights) * density


@lru_cache
def _legendre(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(num_nodes)
