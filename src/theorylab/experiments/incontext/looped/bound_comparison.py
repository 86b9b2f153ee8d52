"""Two bounds for looped transformers: one grows exponentially with the loops, the other falls.

An earlier bound, 8Td²2^{2T}/√n, holds from 64T²d⁴2^{4T} examples on: every further loop asks for 16
times as many. The bound e^{−T/2κ}, with κ of the prompt, holds for every prompt and falls with
every loop. Both are compared with the measured error |⟨output, θ*⟩ − 1| on Gaussian prompts,
drawn by their second moments, exactly in law. (The two bounds are proved for different tasks,
regression and a vector with a given product; and κ is known only with the prompt.)

Source: shi · looped-vs-gatmiry · Theorem 8.17; shi · looped-bound · Theorem 8.16.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, holds, identity
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.fields import Count, Seeded, Several, within
from theorylab.incontext.designs import gaussian_moment
from theorylab.incontext.looped import exponential_bound, exponential_examples
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"e^{-T/2\kappa} \quad\text{against}\quad 8Td^2 2^{2T}/\sqrt{n}"

EARLIER = Source("shi", "looped-vs-gatmiry", "Theorem 8.17")
BOUND = Source("shi", "looped-bound", "Theorem 8.16")
TARGETS = (0.1, 0.01, 0.001)  # errors for which the examples that each bound needs are compared
NEEDED = {1: 2.6e5, 5: 4.3e11, 10: 1.8e18}  # 64T²d⁴2^{4T} at d = 4, as the catalogue has them


@dataclass(frozen=True)
class Config(Seeded):
    """Prompts of several lengths, and at the lengths that the earlier bound needs."""

    dimension: Annotated[int, within(2, 64)] = 4  # d
    examples: Several[Count] = (16, 64, 256, 1024, 4096)  # n
    num_loops: Annotated[int, within(2, 30)] = 10  # T, the most
    num_seeds: Annotated[int, within(1, 10**5)] = 200  # prompts of each length

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.examples) <= self.dimension:
            raise ValueError(f"examples must be more than dimension, got {self.examples}.")

    @property
    def loops(self) -> Float[np.ndarray, " t"]:
        """1, …, T."""
        return np.arange(1.0, self.num_loops + 1)


PRESETS = {
    "smoke": Config(examples=(16, 1024), num_seeds=50),
    "paper": Config(num_seeds=10000),
}


class Result(NamedTuple):
    """Axes: loops (t), lengths of prompts (n), seeds (s), TARGETS (e)."""

    error: Float[Measured, "n s t"]
    bound: Float[Measured, "n s t"]  # e^{−T/2κ}
    earlier: Float[Measured, "n t"]  # the earlier bound
    needed: Float[Measured, " t"]  # examples from which the earlier bound holds
    long_error: Float[Measured, "t s"]  # T loops at that many examples
    long_bound: Float[Measured, "t s"]  # e^{−T/2κ} there
    long_earlier: Float[Measured, " t"]  # and the earlier bound
    enough: Float[Measured, "e 2"]  # examples for the target by each bound, at the same T


def run(config: Config) -> Result:
    """Measure errors at all lengths, and at the lengths of the earlier bound."""
    report("measuring errors", 0.0)
    d, key = float(config.dimension), jax.random.key(config.seed)
    examples = np.array(config.examples, float)
    needed = np.vectorize(exponential_examples)(config.loops, d)

    def measured(place: int, n: float) -> tuple[Array, Array]:
        keys = jax.random.split(jax.random.fold_in(key, place), config.num_seeds)
        return _errors(keys, jnp.asarray(n), jnp.asarray(config.loops), config.dimension)

    short = [measured(place, n) for place, n in enumerate(examples)]
    error, bound = (jnp.stack(part) for part in zip(*short, strict=True))
    long = [measured(1001 + place, n) for place, n in enumerate(needed)]
    long_error, long_bound = (
        jnp.stack([each[:, place] for place, each in enumerate(part)])
        for part in zip(*long, strict=True)
    )
    return Result(
        error=error,
        bound=bound,
        earlier=np.vectorize(exponential_bound)(config.loops, examples[:, None], d),
        needed=needed,
        long_error=long_error,
        long_bound=long_bound,
        long_earlier=np.vectorize(exponential_bound)(config.loops, needed, d),
        enough=np.array([_enough(target, d) for target in TARGETS]),
    )


@partial(jax.jit, static_argnames="dimension")
def _errors(
    keys: Key[Array, " s"], n: Float[Array, ""], loops: Float[Array, " t"], dimension: int
) -> tuple[Float[Array, "s t"], Float[Array, "s t"]]:
    """|⟨output, θ*⟩ − 1| after every number of loops, and e^{−T/2κ}, for every prompt.

    From 0 with η = 1/L the product is 1 − Σ_i (1 − λ_i/L)ᵀ c_i², c the coefficients of θ*.
    """

    def one(key: RandomKey) -> tuple[Array, Array]:
        moment_key, theta_key = jax.random.split(key)
        values, vectors = jnp.linalg.eigh(gaussian_moment(moment_key, n, dimension))
        theta = jax.random.normal(theta_key, (dimension,))
        squares = (vectors.T @ theta) ** 2 / (theta @ theta)
        shares = 1 - values / values[-1]
        error = (shares[None, :] ** loops[:, None]) @ squares
        return error, jnp.exp(-loops * values[0] / values[-1] / 2)

    return jax.vmap(one)(keys)


def _enough(error: float, dimension: float) -> tuple[float, float]:
    """Examples that each bound asks for, at the loops that suffice for κ = 2.

    For e^{−T/2κ} ≤ ε with κ ≤ 2, T = 4 log(1/ε); and κ ≤ 2, by the edges of Gaussian designs, from
    d((√2 + 1)/(√2 − 1))² examples on. The earlier bound is ε at 64T²d⁴2^{4T}/ε².
    """
    loops, root = float(np.ceil(4 * np.log(1 / error))), np.sqrt(2)
    own = dimension * ((root + 1) / (root - 1)) ** 2
    return float(own), float(exponential_examples(loops, dimension) / error**2)


def _listed(result: Result, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Needed examples at the listed loops, and the list's numbers; none where d is not 4."""
    known = [t for t in NEEDED if t <= config.num_loops and config.dimension == 4]
    return result.needed[np.array(known, int) - 1], np.array([NEEDED[t] for t in known])


