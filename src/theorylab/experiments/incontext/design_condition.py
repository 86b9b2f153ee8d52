"""Gaussian prompts become well conditioned: κ − 1 falls as √(d/n).

The condition number κ of XᵀX decides how many loops a looped transformer needs. For Gaussian X it
follows the edges of Marchenko and Pastur, κ ≈ ((1 + √(d/n))/(1 − √(d/n)))² ≈ 1 + 4√(d/n), a little
below them in finite dimension; so n of order d/ε² examples make κ ≤ 1 + O(ε), as claimed.
Prompts whose inputs have unequal variances keep their condition number, however long they are.

Designs are drawn by their second moments, exactly in law, whatever n is.

Source: shi · kappa-conc · §8.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between, holds, median_at_least
from theorylab.experiments.drawing import THEORY, panels
from theorylab.incontext import gaussian_condition, gaussian_moment
from theorylab.progress import report

PRECISION = "float64"
FORMULA = r"\kappa \approx \left(\frac{1 + \sqrt{d/n}}{1 - \sqrt{d/n}}\right)^2"

CONDITION = Source("shi", "kappa-conc", "§8")

# In d dimensions the edges are inside by a part of order d^{−2/3}; at d = 64, 0.08 at most.
INSIDE = 0.08 * 64 ** (2 / 3)


@dataclass(frozen=True)
class Config:
    """Gaussian designs, from a few to very many examples for each dimension."""

    dimension: int = 64  # d
    ratios: tuple[int, ...] = (16, 64, 256, 1024, 4096)  # n/d, growing
    anisotropy: float = 2.0  # variance of the first input where they are unequal
    num_seeds: int = 40  # designs of each length, at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.dimension <= 1024:
            raise ValueError(f"dimension must be between 2 and 1024, got {self.dimension}.")
        if len(self.ratios) < 3 or list(self.ratios) != sorted(set(self.ratios)):
            raise ValueError(f"ratios must be at least three and grow, got {self.ratios}.")
        if self.ratios[0] < 2 or self.ratios[-1] > 10**6:
            raise ValueError(f"ratios must be between 2 and 1000000, got {self.ratios}.")
        if not self.anisotropy > 1:
            raise ValueError(f"anisotropy must be above 1, got {self.anisotropy}.")
        if not 1 <= self.num_seeds <= 10000:
            raise ValueError(f"num_seeds must be between 1 and 10000, got {self.num_seeds}.")


PRESETS = {
    "smoke": Config(ratios=(16, 256, 4096), num_seeds=20),
    "paper": Config(num_seeds=1000),
}


class Result(NamedTuple):
    """What was measured: axes seeds (s), lengths (n)."""

    dimension: int
    anisotropy: float  # ratio of unequal variances
    ratios: Float[np.ndarray, " n"]  # n/d
    condition: Float[np.ndarray, "s n"]  # κ
    theory: Float[np.ndarray, " n"]  # of the edges
    unequal: Float[np.ndarray, "s n"]  # κ with unequal variances


def memory(config: Config) -> int:
    """Bytes of the second moments of all seeds and their factors."""
    return 8 * 5 * config.num_seeds * config.dimension**2


def run(config: Config) -> Result:
    """Draw second moments, and take their eigenvalues."""
    d, columns = config.dimension, []
    scales = jnp.ones(d).at[0].set(config.anisotropy**0.5)
    for place, ratio in enumerate(config.ratios):
        report(f"{ratio} examples for each dimension", place / len(config.ratios))
        key = jax.random.fold_in(jax.random.key(config.seed), place)
        keys = jax.random.split(key, config.num_seeds)
        columns.append(
            [np.asarray(part) for part in _conditions(keys, scales, jnp.asarray(float(ratio * d)))]
        )
    condition, unequal = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    ratios = np.array(config.ratios, float)
    theory = np.array([gaussian_condition(1 / ratio) for ratio in ratios])
    return Result(d, config.anisotropy, ratios, condition, theory, unequal)


@jax.jit
def _conditions(
    keys: Key[jax.Array, " s"], scales: jax.Array, n: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """κ of every design, with equal and with unequal variances."""
    moments = jax.vmap(lambda key: gaussian_moment(key, n, len(scales)))(keys)
    values = jnp.linalg.eigvalsh(moments)
    scaled = jnp.linalg.eigvalsh(moments * (scales[:, None] * scales[None, :])[None])
    return values[:, -1] / values[:, 0], scaled[:, -1] / scaled[:, 0]


def _share(result: Result) -> np.ndarray:
    """κ − 1 over that of the edges, (s, n)."""
    return (result.condition - 1) / (result.theory - 1)[None, :]


CLAIMS = (
    Claim(
        "κ − 1 is that of the edges, from below, up to a part of order d^{−2/3} (8 % at d = 64).",
        judge=lambda r, c: holds(
            np.minimum(
                np.median(_share(r), axis=0) - 1 + INSIDE * r.dimension ** (-2 / 3),
                1.0 - np.median(_share(r), axis=0),
            )
        ),
        source=CONDITION,
    ),
    Claim(
        "κ − 1 falls as n^{−0.52 ± 0.04} where there are 256 and more examples for a dimension.",
        judge=lambda r, c: exponent_between(
            r.ratios[r.ratios >= 256], (r.condition - 1)[:, r.ratios >= 256], -0.56, -0.48
        ),
        source=CONDITION,
    ),
    Claim(
        "n ∝ d/ε² examples are enough for κ ≤ 1 + 6ε: with ε = √(d/n), at every length above 16.",
        judge=lambda r, c: holds(
            6 * r.ratios[r.ratios > 16] ** -0.5 - (r.condition - 1)[:, r.ratios > 16]
        ),
        source=CONDITION,
    ),
    Claim(
        "With unequal variances κ is at least their ratio, less 5 %, however many examples.",
        judge=lambda r, c: median_at_least(r.unequal[:, -1], 0.95 * r.anisotropy),
        source=CONDITION,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """κ − 1 over n/d, with the edges; and with unequal variances."""
    figure, axes = panels("κ − 1 of Gaussian designs", "over that of the edges")
    axes[0].loglog(result.ratios, result.condition.T - 1, "o", color="C0", markersize=4)
    axes[0].loglog(result.ratios, result.unequal.T - 1, "s", color="C1", markersize=4)
    axes[0].loglog(result.ratios, result.theory - 1, **THEORY)
    axes[0].set_xlabel("examples for each dimension (squares: unequal variances)")
    share = (result.condition - 1) / (result.theory - 1)[None, :]
    axes[1].semilogx(result.ratios, share.T, "o", color="C0", markersize=4)
    axes[1].axhline(1.0, **THEORY)
    axes[1].set_xlabel("examples for each dimension")
    return figure
