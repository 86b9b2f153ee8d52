"""Gaussian prompts become well conditioned: κ − 1 falls as √(d/n).

The condition number κ of XᵀX decides how many loops a looped transformer needs. For Gaussian X it
follows the edges of Marchenko and Pastur, κ ≈ ((1 + √(d/n))/(1 − √(d/n)))² ≈ 1 + 4√(d/n), a little
below them in finite dimension; so n of order d/ε² examples make κ ≤ 1 + O(ε), as claimed.
Prompts whose inputs have unequal variances keep their condition number, however long they are.

Designs are drawn by their second moments, exactly in law, whatever n is.

Source: shi · kappa-conc · §8.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, holds, median_at_least
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.fields import Increasing, Seeded, within
from theorylab.incontext import gaussian_condition
from theorylab.incontext.designs import gaussian_moment
from theorylab.progress import report
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = r"\kappa \approx \left(\frac{1 + \sqrt{d/n}}{1 - \sqrt{d/n}}\right)^2"

CONDITION = Source("shi", "kappa-conc", "§8")
ANISOTROPY = 2.0  # variance of the first input over the others', where they are unequal
# In d dimensions the edges are inside by a part of order d^{−2/3}; at d = 64, 0.08 at most.
INSIDE = 0.08 * 64 ** (2 / 3)


@dataclass(frozen=True)
class Config(Seeded):
    """Gaussian designs, from a few to very many examples for each dimension."""

    dimension: Annotated[int, within(2, 1024)] = 64  # d
    ratios: Increasing[Annotated[int, within(2, 10**6)]] = (16, 64, 256, 1024, 4096)  # n/d
    num_seeds: Annotated[int, within(1, 10**4)] = 40  # designs of each length, 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ratios) < 3:
            raise ValueError(f"ratios must be at least three, got {self.ratios}.")


PRESETS = {
    "smoke": Config(ratios=(16, 256, 4096), num_seeds=20),
    "paper": Config(num_seeds=1000),
}


class Result(NamedTuple):
    """Axes: seeds (s), lengths (n)."""

    condition: Float[Measured, "s n"]  # κ
    theory: Float[Measured, " n"]  # of the edges
    unequal: Float[Measured, "s n"]  # κ with unequal variances


def run(config: Config) -> Result:
    """Draw second moments, and take their eigenvalues."""
    scales = jnp.ones(config.dimension).at[0].set(ANISOTROPY**0.5)
    columns = []
    for place, ratio in enumerate(config.ratios):
        report(f"{ratio} examples for each dimension", place / len(config.ratios))
        key = jax.random.fold_in(jax.random.key(config.seed), place)
        keys = jax.random.split(key, config.num_seeds)
        columns.append(_conditions(keys, scales, jnp.asarray(float(ratio * config.dimension))))
    condition, unequal = (jnp.stack(part, axis=1) for part in zip(*columns, strict=True))
    theory = jnp.stack([gaussian_condition(1 / ratio) for ratio in config.ratios])
    return Result(condition, theory, unequal)


@jax.jit
def _conditions(
    keys: Key[Array, " s"], scales: Float[Array, " d"], n: Float[Array, ""]
) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    """κ of every design, with equal and with unequal variances."""
    moments = jax.vmap(lambda key: gaussian_moment(key, n, len(scales)))(keys)
    values = jnp.linalg.eigvalsh(moments)
    scaled = jnp.linalg.eigvalsh(moments * (scales[:, None] * scales[None, :])[None])
    return values[:, -1] / values[:, 0], scaled[:, -1] / scaled[:, 0]


def _share(result: Result) -> Float[np.ndarray, "s n"]:
    """κ − 1 over that of the edges."""
    return (result.condition - 1) / (result.theory - 1)[None, :]


def _long(result: Result, config: Config, least: int) -> tuple[np.ndarray, np.ndarray]:
    """n/d of all lengths from `least` on, and κ − 1 there."""
    ratios = np.array(config.ratios, float)
    return ratios[ratios >= least], (result.condition - 1)[:, ratios >= least]


def _at_the_edges(result: Result, config: Config) -> np.ndarray:
    """How far the median share is from both ends of what is allowed, the nearer one."""
    share = np.median(_share(result), axis=0)
    return np.minimum(share - 1 + INSIDE * config.dimension ** (-2 / 3), 1.0 - share)


def _room(result: Result, config: Config) -> np.ndarray:
    """6√(d/n) − (κ − 1), where there are more than 16 examples for a dimension."""
    ratios, excess = _long(result, config, 17)
    return 6 * ratios**-0.5 - excess


CLAIMS = (
    CONDITION.claim(
        "κ − 1 is that of the edges, from below, up to a part of order d^{−2/3} (8 % at d = 64).",
        lambda r, c: holds(_at_the_edges(r, c)),
    ),
    CONDITION.claim(
        "κ − 1 falls as n^{−0.52 ± 0.04} where there are 256 and more examples for a dimension.",
        lambda r, c: exponent_between(*_long(r, c, 256), -0.56, -0.48),
    ),
    CONDITION.claim(
        "n ∝ d/ε² examples are enough for κ ≤ 1 + 6ε: with ε = √(d/n), at every length above 16.",
        lambda r, c: holds(_room(r, c)),
    ),
    CONDITION.control(
        "With unequal variances κ is at least their ratio, less 5 %, however many examples.",
        lambda r, c: median_at_least(r.unequal[:, -1], 0.95 * ANISOTROPY),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """κ − 1 over n/d, with the edges; and with unequal variances."""
    figure, axes = panels("κ − 1 of Gaussian designs", "over that of the edges")
    measured = {"equal variances": result.condition - 1, "unequal": result.unequal - 1}
    axes[0].plot(config.ratios, result.theory - 1, **THEORY, label="edges")
    curves(axes[0], config.ratios, measured, "o-")
    label_axes(axes[0], "examples for each dimension", logarithmic="xy")
    curves(axes[1], config.ratios, {"equal variances": _share(result)}, "o-")
    axes[1].axhline(1.0, **THEORY)
    label_axes(axes[1], "examples for each dimension", logarithmic="x")
    return figure
