"""Two bounds for looped transformers: one grows exponentially with the loops, one falls with them.

An earlier bound, 8Td²2^{2T}/√n, holds from 64T²d⁴2^{4T} examples on: every further loop asks for 16
times as many. The bound e^{−T/2κ}, with κ of the prompt, holds for every prompt and falls with
every loop. Both are compared with the measured error |⟨output, θ*⟩ − 1| on Gaussian prompts,
drawn by their second moments, exactly in law. (The two bounds are proved for different tasks,
regression and a vector with a given product; and κ is known only with the prompt.)

Source: shi · looped-vs-gatmiry · Theorem 8.17; shi · looped-bound · Theorem 8.16.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, holds, identity
from theorylab.experiments.drawing import panels
from theorylab.incontext import (
    exponential_bound,
    exponential_examples,
    gaussian_moment,
)
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"e^{-T/2\kappa} \quad\text{against}\quad 8Td^2 2^{2T}/\sqrt{n}"

EARLIER = Source("shi", "looped-vs-gatmiry", "Theorem 8.17")
BOUND = Source("shi", "looped-bound", "Theorem 8.16")
# 64T²d⁴2^{4T} at d = 4, as the catalogue has them.
NEEDED = {1: 2.6e5, 5: 4.3e11, 10: 1.8e18}


@dataclass(frozen=True)
class Config:
    """Prompts of several lengths, and at the lengths that the earlier bound needs."""

    dimension: int = 4  # d
    examples: tuple[int, ...] = (16, 64, 256, 1024, 4096)  # n
    num_loops: int = 10  # T, the most
    errors: tuple[float, ...] = (0.1, 0.01, 0.001)  # what is to be reached
    num_seeds: int = 200  # prompts of each length
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.dimension <= 64:
            raise ValueError(f"dimension must be between 2 and 64, got {self.dimension}.")
        if not self.examples or min(self.examples) <= self.dimension:
            raise ValueError(f"examples must be more than dimension, got {self.examples}.")
        if not 2 <= self.num_loops <= 30:
            raise ValueError(f"num_loops must be between 2 and 30, got {self.num_loops}.")
        if not self.errors or not all(0 < error < 1 for error in self.errors):
            raise ValueError(f"errors must be between 0 and 1, got {self.errors}.")
        if not 1 <= self.num_seeds <= 10**5:
            raise ValueError(f"num_seeds must be between 1 and 100000, got {self.num_seeds}.")


PRESETS = {
    "smoke": Config(examples=(16, 1024), num_seeds=50),
    "paper": Config(num_seeds=10000),
}


class Result(NamedTuple):
    """What was measured: axes loops (t), lengths (n), seeds (s), targets (e)."""

    loops: Int[np.ndarray, " t"]
    examples: Int[np.ndarray, " n"]
    error: Float[np.ndarray, "n s t"]
    bound: Float[np.ndarray, "n s t"]  # e^{−T/2κ}
    earlier: Float[np.ndarray, "n t"]
    needed: Float[np.ndarray, " t"]  # examples from which the earlier bound holds
    long_error: Float[np.ndarray, "t s"]  # T loops at that many examples
    long_bound: Float[np.ndarray, "t s"]  # e^{−T/2κ} there
    long_earlier: Float[np.ndarray, " t"]  # and the earlier bound
    targets: Float[np.ndarray, " e"]
    enough: Float[np.ndarray, "e 2"]  # examples for the target by each bound, at the same T
    dimension: int


def memory(config: Config) -> int:
    """Bytes of second moments and errors of all seeds."""
    return 8 * 4 * config.num_seeds * (config.dimension**2 + config.num_loops)


def run(config: Config) -> Result:
    """Measure errors at all lengths, and at the lengths of the earlier bound."""
    d, loops = config.dimension, np.arange(1, config.num_loops + 1)
    needed = np.array([exponential_examples(float(t), d) for t in loops])
    key = jax.random.key(config.seed)
    report("measuring errors", 0.0)

    def measured(place: int, n: float) -> list[np.ndarray]:
        keys = jax.random.split(jax.random.fold_in(key, place), config.num_seeds)
        found = _errors(keys, jnp.asarray(n), jnp.asarray(loops, float), jnp.zeros(d))
        return [np.asarray(part) for part in found]

    error, bound = zip(
        *(measured(place, float(n)) for place, n in enumerate(config.examples)), strict=True
    )
    long = [measured(1000 + int(t), float(n)) for t, n in zip(loops, needed, strict=True)]
    return Result(
        loops=loops,
        examples=np.array(config.examples),
        error=np.stack(error),
        bound=np.stack(bound),
        earlier=np.array(
            [[exponential_bound(float(t), float(n), d) for t in loops] for n in config.examples]
        ),
        needed=needed,
        long_error=np.stack([part[0][:, t - 1] for t, part in zip(loops, long, strict=True)]),
        long_bound=np.stack([part[1][:, t - 1] for t, part in zip(loops, long, strict=True)]),
        long_earlier=np.array(
            [exponential_bound(float(t), float(n), d) for t, n in zip(loops, needed, strict=True)]
        ),
        targets=np.array(config.errors),
        enough=np.array([_enough(error, d) for error in config.errors]),
        dimension=d,
    )


@jax.jit
def _errors(
    keys: Key[jax.Array, " s"], n: jax.Array, loops: jax.Array, zero: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """|⟨output, θ*⟩ − 1| after every number of loops, and e^{−T/2κ}, for every prompt.

    From 0 with η = 1/L the product is 1 − Σ_i (1 − λ_i/L)ᵀ c_i², c the coefficients of θ*.
    """

    def one(key: RandomKey) -> tuple[jax.Array, jax.Array]:
        moment_key, theta_key = jax.random.split(key)
        values, vectors = jnp.linalg.eigh(gaussian_moment(moment_key, n, len(zero)))
        theta = jax.random.normal(theta_key, zero.shape)
        squares = (vectors.T @ theta) ** 2 / (theta @ theta)
        shares = 1 - values / values[-1]
        error = (shares[None, :] ** loops[:, None]) @ squares
        return error, jnp.exp(-loops * values[0] / values[-1] / 2)

    return jax.vmap(one)(keys)


def _enough(error: float, dimension: int) -> tuple[float, float]:
    """Examples that each bound asks for, at the loops that suffice for κ = 2.

    For e^{−T/2κ} ≤ ε with κ ≤ 2, T = 4 log(1/ε); and κ ≤ 2, by the edges of Gaussian designs, from
    d((√2 + 1)/(√2 − 1))² examples on. The earlier bound is ε at 64T²d⁴2^{4T}/ε².
    """
    loops, root = float(np.ceil(4 * np.log(1 / error))), np.sqrt(2)
    own = dimension * ((root + 1) / (root - 1)) ** 2
    return float(own), float(exponential_examples(loops, dimension) / error**2)


def _listed(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Needed examples at the listed loops, and the list's numbers; none where d is not 4."""
    pairs = [(t, NEEDED[int(t)]) for t in result.loops if int(t) in NEEDED]
    pairs = pairs if result.dimension == 4 else []
    found = [result.needed[result.loops == t][0] for t, _ in pairs]
    return np.array(found), np.array([value for _, value in pairs])


