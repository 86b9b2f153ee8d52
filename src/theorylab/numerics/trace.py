"""The trace of an operator that is known only by what it does to a vector, with an interval.

    Hutchinson    tr A = E zᵀAz                                z random signs
    Hutch++       tr A = tr QᵀAQ + E zᵀ(1 − QQᵀ)A(1 − QQᵀ)z    Q exact, z random signs outside it
    squares       tr A² = ‖AQ‖_F² + E‖A(1 − QQᵀ)z‖²            the same of A², one product for each

Q spans A applied to a few random vectors, so that it holds most of what is large in A, and little
is left to chance. Given Q, what the probes z say is a mean of independent numbers. Where Q leaves a
few directions that outweigh all others those numbers are skew (one direction: χ² of one degree),
and Student's interval alone would cover in 89 % instead of 95 %. So the interval takes the farther
end of Student's and of Hall's, which corrects for the skewness: 94 to 96 %, from one direction that
is left to a whole Wigner matrix. Where Q holds all of A's range nothing is left to chance, only to
rounding: of every product by a few units of the last place of ‖A‖, which is added to both ends.

Source: Meyer, Musco, Musco & Woodruff (2021), Hutch++: Optimal stochastic trace estimation.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from theorylab.answers import Answer, fixed
from theorylab.progress import report
from theorylab.typing import RandomKey

from .counted import CountedOperator, refuse_tracing
from .enough import draw_enough
from .intervals import hall_ends
from .spectra import Operator, Vector, flat_operator, template


class TraceEstimate(Answer, errors={"value": "error"}, labels={"value": "trace tr A"}):
    """An unbiased estimate, its standard error, and the interval that covers the trace.

    With a tolerance: the products that were taken, whether the interval meets the tolerance, and
    about how many products would do.
    """

    value: Float[Array, ""]
    error: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    products: int = fixed(default=0)
    converged: bool = fixed(default=False)
    needed: int = fixed(default=0)


def trace(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_probes: int = 20,
    rank: int = 10,
    confidence: float = 0.95,
    tolerance: float | None = None,
    budget: int = 1000,
) -> TraceEstimate:
    """Estimate tr A from 2 rank + num_probes products; it can be jitted, mapped and scanned.

    With a tolerance, probes are taken until the interval is within it or the budget ends; that
    looks at numbers, so it cannot be compiled.

    Args:
        matvec: The operator A, symmetric.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        key: The randomness of directions and probes.
        num_probes: How many random vectors z, at least 2; with a tolerance the first 20 at least.
        rank: How many directions Q has: 0 is Hutchinson's estimate; all are exact.
        confidence: The probability with which the interval covers the trace.
        tolerance: The greatest distance of the interval's ends, relative to the estimate.
        budget: The greatest number of products, with a tolerance: at least 2 rank + 2.

    Example:
        >>> found = trace(lambda v: 2.0 * v, 50, jax.random.key(0), rank=0)
        >>> round(float(found.value), 3)
        100.0
    """
    if num_probes < 2 or rank < 0:
        raise ValueError(
            f"num_probes must be at least 2 and rank at least 0, got {num_probes} and {rank}."
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    if tolerance is not None:
        return _until(matvec, like, key, num_probes, rank, confidence, tolerance, budget)
    return _from_probes(matvec, like, key, num_probes, rank, confidence)


def _from_probes(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_probes: int,
    rank: int,
    confidence: float,
) -> TraceEstimate:
    """The estimate from a given number of probes."""
    flat, unravel = template(like)
    apply = flat_operator(matvec, unravel)
    rank = min(rank, flat.size)
    direction_key, probe_key = jax.random.split(key)
    basis = jnp.zeros((0, flat.size), flat.dtype)
    if rank:
        directions = jax.random.normal(direction_key, (rank * flat.size,), flat.dtype)
        images = jax.lax.map(apply, directions.reshape(rank, flat.size))
        basis = jnp.linalg.qr(images.T)[0].T
    exact, images = _quadratic(apply, basis)
    probes = jax.random.rademacher(probe_key, (num_probes * flat.size,), flat.dtype)
    probes = probes.reshape(num_probes, flat.size)
    samples, others = _quadratic(apply, probes - (probes @ basis.T) @ basis)
    mean, deviation = jnp.mean(samples), jnp.std(samples, ddof=1)
    t = float(special.stdtrit(num_probes - 1, (1 + confidence) / 2))
    low, high = _skew_ends(samples, mean, deviation, t)
    error = deviation / math.sqrt(num_probes)
    # Of z, whose length is √p, a random image of length ε‖A‖√p is not seen to be one.
    norm = jnp.maximum(jnp.max(images, initial=0.0), jnp.max(others) / math.sqrt(flat.size))
    size = images.sum() + math.sqrt(flat.size) * norm + jnp.abs(samples).mean()
    rounding = 4 * jnp.finfo(flat.dtype).eps * size
    return TraceEstimate(
        value=exact.sum() + mean,
        error=error,
        low=exact.sum() + jnp.minimum(low, mean - t * error) - rounding,
        high=exact.sum() + jnp.maximum(high, mean + t * error) + rounding,
    )


def squared_norm(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_probes: int = 20,
    rank: int = 10,
    confidence: float = 0.95,
    *,
    tolerance: float,
    budget: int = 1000,
) -> TraceEstimate:
    """Estimate ‖A‖_F² = tr A² to a tolerance; it looks at numbers, so it cannot be compiled.

    Args:
        matvec: The operator A, symmetric.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        key: The randomness of directions and probes.
        num_probes: How many random vectors z are drawn at first; 20 at least are.
        rank: How many directions Q has; all are exact.
        confidence: The probability with which the interval covers the squared norm.
        tolerance: The greatest distance of the interval's ends, relative to the estimate.
        budget: The greatest number of products: at least 2 rank + 2.

    Example:
        >>> found = squared_norm(lambda v: 2.0 * v, 50, jax.random.key(0), 20, 0, tolerance=0.1)
        >>> round(float(found.value), 3)
        200.0
    """
    plan = num_probes, rank, confidence, tolerance, budget
    return _until(matvec, like, key, *plan, squares=True)


def _until(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_probes: int,
    rank: int,
    confidence: float,
    tolerance: float,
    budget: int,
    squares: bool = False,
) -> TraceEstimate:
    """The estimate to a tolerance, of tr A or tr A²: one product after another."""
    refuse_tracing(key)
    if not 0 < tolerance < math.inf:
        raise ValueError(f"tolerance must be positive, got {tolerance}.")
    operator = CountedOperator(matvec, like)
    size, rank = operator.size, min(rank, operator.size)
    if budget < 2 * rank + 2:
        raise ValueError(f"budget must be at least 2 rank + 2 = {2 * rank + 2}, got {budget}.")
    direction_key, probe_key = jax.random.split(key)
    basis = _range(operator, rank, direction_key)
    images = [(row, operator(row)) for row in basis]
    form = _square if squares else _quadratic_form
    exact = math.fsum(form(*pair) for pair in images)
    norms = [float(jnp.linalg.norm(image)) for _, image in images]
    others: list[float] = []

    def draw(count: int) -> np.ndarray:
        found = []
        for _ in range(count):
            key = jax.random.fold_in(probe_key, len(others))
            z = jax.random.rademacher(key, (size,), operator.dtype)
            z = z - (basis @ z) @ basis
            image = operator(z)
            found.append(form(z, image))
            others.append(float(jnp.linalg.norm(image)) / math.sqrt(size))
            report("trace", min(1.0, operator.products / budget))
        return np.array(found)

    def allowed(mean: float) -> float:
        return tolerance * abs(exact + mean)

    found = draw_enough(draw, allowed, num_probes, budget - 2 * rank, confidence)
    norm = max([*norms, *others])
    average = float(np.abs(found.samples).mean())
    if squares:  # ‖Az‖² is off by 2‖Az‖ times what Az is off, some units of ‖A‖‖z‖
        total = 2 * norm * (sum(norms) + size * sum(others) / len(others)) + average
    else:
        total = sum(norms) + math.sqrt(size) * norm + average
    rounding = 4 * operator.epsilon * total
    ends = exact + np.array(
        [found.mean.value, found.mean.low - rounding, found.mean.high + rounding]
    )
    value, low, high = jnp.asarray(ends, operator.dtype)
    error = jnp.asarray(found.mean.error, operator.dtype)
    needed = found.needed + 2 * rank
    return TraceEstimate(value, error, low, high, operator.products, found.converged, needed)


def _quadratic_form(z: Float[Array, " p"], image: Float[Array, " p"]) -> float:
    return float(z @ image)


def _square(_: Float[Array, " p"], image: Float[Array, " p"]) -> float:
    return float(image @ image)


def _range(operator: CountedOperator, rank: int, key: RandomKey) -> Float[Array, "rank p"]:
    """Q: A applied to random vectors, orthonormal."""
    if not rank:
        return jnp.zeros((0, operator.size), operator.dtype)
    keys = jax.random.split(key, rank)
    shape, dtype = (operator.size,), operator.dtype
    images = [operator(jax.random.normal(each, shape, dtype)) for each in keys]
    return jnp.linalg.qr(jnp.stack(images, axis=1))[0].T


def _quadratic(
    apply: Callable[[Array], Array], vectors: Float[Array, "m p"]
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """zᵀAz of each, and ‖Az‖."""

    def one(z: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        image = apply(z)
        return z @ image, jnp.linalg.norm(image)

    return jax.lax.map(one, vectors)


def _skew_ends(
    samples: Float[Array, " m"], mean: Float[Array, ""], deviation: Float[Array, ""], t: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Hall's ends; the mean itself where all samples are equal."""
    scale = jnp.where(deviation > 0, deviation, 1.0)
    skewness = jnp.mean(((samples - mean) / scale) ** 3)
    return hall_ends(mean, deviation, skewness, t, samples.size, jnp.cbrt)
