"""A toy of one's own whose run can be slow, fail, or kill its process.

It is in no tree, so that lists of toys stay as they are.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims.claim import Demand, Finding, Source, Verdict
from theorylab.experiments.drawing import panels
from theorylab.fields import Count, NonNegative, Positive, Seeded
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = "y = l w^2"
BATCHED = ("level", "seconds")


@dataclass(frozen=True)
class Config(Seeded):
    """Numbers that grow as the square of the width."""

    width: Count = 2
    level: Positive = 1.0
    seconds: NonNegative = 0.0  # how long it sleeps
    breaks: Literal["nothing", "run", "worker", "first"] = "nothing"
    marks: str = ""  # the folder that says whether it has run before
    num_seeds: Count = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level > 100 * self.width:
            raise ValueError(f"level must be at most 100 width, got {self.level}.")


PRESETS = {"smoke": Config()}


class Result(NamedTuple):
    """Axes: s seeds, t times."""

    height: Float[Measured, " s"]
    growth: Float[Measured, "s t"]
    level: Float[Measured, ""]


def memory(config: Config) -> int:
    return 8 * config.num_seeds


def run(config: Config) -> Result:
    time.sleep(config.seconds)
    if config.breaks == "run":
        raise RuntimeError("it is\nfragile")
    if config.breaks == "worker" or (config.breaks == "first" and is_first(config)):
        os.kill(os.getpid(), signal.SIGKILL)
    noise = jax.random.uniform(jax.random.key(config.seed), (config.num_seeds,))
    height = config.level * config.width**2 * (1 + noise / 10)
    return Result(height, jnp.outer(height, jnp.arange(1.0, 4.0)), jnp.asarray(config.level))


def is_first(config: Config) -> bool:
    """Whether no process has run this setting before."""
    mark = Path(config.marks) / f"{config.width}-{config.level}"
    if mark.exists():
        return False
    mark.touch()
    return True


CLAIMS = (
    Source("zhu", "fragile", "p. 1").claim(
        "It is high.",
        lambda r, c: Finding(
            float(r.height.mean()), 0.0, 1.0, Demand(low=0.0), Verdict.SUPPORTED, "made up"
        ),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    figure, (axis,) = panels("height")
    axis.plot(result.height)
    return figure
