"""The density of an operator's eigenvalues, by stochastic Lanczos quadrature.

The spectral distribution F(t) = #{λᵢ ≤ t}/p is, for a random unit vector v, the mean of

    F_v(t) = Σᵢ (vᵀuᵢ)² 1[λᵢ ≤ t],        uᵢ the eigenvectors,

and Lanczos from v gives the Gauss quadrature of F_v: its nodes are the eigenvalues θⱼ of T, its
weights the squares of the first entries of T's eigenvectors. (The squares of those entries only:
the whole vectors would be wrong, though they sum to 1 as well.) Several probes v tell how sure it
is; their spread falls like 1/√(p · probes).

Source: Golub & Welsch (1969), Calculation of Gauss quadrature rules; Ubaru, Chen & Saad (2017),
Fast estimation of tr f(A) via stochastic Lanczos quadrature.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from scipy import special

from theorylab.answers import Answer, fixed
from theorylab.progress import report
from theorylab.typing import Axes, RandomKey, Scalar

from .counted import CountedOperator, refuse_tracing
from .restarted import Run
from .rows import Rows
from .spectra import Operator, Vector, flat_operator, lanczos, template, tridiagonal_matrix

_FIRST_PROBES = 6  # with fewer the band is wide, whatever the operator
_SAME = 1e-5  # of the greatest node: nodes that are nearer are one
_LARGEST_GRID = 1000  # points at which the band is looked at


class SpectralDensity(Answer, axes=("probe", "node")):
    """One quadrature for each probe: nodes in rising order, and weights that sum to 1.

    With a tolerance: the products that were taken, whether the band of `spectral_cdf` meets it at
    every node, and about how many products would do.
    """

    nodes: Float[Array, "probes steps"]
    weights: Float[Array, "probes steps"]
    products: int = fixed(default=0)
    converged: bool = fixed(default=False)
    needed: int = fixed(default=0)

    def draw(self, axes: Axes) -> None:
        """The density, with every node widened to a Gaussian of the nodes' mean distance."""
        from theorylab.answers.figure import curve

        nodes = jnp.asarray(self.nodes)
        spread = float(nodes.max() - nodes.min()) or 1.0
        at = jnp.linspace(nodes.min() - spread / 20, nodes.max() + spread / 20, 400)
        width = spread / nodes.shape[-1]
        if len(nodes) > 1:
            band = smoothed_density(self, at, width)
            curve(axes, at, band.value, band.low, band.high)
        else:
            curve(axes, at, _widened(self, at, width)[0])
        axes.set_xlabel("eigenvalue λ")
        axes.set_ylabel("density of eigenvalues")
        axes.set_yscale("log")
        top = axes.dataLim.y1
        axes.set_ylim(top * 1e-6, top * 2)


class Band(Answer, axes=("point",)):
    """A function at given points, and the interval around it that the probes' spread implies."""

    value: Float[Array, " t"]
    low: Float[Array, " t"]
    high: Float[Array, " t"]

    def draw(self, axes: Axes) -> None:
        """The function in its band, over the number of the point."""
        from theorylab.answers.figure import curve

        curve(axes, jnp.arange(len(self.value)), self.value, self.low, self.high)
        axes.set_xlabel("point")
        axes.set_ylabel("value")


def spectral_density(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_steps: int = 100,
    num_probes: int = 20,
    tolerance: float | None = None,
    budget: int | None = None,
) -> SpectralDensity:
    """Estimate where the eigenvalues of A lie, from num_steps · num_probes products.

    With a tolerance, probes are taken until F is known to it at every node, as the 95 % band of
    `spectral_cdf` tells, or the budget ends; that looks at numbers, so it cannot be compiled. How
    near to a node F can be resolved is decided by `num_steps` alone.

    Args:
        matvec: The operator A, symmetric.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        key: The randomness of the probes.
        num_steps: The nodes of each quadrature.
        num_probes: How many random vectors v; not looked at with a tolerance.
        tolerance: The greatest half-width of the band, a share of all eigenvalues.
        budget: The greatest number of products, with a tolerance: at least 2 num_steps, and by
            default num_steps · num_probes.

    Example:
        >>> spectrum = jnp.array([1.0, 1.0, 5.0])
        >>> found = spectral_density(lambda v: spectrum * v, 3, jax.random.key(0), num_steps=2)
        >>> found.nodes[0].round(3).tolist()  # both eigenvalues, from every probe
        [1.0, 5.0]
    """
    if num_steps < 1 or num_probes < 1:
        raise ValueError(
            f"num_steps and num_probes must be at least 1, got {num_steps} and {num_probes}."
        )
    if tolerance is not None:
        most = num_steps * num_probes if budget is None else budget
        return _until(matvec, like, key, num_steps, tolerance, most)
    flat, unravel = template(like)
    apply = flat_operator(matvec, unravel)

    def one(key: RandomKey) -> tuple[Float[Array, " steps"], Float[Array, " steps"]]:
        start_key, lanczos_key = jax.random.split(key)
        start = jax.random.normal(start_key, flat.shape, flat.dtype)
        _, diagonal, off_diagonal = lanczos(apply, start, num_steps, lanczos_key)
        nodes, vectors = jnp.linalg.eigh(tridiagonal_matrix(diagonal, off_diagonal))
        return nodes, vectors[0] ** 2

    return SpectralDensity(*jax.lax.map(one, jax.random.split(key, num_probes)))