CLAIMS = (
    BOUND.claim(
        "Every measured error is below e^{−T/2κ} of its prompt.",
        lambda r, c: holds((r.bound - r.error) / r.bound),
    ),
    EARLIER.claim(
        "Where the earlier bound holds, measured errors are below it too.",
        lambda r, c: holds(r.long_earlier[:, None] - r.long_error),
    ),
    EARLIER.claim(
        "There the new bound is the smaller one, at every number of loops.",
        lambda r, c: holds(r.long_earlier[:, None] - r.long_bound),
    ),
    BOUND.claim(
        "The new bound falls with every loop.",
        lambda r, c: holds(-np.diff(r.bound, axis=2)),
    ),
    EARLIER.claim(
        "The earlier bound grows with every loop, by more than 4 times.",
        lambda r, c: holds(r.earlier[:, 1:] / r.earlier[:, :-1] - 4),
    ),
    EARLIER.claim(
        "At d = 4 it needs 2.6·10⁵ examples for 1 loop, 4.3·10¹¹ for 5, 1.8·10¹⁸ for 10.",
        lambda r, c: identity(*_listed(r, c), 0.03),
    ),
    EARLIER.claim(
        "For every target error the earlier bound asks for more than 10⁶ times the examples.",
        lambda r, c: at_least((r.enough[:, 1] / r.enough[:, 0]).min(), 1e6),
    ),
    EARLIER.control(
        "With fewer examples than it needs, the earlier bound is above 1 and says nothing.",
        lambda r, c: holds(r.earlier[np.array(c.examples) < r.needed[0]] - 1),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors and bounds over loops, over examples, and the examples needed."""
    loops, middle = config.loops, config.num_loops // 2
    figure, axes = panels("longest prompts", f"{middle + 1} loops", "examples that a bound needs")
    axes[0].plot(loops, result.earlier[-1], "k:", label="earlier bound")
    curves(axes[0], loops, {"measured": result.error[-1], "new bound": result.bound[-1]})
    axes[1].plot(config.examples, result.earlier[:, middle], "k:", label="earlier bound")
    error, bound = result.error[..., middle].T, result.bound[..., middle].T
    curves(axes[1], config.examples, {"measured": error, "new bound": bound})
    label_axes(axes[0], "loops", "error", "y")
    label_axes(axes[1], "examples", "error", "xy")
    for name, enough in zip(("new bound", "earlier bound"), result.enough.T, strict=True):
        axes[2].plot(TARGETS, enough, "o-", label=name)
    label_axes(axes[2], "error to reach", "examples", "xy")
    axes[2].legend(fontsize=7)
    return figure
