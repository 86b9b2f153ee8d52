"""How many directions of its inputs a network looks at: the effective rank of its AGOP.

With J the Jacobian (k, d) of the outputs at an input x, and M = E JᵀJ over the law of the inputs:

    rank(M) = (tr M)²/tr M²        from 1 (one direction) to d (all alike)

From n inputs, with tᵢ = ‖Jᵢ‖² and hᵢⱼ = ‖Jᵢ Jⱼᵀ‖², both traces are means over pairs i ≠ j,

    (tr M)² ≈ mean tᵢtⱼ,   tr M² ≈ mean hᵢⱼ,

each without bias: the rank of the sample's own M = (1/n) Σ JᵢᵀJᵢ would be too small, as it has only
n terms. Leaving out one input at a time (the jackknife) gives the error of log rank, and what is
left of its bias, by which the interval is widened. Student's quantile has the degrees of freedom
with which the error is known, 2n/(κ − 1) for influences of kurtosis κ: few where a few inputs have
most of the gradient. With many outputs, rows of J are replaced by a few random combinations ξᵀJ, ξ
of signs, E ξξᵀ = I: every mean over pairs stays what it is, as ξᵢ and ξⱼ are independent.

The eigenvalues and directions are those of the sample's M: from a matrix (nk, nk) of the inner
products of gradients if d is larger.

Source: zhu · agop · Eq. 4.5 for M; means over pairs and their jackknife: Hoeffding (1948) and
Arvesen (1969).
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import stdtrit

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import num_inputs, some_inputs
from theorylab.typing import Apply, Axes, Inputs, Params, RandomKey, Reduction, check_key

from .agop import checked_network, flat_network, outputs_of_one
from .blocks import block_size_for
from .split import At, num_entries, split_at

MOST_OUTPUTS = 4  # whose gradients are all taken; of more, a few combinations
_COMBINATIONS = 2  # for every input: more inputs tell more than more outputs
_FEWEST = 30  # inputs for an interval


class AgopRank(Answer, labels={"eigenvalues": "eigenvalue λ of the AGOP M"}):
    """The effective rank of M, and its top directions.

    Example:
        >>> inputs = jax.random.normal(jax.random.key(0), (20, 3))
        >>> found = agop_rank(lambda w, x: x @ w, jnp.eye(3)[:, :2], inputs, jax.random.key(1))
        >>> round(found.rank, 4), found.directions.shape
        (2.0, (3, 3))
    """

    eigenvalues: Float[Array, " top"]  # of the sample's M, the largest first
    directions: Float[Array, "d top"]  # their eigenvectors
    shares: Float[Array, " top"]  # of the trace
    rank: float  # (tr M)²/tr M²
    low: float  # of its interval
    high: float
    trace: float  # tr M
    num_samples: int  # inputs
    num_rows: int  # gradients at each input

    def draw(self, axes: Axes) -> None:
        """The top eigenvalues, by rank."""
        from theorylab.answers.figure import ranked

        ranked(axes, self.eigenvalues, y="eigenvalue λ of the AGOP M")


def agop_rank(
    apply: Apply,
    params: Params,
    x: Inputs,
    key: RandomKey,
    top: int = 8,
    confidence: float = 0.95,
    block_size: int | None = None,
    *,
    at: At | None = None,
    outputs: Reduction | None = None,
) -> AgopRank:
    """The effective rank of the average gradient outer product, with an interval over inputs.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, ...).
        params: Its parameters, any pytree.
        x: The inputs, independent draws of their law: a sample of a thousand is plenty.
        key: Draws combinations of the outputs, if there are more than 4.
        top: How many eigenvalues and directions to give, at most.
        confidence: Of the interval, in (0, 1); below 30 inputs there is none: its ends are NaN.
        block_size: How many inputs to take at a time, 256 at most by default.
        at: What to differentiate by in place of the inputs, as for `agop`.
        outputs: A function of the outputs to take in their place.

    Example: one direction.
        >>> w, x = jnp.array([[3.0], [4.0]]), jax.random.normal(jax.random.key(0), (20, 2))
        >>> found = agop_rank(lambda w, x: jnp.tanh(x @ w), w, x, jax.random.key(1))
        >>> round(found.rank, 6), jnp.abs(found.directions[:, 0]).round(3).tolist()
        (1.0, [0.6..., 0.8...])
    """
    check_key(key)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    own = checked_network(apply, params, x, block_size, at, outputs)
    rows = np.asarray(_rows(own.apply, at, own.params, own.x, key, block_size))
    rows = rows.astype(np.float64)
    rank, low, high = rank_of_rows(rows, confidence)
    values, directions = _top(rows.reshape(-1, rows.shape[-1]) / math.sqrt(len(rows)), top)
    trace = float((rows**2).sum() / len(rows))
    return AgopRank(
        eigenvalues=jnp.asarray(values),
        directions=jnp.asarray(directions),
        shares=jnp.asarray(values / trace if trace > 0 else values),
        rank=rank,
        low=low,
        high=high,
        trace=trace,
        num_samples=len(rows),
        num_rows=rows.shape[1],
    )


@partial(jax.jit, static_argnums=(0, 1, 5))
def _rows(
    apply: Apply, at: At | None, params: Params, x: Inputs, key: RandomKey, block_size: int | None
) -> Float[Array, "n r d"]:
    """Gradients of the outputs at every input, or of a few random combinations of them."""
    split = split_at(apply, params, x, at)
    (dimension, kind), k = num_entries(split, params, x), outputs_of_one(apply, params, x)
    n, num_rows = num_inputs(x), rows_of(k)
    size = block_size_for(x, dimension * num_rows, block_size, kind)

    def of_block(start: Array) -> Array:
        begin = jnp.minimum(start, n - size)
        network, flat = flat_network(split, params, some_inputs(x, begin, size))
        outputs, pull_back = jax.vjp(network, flat)
        if num_rows == k:
            chosen = jnp.broadcast_to(jnp.eye(k, dtype=outputs.dtype)[:, None], (k, size, k))
        else:
            signs = jax.random.rademacher(
                jax.random.fold_in(key, start), (num_rows * size * k,), outputs.dtype
            )
            chosen = signs.reshape(num_rows, size, k) / jnp.sqrt(num_rows).astype(outputs.dtype)
        return jax.vmap(lambda row: pull_back(row)[0])(chosen).transpose(1, 0, 2)

    starts = jnp.arange(0, n, size)
    found = fast_convolutions(lambda starts: jax.lax.map(of_block, starts))(starts)
    last = n - size * (len(starts) - 1)  # the last block ends with the inputs
    return jnp.concatenate([found[:-1].reshape(-1, num_rows, dimension), found[-1, size - last :]])


def rows_of(num_outputs: int) -> int:
    """How many gradients are taken at each input.

    Example:
        >>> rows_of(3), rows_of(50_000)
        (3, 2)
    """
    return num_outputs if num_outputs <= MOST_OUTPUTS else _COMBINATIONS


def rank_of_rows(
    rows: Float[np.ndarray, "n r d"], confidence: float = 0.95
) -> tuple[float, float, float]:
    """(tr M)²/tr M² of M = E JᵀJ with its interval, from independent J (r, d).

    Args:
        rows: J of every input.
        confidence: Of the interval.

    Example: the same direction at every input.
        >>> rank_of_rows(np.ones((30, 1, 3)))
        (1.0, 1.0, 1.0)
    """
    n, r, d = rows.shape
    if n < 2:
        raise ValueError(f"x must hold at least two inputs, got {n}.")
    flat = rows.reshape(n * r, d)
    norms = (rows**2).sum(axis=(1, 2))  # tᵢ
    if not norms.any() or not np.isfinite(norms).all():
        return math.nan, math.nan, math.nan
    pairs = ((flat @ flat.T) ** 2).reshape(n, r, n, r).sum(axis=(1, 3))  # hᵢⱼ
    np.fill_diagonal(pairs, 0.0)
    rest, sums = norms.sum() - norms, pairs.sum(axis=1)
    ordinary = float((norms * rest).sum() / pairs.sum()) if pairs.any() else math.inf
    if n < _FEWEST or not np.isfinite(ordinary):
        return min(ordinary, float(d)), math.nan, math.nan
    # Without input i both sums over pairs lose its row and its column.
    without = ((norms * rest).sum() - 2 * norms * rest) / (pairs.sum() - 2 * sums)
    logs = np.log(np.maximum(without, 1e-300))
    error = math.sqrt((n - 1) / n * ((logs - logs.mean()) ** 2).sum())
    bias = (n - 1) * (logs.mean() - math.log(ordinary))
    margin = float(stdtrit(_degrees(logs), (1 + confidence) / 2)) * error + abs(bias)
    low, high = ordinary * math.exp(-margin), ordinary * math.exp(min(margin, 700.0))
    value = min(max(ordinary, 1.0), float(d))
    return value, min(max(low, 1.0), value), max(min(high, float(d)), value)


def _degrees(influences: Float[np.ndarray, " n"]) -> float:
    """Degrees of freedom of the variance of some numbers, by their kurtosis; 3 at least."""
    n = len(influences)
    apart = influences - influences.mean()
    variance = (apart**2).mean()
    if not variance > 0:
        return n - 1.0
    kurtosis = (apart**4).mean() / variance**2
    return float(np.clip(2 * n / max(kurtosis - 1, 1e-9), 3.0, n - 1.0))


def _top(rows: Float[np.ndarray, "s d"], top: int) -> tuple[np.ndarray, np.ndarray]:
    """The top eigenvalues and eigenvectors of RᵀR, from the smaller one of RᵀR and RRᵀ."""
    s, d = rows.shape
    top = min(top, s, d)
    values, vectors = np.linalg.eigh(rows.T @ rows if d <= s else rows @ rows.T)
    values, vectors = np.maximum(values[::-1][:top], 0.0), vectors[:, ::-1][:, :top]
    if d > s:
        vectors = rows.T @ vectors
        lengths = np.linalg.norm(vectors, axis=0)
        vectors = vectors / np.where(lengths > 0, lengths, 1.0)
    return values, vectors
