"""A coin falls on heads as often as its bias says.

It is thrown n times, and the share of heads p̂ lies near p. With "quotes" and <tags> & co.

Source: arora · concentration-lab · Thm 1.
"""

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

from theorylab.claims.claim import Demand, Finding, Source, Verdict, verdict
from theorylab.experiments.drawing import panels
from theorylab.progress import report

PRECISION = "float64"
FORMULA = r"\hat p \to p"
LAW = Source("arora", "concentration-lab", "Thm 1")
SIZES = (1, 2)


@dataclass(frozen=True)
class Config:
    """Throws of a coin."""

    num_throws: int = 1000  # how often it is thrown
    bias: float = 0.5
    surprising: bool = False  # whether a verdict is not as expected
    name: str = "penny"  # of the coin
    breaks: Literal["nothing", "run", "judge", "plot", "finding"] = "nothing"
    sizes: tuple[int, ...] = SIZES
    weights: tuple[float, ...] = (
        1,
        2.5,
    )  # of its sides
    seconds: float = 0.0  # how long it sleeps
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_throws < 1:
            raise ValueError(f"num_throws must be at least 1, got {self.num_throws}.")
        if not 0 <= self.bias <= 1:
            raise ValueError(f"bias must be in [0, 1], got {self.bias}.")


PRESETS = {"smoke": Config(num_throws=100, seed=-1), "paper": Config(num_throws=10**6)}


class Result(NamedTuple):
    heads: jax.Array
    bias: float
    surprising: bool
    breaks: str


def memory(config: Config) -> int:
    return 16 * config.num_throws


def run(config: Config) -> Result:
    report("throwing", 0.0)
    if config.breaks == "run":
        raise RuntimeError("the coin\nis lost")
    time.sleep(config.seconds)
    heads = jax.random.bernoulli(jax.random.key(config.seed), config.bias, (config.num_throws,))
    report("counting", 0.5)
    return Result(heads.astype(jnp.float64), config.bias, config.surprising, config.breaks)


def judge(result: Result, config: Config) -> Finding:
    if result.breaks == "judge":
        raise ZeroDivisionError("nobody can tell")
    if result.breaks == "finding":
        return "supported"  # type: ignore
    share = float(result.heads.mean())
    demand = Demand(low=2.0) if result.surprising else Demand(high=result.bias + 0.2)
    return Finding(share, share, share, demand, verdict(share, share, demand), "exact")


CLAIMS = (
    LAW.claim("The share of heads is at most p + 0.2.", judge, formula=r"\hat p \le p + 0.2"),
    Source("zhu", "coin", "Eq. 2").control(
        "The share is no more than 1.",
        lambda r, c: Finding(1.0, 0.5, 1.0, Demand(0.0, 1.0), Verdict.SUPPORTED, "made up"),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    if result.breaks == "plot":
        raise ValueError("no paper")
    figure, (axis,) = panels("heads")
    axis.plot(result.heads[:10])
    return figure
