"""The initial curvature of a wide ReLU network concentrates around ‖x‖²/d.

The curvature λ₀ = ‖∇f‖² of a two-layer ReLU network of width m at one input x of dimension d is
‖x‖²/d on average, and lies within a half of it with high probability. Its relative deviation is
√(2/m) with second weights ±1 (as in §3.3) and √(3/m) with normal ones (as in the proof).

Source: zhu · nqm-relu2 · Prop. B.9.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    between,
    mean_between,
    probability_at_least,
    probability_at_most,
)
from theorylab.dynamics.quadratic import gated, one_example
from theorylab.experiments.drawing import label_axes, panels
from theorylab.fields import Checked, Count, Seed, within
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\|x\|^2 / 2d \le \lambda(0) \le 3 \|x\|^2 / 2d"

SCALE = Source("zhu", "nqm-relu2", "Prop. B.9.1")

DEVIATION = "derived: a tenth is four standard errors at 2000 networks; √3 is 22 % above √2"


@dataclass(frozen=True)
class Config(Checked):
    """Random networks at one input."""

    width: Count = 400  # width m
    dimension: Count = 4  # inputs d
    num_networks: Annotated[int, within(30)] = 4000  # how many are drawn
    seed: Seed = 0  # of all randomness


PRESETS = {
    "smoke": Config(width=200, num_networks=2000),
    "paper": Config(width=5000, dimension=100, num_networks=20000),
}


class Result(NamedTuple):
    """λ₀ d/‖x‖² of n networks."""

    curvatures: Float[Measured, " n"]  # second weights ±1
    normal_curvatures: Float[Measured, " n"]  # normal second weights
    narrow_curvatures: Float[Measured, " n"]  # normal second weights, one neuron


def run(config: Config) -> Result:
    """Draw networks of both laws, and networks of one neuron."""
    report("random networks", 0.0)
    network_key, _ = jax.random.split(jax.random.key(config.seed))
    keys = jax.random.split(network_key, config.num_networks)
    signs, normal = _curvatures(config.width, config.dimension, keys)
    _, narrow = _curvatures(1, config.dimension, keys)
    return Result(curvatures=signs, normal_curvatures=normal, narrow_curvatures=narrow)


@partial(jax.jit, static_argnums=(0, 1))
def _curvatures(
    width: int, dimension: int, keys: Key[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """λ₀ of random networks for an input with ‖x‖² = d: second weights ±1, and normal ones."""

    def one(key: RandomKey) -> tuple[Float[Array, ""], Float[Array, ""]]:
        x, weights = jnp.ones(dimension), gated.init(key, width, dimension, "normal")
        signs = weights._replace(second=jnp.sign(weights.second))
        return one_example.initial_curvature(signs, x), one_example.initial_curvature(weights, x)

    return jax.lax.map(one, keys)


def _num_near(curvatures: np.ndarray, distance: float = 0.5) -> int:
    """How many are within this distance of 1: between one half and three halves."""
    return int(np.count_nonzero(np.abs(curvatures - 1) <= distance))


def _deviation(curvatures: np.ndarray, config: Config) -> float:
    """The relative standard deviation of the curvature, times √m."""
    return float(curvatures.std(ddof=1) * np.sqrt(config.width))


CLAIMS = (
    SCALE.claim(
        "The initial curvature is between half and three halves of ‖x‖²/d, in 99 of 100 networks.",
        lambda r, c: probability_at_least(_num_near(r.normal_curvatures), c.num_networks, 0.99),
        formula=r"\|x\|^2 / 2d \le \lambda(0) \le 3 \|x\|^2 / 2d",
        regime="width >= 200 and num_networks >= 500",
        demand="lab: δ = 0.01; the constant c' of the source's m ≥ c' log(4/δ) is not given",
    ),
    SCALE.control(
        "Width is needed: with one neuron more than half of the networks are outside this range.",
        lambda r, c: probability_at_least(
            c.num_networks - _num_near(r.narrow_curvatures), c.num_networks, 0.5
        ),
    ),
    SCALE.control(
        "A range ten times narrower does not hold 99 of 100 networks.",
        lambda r, c: probability_at_most(
            _num_near(r.normal_curvatures, 0.05), c.num_networks, 0.99
        ),
        regime="width <= 1000",
        demand="derived: a twentieth is less than two deviations √(3/m) up to m = 4800",
    ),
    SCALE.found(
        "Its mean is ‖x‖²/d.",
        lambda r, c: mean_between(r.curvatures, 0.98, 1.02),
        demand="derived: both sums of λ(0) have the mean ‖x‖²/2d; 0.02 is six standard errors",
    ),
    SCALE.found(
        "Its relative deviation is √(2/m) with signs as second weights.",
        lambda r, c: between(_deviation(r.curvatures, c) / np.sqrt(2), 0.9, 1.1),
        demand=DEVIATION,
    ),
    SCALE.found(
        "With normal second weights the relative deviation is √(3/m).",
        lambda r, c: between(_deviation(r.normal_curvatures, c) / np.sqrt(3), 0.9, 1.1),
        demand=DEVIATION,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the distributions of the initial curvature."""
    figure, (law,) = panels(f"initial curvature at width {config.width}")
    for values, name in ((result.curvatures, "v = ±1"), (result.normal_curvatures, "v normal")):
        law.hist(values, bins=60, histtype="step", density=True, label=name)
    label_axes(law, "λ d/‖x‖²")
    law.legend(fontsize=7)
    return figure