def _until(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_steps: int,
    tolerance: float,
    budget: int,
) -> SpectralDensity:
    """The density to a tolerance: one product after another."""
    refuse_tracing(key)
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must be a share in (0, 1), got {tolerance}.")
    operator = CountedOperator(matvec, like)
    steps = min(num_steps, operator.size)
    if budget < 2 * steps:
        raise ValueError(f"budget must be at least 2 num_steps = {2 * steps}, got {budget}.")
    found: list[tuple[np.ndarray, np.ndarray]] = []
    most = budget // steps
    aim = min(_FIRST_PROBES, most)
    while True:
        while len(found) < aim:
            found.append(_probe(operator, jax.random.fold_in(key, len(found)), steps))
            report("spectral density", min(1.0, operator.products / budget))
        nodes, weights = (np.stack(parts) for parts in zip(*found, strict=True))
        half, n = _widest(nodes, weights), len(found)
        needed = math.ceil(min(n * (half / tolerance) ** 2, 1e12))
        if half <= tolerance or n >= most:
            break
        aim = min(max(needed, n + 1), 2 * n, most)
    done = half <= tolerance
    every, mass = jnp.asarray(nodes, operator.dtype), jnp.asarray(weights, operator.dtype)
    needed = operator.products if done else max(needed, n + 1) * steps
    return SpectralDensity(every, mass, operator.products, done, needed)


