"""What a nonlinearity makes of two correlated Gaussians is known in closed form.

Kernels of infinitely wide networks are made of two integrals, E σ(u)σ(v) and E σ′(u)σ′(v) over a
Gaussian pair of variances q₁, q₂ and covariance c. For ReLU they are the arc-cosine kernels. Here
closed forms meet integrals over the plane by Gauss–Hermite quadrature, those of ReLU also integrals
over one variable, and the Hermite series

    E σ(u)σ(v) = Σₖ sₖ(q₁) sₖ(q₂) λᵏ,   λ = c/√(q₁q₂),

which serves for every other σ, shows the error that it states: after K terms
√(T(q₁)T(q₂)) |λ|ᴷ, where T is what the series lacks at λ = 1. A kink costs: T falls as K^(−3/2) for
ReLU and as K^(−1/2) for its derivative; for erf it falls faster than any power.

Source: golikov · ntk-dual · 2.4.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure
from scipy.stats import norm

from theorylab.claims import (
    Finding,
    Source,
    at_least,
    at_most,
    between,
    holds,
    identity,
)
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Checked, Increasing, NonNegative, Odd, Plural, Several
from theorylab.kernels import Dual, dual, quadrature_dual, quadrature_error
from theorylab.models import ACTIVATIONS
from theorylab.models.activations import Elementwise
from theorylab.numerics import expectation2, power_law
from theorylab.progress import report

PRECISION = "float64"
FORMULA = (
    r"\mathbb{E}\,[u]_+[v]_+ = \frac{c\,(\pi - \arccos\lambda) + \sqrt{q_1 q_2 - c^2}}{2\pi}, \quad"
    r" \mathbb{E}\,1_{u>0}1_{v>0} = \frac{\pi - \arccos\lambda}{2\pi}"
)
DUALS = Source("golikov", "ntk-dual", "2.4.3")

SMOOTH = ("erf", "gelu", "sine", "gaussian", "gabor")
EXPANDED = ("relu", "erf")  # whose series are looked at
NUM_NODES = 100  # in each direction, for smooth activations
NUM_LINE_NODES = 600  # of integrals over one variable, for ReLU


@dataclass(frozen=True)
class Config(Checked):
    """Gaussian pairs of all variances with all correlations."""

    num_correlations: Odd = 41  # correlations λ from −1 to 1, both ends included
    variances: Several[NonNegative] = (0.0, 0.4, 1.3)  # q₁ and q₂
    node_counts: Increasing[Plural] = (16, 32, 64, 128, 256)  # nodes of the quadrature for ReLU
    term_counts: Increasing[Plural] = (8, 16, 32, 64, 128)  # terms K of the series

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_correlations < 3:
            raise ValueError(f"num_correlations must be at least 3, got {self.num_correlations}.")
        if max(self.variances) == 0:
            raise ValueError(f"one of variances must be positive, got {self.variances}.")
        for name in ("node_counts", "term_counts"):
            counts = getattr(self, name)
            if len(counts) < 3:
                raise ValueError(f"{name} must be three or more, got {counts}.")


PRESETS = {
    "smoke": Config(num_correlations=11, node_counts=(16, 32, 64), term_counts=(8, 16, 32)),
    "paper": Config(
        num_correlations=201,
        variances=(0.0, 0.01, 0.1, 0.4, 1.0, 1.3),
        node_counts=(16, 32, 64, 128, 256, 512),
        term_counts=(8, 16, 32, 64, 128, 256),
    ),
}


class Result(NamedTuple):
    """Axes: r correlations (at variance 1), p pairs of variances with correlations, 2 duals."""

    correlations: Float[np.ndarray, " r"]
    relu: Float[np.ndarray, "2 r"]  # closed forms at variance 1: value, derivative
    relu_error: Float[np.ndarray, "2 n"]  # of the quadrature, the largest over correlations
    wrong_error: Float[np.ndarray, "2 n"]  # the same against the closed form of |u|
    line: Float[np.ndarray, "2 p"]  # of ReLU, by integrals over one variable, at positive variances
    closed: Float[np.ndarray, "2 p"]  # the same in closed form
    smooth_error: Float[np.ndarray, " f"]  # of smooth activations, over all pairs
    series_error: Float[np.ndarray, "a 2 k r"]  # of ReLU and erf, at variance 1
    series_bound: Float[np.ndarray, "a 2 k r"]  # as stated
    slope: Float[np.ndarray, "f p"]  # ∂/∂c of values, by automatic differentiation
    derivative: Float[np.ndarray, "f p"]  # E σ′(u)σ′(v) in closed form
    num_broken: int  # gradients of duals that are not finite
    num_broken_plainly: int  # the same of the printed formula, at variance 1


def memory(config: Config) -> int:
    """Bytes of the quadratures over the plane."""
    pairs = len(config.variances) ** 2 * config.num_correlations
    return 8 * 4 * (config.num_correlations * max(config.node_counts) ** 2 + pairs * NUM_NODES**2)


def run(config: Config) -> Result:
    """Compare closed forms with quadratures, then with series."""
    correlations = np.linspace(-1.0, 1.0, config.num_correlations)
    one = np.ones_like(correlations)
    pair = tuple(map(jnp.asarray, (one, one, correlations)))
    pairs = tuple(map(jnp.asarray, _pairs(config, correlations)))

    report("quadrature of ReLU", 0.0)
    relu = _relu(*pair, config.node_counts)
    line, closed = _lines(*(each[_positive(*pairs)] for each in pairs))
    report("smooth activations", 0.3)
    smooth = _smooth(*pairs)
    report("series", 0.7)
    series = _all_series(*pair, config.term_counts)
    report("gradients", 0.9)
    gradients = _gradients(tuple(partial(dual, name) for name in ("relu", *SMOOTH)), *pairs)
    plain = _gradients((_printed,), *pair)
    found = jax.tree.map(np.asarray, {**relu, **smooth, **series})
    return Result(
        correlations=correlations,
        line=line,
        closed=closed,
        num_broken=_num_broken(gradients),
        num_broken_plainly=_num_broken(plain),
        slope=np.asarray(gradients[1:, 2]),
        **found,
    )


def _pairs(config: Config, correlations: np.ndarray) -> tuple[np.ndarray, ...]:
    """All pairs of variances with all correlations."""
    variances = np.array(config.variances)
    grid = np.meshgrid(variances, variances, correlations, indexing="ij")
    q1, q2, rho = (axis.ravel() for axis in grid)
    return q1, q2, rho * np.sqrt(q1 * q2)


def _quadrature(function: Elementwise, q1: Array, q2: Array, c: Array, num_nodes: int) -> Dual:
    """The two integrals over the plane."""
    covariance = jnp.stack([jnp.stack([q1, c], -1), jnp.stack([c, q2], -1)], -1)

    def slope(z: Array) -> Array:
        return jax.jvp(function, (z,), (jnp.ones_like(z),))[1]

    return Dual(
        expectation2(lambda u, v: function(u) * function(v), covariance, num_nodes),
        expectation2(lambda u, v: slope(u) * slope(v), covariance, num_nodes),
    )


def _largest(measured: Dual, expected: Dual) -> Float[Array, " 2"]:
    return jnp.stack([jnp.abs(a - b).max() for a, b in zip(measured, expected, strict=True)])


@partial(jax.jit, static_argnames="node_counts")
def _relu(q1: Array, q2: Array, c: Array, node_counts: tuple[int, ...]) -> dict[str, Array]:
    """The quadrature of ReLU against its closed form, and against that of |u|."""
    relu, absolute = dual("relu", q1, q2, c), dual("abs", q1, q2, c)
    found = [_quadrature(ACTIVATIONS["relu"], q1, q2, c, num) for num in node_counts]
    return {
        "relu": jnp.stack(relu),
        "relu_error": jnp.stack([_largest(each, relu) for each in found], axis=1),
        "wrong_error": jnp.stack([_largest(each, absolute) for each in found], axis=1),
    }


def _positive(q1: Array, q2: Array, c: Array) -> np.ndarray:
    """Which pairs have two positive variances."""
    return np.asarray((q1 > 0) & (q2 > 0))


def _lines(q1: Array, q2: Array, c: Array) -> tuple[np.ndarray, np.ndarray]:
    """The expectations of ReLU and of its derivative, over u of E[· | u], and in closed form.

    Given u, v is normal with mean cu/q₁ and variance q₂ − c²/q₁.
    """
    closed = np.stack([np.asarray(each) for each in dual("relu", q1, q2, c)])
    a, b, covariance = (np.asarray(each)[:, None] for each in (q1, q2, c))
    nodes, weights = np.polynomial.legendre.leggauss(NUM_LINE_NODES)
    # From 0 to 12 deviations; beyond there is nothing in double precision.
    z, weights = 6 * (nodes + 1)[None, :], 6 * weights[None, :]
    mean = covariance * z / np.sqrt(a)
    spread = np.sqrt(np.maximum(b - covariance**2 / a, 1e-30))
    ratio = mean / spread
    ramp = mean * norm.cdf(ratio) + spread * norm.pdf(ratio)
    line = [np.sqrt(a) * z * ramp, norm.cdf(ratio)]
    return np.stack([(norm.pdf(z) * each * weights).sum(axis=1) for each in line]), closed


@jax.jit
def _smooth(q1: Array, q2: Array, c: Array) -> dict[str, Array]:
    """The quadrature of smooth activations against their closed forms."""
    closed = [dual(name, q1, q2, c) for name in SMOOTH]
    found = [_quadrature(ACTIVATIONS[name], q1, q2, c, NUM_NODES) for name in SMOOTH]
    errors = [_largest(a, b).max() for a, b in zip(found, closed, strict=True)]
    return {
        "smooth_error": jnp.stack(errors),
        "derivative": jnp.stack([each.derivative for each in closed]),
    }


@partial(jax.jit, static_argnames="term_counts")
def _all_series(q1: Array, q2: Array, c: Array, term_counts: tuple[int, ...]) -> dict[str, Array]:
    """The error of series against closed forms, and what they state, at variance 1."""
    errors, bounds = [], []
    for name in EXPANDED:
        exact = jnp.stack(dual(name, q1, q2, c))
        for num_terms in term_counts:
            series = jnp.stack(quadrature_dual(ACTIVATIONS[name], q1, q2, c, num_terms))
            tails = jnp.stack(quadrature_error(ACTIVATIONS[name], q1[:1], num_terms))
            errors.append(jnp.abs(series - exact))
            bounds.append(tails * jnp.abs(c)[None, :] ** num_terms)
    shape = (len(EXPANDED), len(term_counts), 2, c.shape[0])
    return {
        "series_error": jnp.stack(errors).reshape(shape).swapaxes(1, 2),
        "series_bound": jnp.stack(bounds).reshape(shape).swapaxes(1, 2),
    }


def _printed(q1: Array, q2: Array, c: Array) -> Dual:
    """The arc-cosine kernels as they are printed."""
    angle = jnp.pi - jnp.arccos(c / jnp.sqrt(q1 * q2))
    value = (c * angle + jnp.sqrt(q1 * q2 - c**2)) / (2 * jnp.pi)
    return Dual(value, angle / (2 * jnp.pi))


@partial(jax.jit, static_argnames="functions")
def _gradients(
    functions: tuple[Callable[[Array, Array, Array], Dual], ...], q1: Array, q2: Array, c: Array
) -> Float[Array, "f 3 p"]:
    """The gradients of E σ(u)σ(v) in q₁, q₂ and c."""

    def gradient(function: Callable[[Array, Array, Array], Dual]) -> Array:
        return jnp.stack(jax.grad(lambda *q: function(*q).value.sum(), (0, 1, 2))(q1, q2, c))

    return jnp.stack([gradient(function) for function in functions])


def _num_broken(gradients: Float[Array, "f 3 p"]) -> int:
    """How many are not finite."""
    return int(np.sum(~np.isfinite(np.asarray(gradients))))


CLAIMS = (
    DUALS.claim(
        "For ReLU quadrature goes to the arc-cosine kernel, in inverse proportion to its nodes.",
        lambda r, c: _exponent(c.node_counts, r.relu_error[0], -1.2, -0.8),
        formula=r"\frac{\lambda(\pi - \arccos\lambda) + \sqrt{1-\lambda^2}}{2\pi}",
        demand="derived: Gauss–Hermite has n^(−1) at a kink",
    ),
    DUALS.claim(
        "So it does for the derivative of ReLU, as their inverse root or faster.",
        lambda r, c: _exponent(c.node_counts, r.relu_error[1], -np.inf, -0.4),
        formula=r"\frac{\pi - \arccos\lambda}{2\pi}",
        demand="derived: Gauss–Hermite has n^(−1/2) at a jump",
    ),
    DUALS.claim(
        "For ReLU closed forms are the integrals over one variable, at all variances, to 1e-8.",
        lambda r, c: identity(r.closed, r.line, 1e-8),
        formula=r"\frac{q_{12}(\pi - \arccos\lambda) + \sqrt{q_{11} q_{22} - q_{12}^2}}{2\pi}",
    ),
    DUALS.claim(
        "For smooth activations, erf among them, closed forms are the integrals, to 1e-8.",
        lambda r, c: at_most(r.smooth_error.max(), 1e-8),
        quote="in particular, for ReLU and the error function",
    ),
    DUALS.check(
        "The series has never a larger error than it states.",
        lambda r, c: holds(r.series_bound - r.series_error, rounding=1e-12),
        formula=r"|\mathrm{error}| \le \sqrt{T(q_1)T(q_2)}\,|\lambda|^K",
    ),
    DUALS.check(
        "That bound is attained: at λ = 1 the series has just that error.",
        lambda r, c: identity(r.series_error[..., -1], r.series_bound[..., -1], 1e-8),
    ),
    DUALS.found(
        "At λ = 1 the error of ReLU falls as K^(−3/2).",
        lambda r, c: _exponent(c.term_counts, r.series_error[0, 0, :, -1], -1.8, -1.4),
        demand="derived: the tail of Σ k^(−5/2) over every second k from K on; it is nearly"
        " (K − 1)^(−3/2), whose exponent in K is −1.71 at K = 8",
    ),
    DUALS.found(
        "At λ = 1 the error of its derivative falls as K^(−1/2).",
        lambda r, c: _exponent(c.term_counts, r.series_error[0, 1, :, -1], -0.55, -0.45),
        demand="derived: the tail of Σ k^(−3/2)",
    ),
    DUALS.check(
        "The derivative of E σσ in the covariance is E σ′σ′, at the edges too.",
        lambda r, c: identity(r.slope, r.derivative, 1e-10),
        formula=r"\partial_c\,\mathbb{E}\,\sigma(u)\sigma(v) = \mathbb{E}\,\sigma'(u)\sigma'(v)",
    ),
    DUALS.check(
        "Gradients are finite at λ = ±1 and at variance 0.",
        lambda r, c: at_most(r.num_broken, 0),
    ),
    DUALS.control(
        "Differentiated as printed, the arc-cosine kernels break at λ = ±1.",
        lambda r, c: at_least(r.num_broken_plainly, 2),
    ),
    DUALS.control(
        "Against the closed form of |u| the error stays.",
        lambda r, c: at_least((r.wrong_error[:, -1] / r.wrong_error[:, 0]).min(), 0.9),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the arc-cosine kernels, the error of quadrature, and that of the series."""
    node_counts = np.asarray(config.node_counts)
    term_counts = np.asarray(config.term_counts)
    figure, (kernel, nodes, terms) = panels(
        "ReLU at variance 1", "quadrature over the plane: error", "series at λ = 1: error"
    )
    for values, label in zip(result.relu, ("E σ(u)σ(v)", "E σ′(u)σ′(v)"), strict=True):
        kernel.plot(result.correlations, values, label=label)
    kernel.set(xlabel="correlation λ")

    for index, label in enumerate(("ReLU", "its derivative")):
        nodes.plot(node_counts, result.relu_error[index], "o-", markersize=3, label=label)
    nodes.plot(node_counts, result.wrong_error[0], "s-", markersize=3, label="ReLU against |u|")
    start = result.relu_error[0, 0]
    ratio = node_counts / node_counts[0]
    nodes.plot(node_counts, start / ratio, label="1/nodes", **THEORY)
    nodes.set(xscale="log", yscale="log", xlabel="nodes in each direction")

    for index, name in enumerate(("ReLU", "erf")):
        for order, label in enumerate((name, f"derivative of {name}")):
            shown = np.maximum(result.series_error[index, order, :, -1], 1e-17)
            terms.plot(term_counts, shown, "o-", markersize=3, label=label)
    terms.set(xscale="log", yscale="log", xlabel="terms K")
    for axis in (kernel, nodes, terms):
        axis.tick_params(which="minor", labelsize=6)
        axis.legend(fontsize=7)
    return figure


def _exponent(x: tuple[int, ...], y: np.ndarray, low: float, high: float) -> Finding:
    """Judge the exponent of a curve without noise."""
    return between(power_law(np.asarray(x), y).exponent, low, high)
