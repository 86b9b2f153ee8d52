"""A dice shows no seven."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
from matplotlib.figure import Figure

from theorylab.claims.claim import Demand, Finding, Source, Verdict
from theorylab.experiments.drawing import panels

PRECISION = "float32"
FORMULA = "X \\le 6"


@dataclass(frozen=True)
class Config:
    """Throws of a dice."""

    num_throws: int = 10
    seed: int = 0


PRESETS = {"smoke": Config(num_throws=5)}


class Result(NamedTuple):
    points: jax.Array


def memory(config: Config) -> int:
    return 8 * config.num_throws


def run(config: Config) -> Result:
    return Result(6 * jax.random.uniform(jax.random.key(config.seed), (config.num_throws,)))


CLAIMS = (
    Source("zhu", "dice", "p. 1").printed(
        "It is at least seven.",
        lambda r, c: Finding(math.nan, 1.0, 6.0, Demand(low=7.0), Verdict.REFUTED, "made up"),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    figure, (axis,) = panels("points")
    axis.plot(result.points)
    return figure