def _probe(
    operator: CountedOperator, key: RandomKey, num_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of one random start; those after its space closes weigh nothing."""
    start = jax.random.normal(key, (operator.size,), operator.dtype)
    run = Run(operator, Rows(operator.size, operator.dtype), start, num_steps + 1, 0.0)
    while run.steps < num_steps and not run.ended:
        run.step()
    nodes, vectors = np.linalg.eigh(run.matrix)
    missing = num_steps - len(nodes)
    return np.pad(nodes, (0, missing), mode="edge"), np.pad(vectors[0] ** 2, (0, missing))


def _widest(nodes: np.ndarray, weights: np.ndarray) -> float:
    """The greatest half-width of the band of F, between all nodes."""
    n = len(nodes)
    ends = np.sort(nodes.ravel())
    apart = np.diff(ends) > _SAME * np.abs(ends).max()
    at = ((ends[1:] + ends[:-1]) / 2)[apart]
    at = at[:: max(1, len(at) // _LARGEST_GRID)]
    sums = np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0)))
    places = [np.searchsorted(each, at) for each in nodes]
    below = np.stack([each[place] for each, place in zip(sums, places, strict=True)])
    t = float(special.stdtrit(n - 1, 0.975))
    return float(np.max(t * below.std(axis=0, ddof=1), initial=0.0) / math.sqrt(n))


def spectral_cdf(
    density: SpectralDensity, at: Float[Array, " t"], confidence: float = 0.95
) -> Band:
    """F(t), the share of eigenvalues up to t, with Student's interval over the probes.

    Half of a node's weight counts at the node itself, as Gauss quadrature has it.

    Args:
        density: What `spectral_density` found, with two probes at least.
        at: The points t.
        confidence: The probability with which the interval covers at one point.

    Example:
        >>> two = SpectralDensity(jnp.array([[0.0, 1.0]] * 2), jnp.array([[0.25, 0.75]] * 2))
        >>> spectral_cdf(two, jnp.array([-1.0, 0.5, 2.0])).value.tolist()
        [0.0, 0.25, 1.0]
    """
    differences = at[None, :, None] - density.nodes[:, None, :]
    below = jnp.heaviside(differences, 0.5)
    return _band(jnp.sum(below * density.weights[:, None, :], axis=2), confidence)


def smoothed_density(
    density: SpectralDensity,
    at: Float[Array, " t"],
    bandwidth: Scalar,
    confidence: float = 0.95,
) -> Band:
    """The density with every node widened to a Gaussian, with Student's interval over the probes.

    Args:
        density: What `spectral_density` found, with two probes at least.
        at: The points t.
        bandwidth: The Gaussians' standard deviation; (λ_max − λ_min)/steps is usual.
        confidence: The probability with which the interval covers at one point.

    Example:
        >>> one = SpectralDensity(jnp.zeros((2, 1)), jnp.ones((2, 1)))
        >>> round(float(smoothed_density(one, jnp.zeros(1), bandwidth=1.0).value[0]), 4)  # 1/√(2π)
        0.3989
    """
    if not isinstance(bandwidth, Tracer) and not bandwidth > 0:
        raise ValueError(f"bandwidth must be positive, got {bandwidth}.")
    return _band(_widened(density, at, bandwidth), confidence)


def spectral_distance(
    density: SpectralDensity, eigenvalues: Float[Array, " p"]
) -> Float[Array, ""]:
    """Wasserstein's distance W₁ = ∫ |F − G| dt to a known spectrum G.

    Example:
        >>> found = SpectralDensity(jnp.array([[0.0, 1.0]]), jnp.array([[0.5, 0.5]]))
        >>> float(spectral_distance(found, jnp.array([0.0, 3.0])))
        1.0
    """
    nodes, weights = density.nodes.ravel(), density.weights.ravel() / len(density.nodes)
    masses = jnp.append(weights, jnp.full(len(eigenvalues), -1 / len(eigenvalues), nodes.dtype))
    points = jnp.append(nodes, eigenvalues)
    order = jnp.argsort(points)
    excess = jnp.cumsum(masses[order])[:-1]
    return jnp.sum(jnp.abs(excess) * jnp.diff(points[order]))


def marchenko_pastur(at: Float[Array, " t"], ratio: float) -> Float[Array, " t"]:
    """F(t) of XᵀX/n for independent standard X (n, p), in the limit of p/n = ratio.

    With a, b = (1 ∓ √ratio)², the density is √((b − t)(t − a))/(2π ratio t) on [a, b]. It is
    integrated in the angle, t = (a + b)/2 − (b − a)/2 cos φ, which takes the roots away.

    Args:
        at: The points t.
        ratio: p/n in (0, 1).

    Example:
        >>> marchenko_pastur(jnp.array([0.2, 1.0, 3.0]), ratio=0.25).round(2).tolist()[::2]
        [0.0, 1.0]
    """
    if not 0 < ratio < 1:
        raise ValueError(f"ratio must be in (0, 1), got {ratio}.")
    middle, half = 1 + ratio, 2 * math.sqrt(ratio)
    edges = jnp.linspace(0, math.pi, 4001)
    angles = (edges[1:] + edges[:-1]) / 2
    heights = (half * jnp.sin(angles)) ** 2 / (
        2 * math.pi * ratio * (middle - half * jnp.cos(angles))
    )
    cumulated = jnp.append(0.0, jnp.cumsum(heights * jnp.diff(edges)))
    return jnp.interp(jnp.arccos(jnp.clip((middle - at) / half, -1, 1)), edges, cumulated)


def _widened(
    density: SpectralDensity, at: Float[Array, " t"], bandwidth: Scalar
) -> Float[Array, "probes t"]:
    """The density of every probe, its nodes widened to Gaussians."""
    distances = (at[None, :, None] - density.nodes[:, None, :]) / bandwidth
    heights = jnp.exp(-(distances**2) / 2) / (math.sqrt(2 * math.pi) * bandwidth)
    return jnp.sum(heights * density.weights[:, None, :], axis=2)


def _band(values: Float[Array, "probes t"], confidence: float) -> Band:
    """Mean over the probes and Student's interval."""
    n = len(values)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    if n < 2:
        raise ValueError(f"num_probes must be at least 2 for an interval, got {n}.")
    mean = jnp.mean(values, axis=0)
    t = float(special.stdtrit(n - 1, (1 + confidence) / 2))
    margin = t * jnp.std(values, axis=0, ddof=1) / math.sqrt(n)
    return Band(mean, mean - margin, mean + margin)