CLAIMS = (
    Claim(
        "Every measured error is below e^{−T/2κ} of its prompt.",
        judge=lambda r, c: holds((r.bound - r.error) / r.bound),
        source=BOUND,
    ),
    Claim(
        "Where the earlier bound holds, measured errors are below it too.",
        judge=lambda r, c: holds(r.long_earlier[:, None] - r.long_error),
        source=EARLIER,
    ),
    Claim(
        "There the new bound is the smaller one, at every number of loops.",
        judge=lambda r, c: holds(r.long_earlier[:, None] - r.long_bound),
        source=EARLIER,
    ),
    Claim(
        "The new bound falls with every loop.",
        judge=lambda r, c: holds(-np.diff(r.bound, axis=2)),
        source=BOUND,
    ),
    Claim(
        "The earlier bound grows with every loop, by more than 4 times.",
        judge=lambda r, c: holds(r.earlier[:, 1:] / r.earlier[:, :-1] - 4),
        source=EARLIER,
    ),
    Claim(
        "At d = 4 it needs 2.6·10⁵ examples for 1 loop, 4.3·10¹¹ for 5, 1.8·10¹⁸ for 10.",
        judge=lambda r, c: identity(*_listed(r), 0.03),
        source=EARLIER,
    ),
    Claim(
        "For every target error the earlier bound asks for more than 10⁶ times the examples.",
        judge=lambda r, c: at_least((r.enough[:, 1] / r.enough[:, 0]).min(), 1e6),
        source=EARLIER,
    ),
    Claim(
        "Outside its condition the earlier bound says nothing: it is above 1, with few examples.",
        judge=lambda r, c: holds(r.earlier[r.examples < r.needed[0]] - 1),
        source=EARLIER,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors and bounds over loops, over examples, and the examples needed."""
    figure, axes = panels(
        "error by loops (longest prompts)", "error by examples", "examples needed"
    )
    axes[0].semilogy(result.loops, np.median(result.error[-1], axis=0), "o", label="measured")
    axes[0].semilogy(result.loops, np.median(result.bound[-1], axis=0), "--", label="new bound")
    axes[0].semilogy(result.loops, result.earlier[-1], ":", label="earlier bound")
    axes[0].set_xlabel("loops")
    middle = len(result.loops) // 2
    axes[1].loglog(result.examples, np.median(result.error[:, :, middle], axis=1), "o")
    axes[1].loglog(result.examples, np.median(result.bound[:, :, middle], axis=1), "--")
    axes[1].loglog(result.examples, result.earlier[:, middle], ":")
    axes[1].set_xlabel(f"examples, {result.loops[middle]} loops")
    axes[2].loglog(result.targets, result.enough[:, 0], "o--", label="new bound")
    axes[2].loglog(result.targets, result.enough[:, 1], "o:", label="earlier bound")
    axes[2].set_xlabel("error to reach")
    axes[0].legend(frameon=False, fontsize=8)
    axes[2].legend(frameon=False, fontsize=8)
    return figure
