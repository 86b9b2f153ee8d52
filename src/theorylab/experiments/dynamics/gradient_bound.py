"""The mean squared gradient of a random network has a lower bound on any graph.

Gradient descent fits one example if ‖∇f‖², its tangent kernel, is positive. On a graph of depth L
whose activation is homogeneous, φ(az) = aʳφ(z) for a > 0, with C = E[φ(z)²] for z ~ N(0, 1), its
mean over random weights and inputs is at least min(1, min_j C^(1 + r + … + r^(j−1))). The source
prints this bound for the mean of ‖∇f‖ itself, through an inequality of Jensen's that points the
other way. For fully connected ReLU networks E ‖∇f‖² = L 2^(1−L) exactly.

Source: zhu · pl-star · Prop. 2.4.4.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, identity, mean_between
from theorylab.dynamics import gradient_bound, relu_gradient_square
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Checked, Plural, Seed
from theorylab.models import Dag
from theorylab.models.dag_builders import fully_connected
from theorylab.models.dag_network import Wiring, wire
from theorylab.models.families import ABReLU
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

from ._dags import NAMES, dag_kinds

PRECISION = "float64"
FORMULA = r"\mathbb E \|\nabla f\|^2 \ge \min(1, \min_j C^{1 + r + \dots + r^{j-1}})"

MOMENT = Source("zhu", "pl-star", "Prop. 2.4.4")

FACTORS, POINTS = np.array([[2.0], [-2.0]]), np.linspace(-2.0, 2.0, 9)[None, :]
BOUND = gradient_bound(0.5, depth=3)  # of E ‖∇f‖², three layers of ReLU
NARROW_BOUND = gradient_bound(1.0, depth=2)  # two layers of √2 ReLU, for which C = 1
EXACT = relu_gradient_square(3)  # L 2^(1−L) at L = 3


@dataclass(frozen=True)
class Config(Checked):
    """Gradients of random ReLU networks on three kinds of graphs."""

    width: Plural = 16  # neurons m of a hidden layer
    dimension: Plural = 8  # inputs d
    num_networks: Plural = 4000  # random networks of each kind
    seed: Seed = 0  # of all randomness


PRESETS = {"smoke": Config(width=8, num_networks=2000), "paper": Config(num_networks=20000)}


class Result(NamedTuple):
    """Axes: a kinds of graphs, q networks, z points."""

    gradient_squares: Float[Measured, "a q"]  # ‖∇f‖² of ReLU networks of three layers
    narrow_gradients: Float[Measured, " q"]  # ‖∇f‖ of one neuron with φ = √2 ReLU, one input
    scaled: Float[Measured, "2 z"]  # φ(az) of ReLU with a = 2 and −2
    multiplied: Float[Measured, "2 z"]  # aφ(z)


def memory(config: Config) -> int:
    """Bytes of the weights of all networks, and of their gradients."""
    weights = config.width * (2 * config.width + 2 * config.dimension)
    return 24 * len(NAMES) * config.num_networks * weights


def run(config: Config) -> Result:
    """Draw networks on all graphs, and networks of one neuron."""
    report("gradients of random networks", 0.0)
    _, graph_key, _, draw_key = jax.random.split(jax.random.key(config.seed), 4)
    kinds = dag_kinds(graph_key, config.dimension, config.width, "relu")
    narrow = fully_connected(1, [1], activation=ABReLU(0.0, math.sqrt(2.0)))
    return Result(
        gradient_squares=_gradient_squares(kinds, draw_key, config),
        narrow_gradients=np.sqrt(_gradient_squares([narrow], draw_key, config)[0]),
        scaled=np.maximum(FACTORS * POINTS, 0.0),
        multiplied=FACTORS * np.maximum(POINTS, 0.0),
    )


def _gradient_squares(
    graphs: list[Dag], key: RandomKey, config: Config
) -> Float[np.ndarray, "a q"]:
    """‖∇f‖² at x ~ N(0, I), for many networks on every graph."""
    wired, wirings = wire(graphs)
    d, num_weights = len(graphs[0].inputs), wirings.numbers.shape[1]

    def one(wiring: Wiring, draws: Float[Array, " q"]) -> Float[Array, ""]:
        x, weights = draws[None, :d], draws[d:]
        return jnp.sum(jax.grad(lambda w: wired(wiring, w, x)[0, 0])(weights) ** 2)

    draws = jax.random.normal(key, (config.num_networks, d + num_weights))
    every = jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))
    return np.asarray(jax.jit(every)(wirings, draws))


def _above(samples: Float[np.ndarray, " q"], bound: float):
    return mean_between(samples, bound, math.inf)


CLAIMS = (
    MOMENT.corrected(
        "The mean of ‖∇f‖² is above its bound in fully connected networks.",
        lambda r, c: _above(r.gradient_squares[0], BOUND),
        formula=r"\mathbb E \|\nabla f\|^2 \ge \min(1, \min_j C^{1 + r + \dots + r^{j-1}})",
    ),
    MOMENT.claim(
        "It is so in densely connected ones.",
        lambda r, c: _above(r.gradient_squares[1], BOUND),
    ),
    MOMENT.claim(
        "It is so in ones without half of their edges.",
        lambda r, c: _above(r.gradient_squares[2], BOUND),
    ),
    MOMENT.claim(
        "In fully connected ReLU networks of three layers the mean of ‖∇f‖² is 3/4.",
        # A tenth tells it from 1 and ½, which two and four layers have.
        lambda r, c: mean_between(r.gradient_squares[0], 0.9 * EXACT, 1.1 * EXACT),
        formula=r"\mathbb E \|\nabla f\|^2 = L \, 2^{1 - L}",
    ),
    MOMENT.control(
        "Eight times the bound is no bound: the mean of fully connected networks is below it.",
        lambda r, c: mean_between(r.gradient_squares[0], 0.0, 8 * BOUND),
    ),
    *MOMENT.erratum(
        printed=(
            "The mean of ‖∇f‖ is above the root of the bound, at one neuron with φ = √2 ReLU.",
            lambda r, c: _above(r.narrow_gradients, math.sqrt(NARROW_BOUND)),
        ),
        corrected=(
            "There the mean of ‖∇f‖² is above the bound.",
            lambda r, c: _above(r.narrow_gradients**2, NARROW_BOUND),
        ),
    ),
    *MOMENT.erratum(
        printed=(
            "A homogeneous φ obeys φ(az) = aʳφ(z) for every a: ReLU with a = −2.",
            lambda r, c: identity(r.scaled[1], r.multiplied[1], 1e-12),
        ),
        corrected=(
            "It obeys it for a > 0: ReLU with a = 2.",
            lambda r, c: identity(r.scaled[0], r.multiplied[0], 1e-12),
        ),
        formula=r"\phi(az) = a^r \phi(z), \quad a > 0",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the mean of ‖∇f‖² on all graphs, and its bound."""
    figure, (gradients,) = panels("‖∇f‖², mean and bound")
    gradients.bar(range(len(NAMES)), result.gradient_squares.mean(axis=1))
    gradients.axhline(BOUND, **THEORY)
    gradients.set_xticks(range(len(NAMES)), NAMES, fontsize=7)
    return figure
