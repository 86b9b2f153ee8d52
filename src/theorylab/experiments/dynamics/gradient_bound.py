"""The mean squared gradient of a random network has a lower bound on any graph.

Gradient descent fits one example if ‖∇f‖², its tangent kernel, is positive. On a graph of depth L
whose activation is homogeneous, φ(az) = aʳφ(z) for a > 0, with C = E[φ(z)²] for z ~ N(0, 1), its
mean over random weights and inputs is at least min(1, min_j C^(1 + r + … + r^(j−1))). The source
prints this bound for the mean of ‖∇f‖ itself, through an inequality of Jensen's that points the
other way. For fully connected ReLU networks E ‖∇f‖² = L 2^(1−L) exactly, 2L times the bound.

Source: zhu · pl-star · Prop. 2.4.4.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, mean_between
from theorylab.dynamics import gradient_bound
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

DEPTH = 3  # L, layers with weights of the ReLU networks
BOUND = gradient_bound(0.5, DEPTH)  # of their E ‖∇f‖²
NARROW_BOUND = gradient_bound(1.0, depth=2)  # two layers of √2 ReLU, for which C = 1


@dataclass(frozen=True)
class Config(Checked):
    """Gradients of random ReLU networks on three kinds of graphs."""

    width: Plural = 16  # neurons m of a hidden layer
    dimension: Plural = 8  # inputs d
    num_networks: Plural = 4000  # random networks of each kind
    seed: Seed = 0  # of all randomness


PRESETS = {"smoke": Config(width=8, num_networks=2000), "paper": Config(num_networks=20000)}


class Result(NamedTuple):
    """Axes: a kinds of graphs, q networks."""

    gradient_squares: Float[Measured, "a q"]  # ‖∇f‖² of ReLU networks of three layers
    narrow_gradients: Float[Measured, " q"]  # ‖∇f‖ of one neuron with φ = √2 ReLU, one input


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
        gradient_squares=_gradient_squares(kinds, draw_key, config.num_networks),
        narrow_gradients=jnp.sqrt(_gradient_squares([narrow], draw_key, config.num_networks)[0]),
    )


def _gradient_squares(graphs: list[Dag], key: RandomKey, num_networks: int) -> Float[Array, "a q"]:
    """‖∇f‖² at x ~ N(0, I), for many networks on every graph."""
    wired, wirings = wire(graphs)
    d, num_weights = len(graphs[0].inputs), wirings.numbers.shape[1]

    def one(wiring: Wiring, draws: Float[Array, " q"]) -> Float[Array, ""]:
        x, weights = draws[None, :d], draws[d:]
        return jnp.sum(jax.grad(lambda w: wired(wiring, w, x)[0, 0])(weights) ** 2)

    draws = jax.random.normal(key, (num_networks, d + num_weights))
    return jax.jit(jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None)))(wirings, draws)


CLAIMS = (
    *MOMENT.erratum(
        printed=(
            "The mean of ‖∇f‖ is above the root of the bound, at one neuron with φ = √2 ReLU.",
            lambda r, c: mean_between(r.narrow_gradients, math.sqrt(NARROW_BOUND), math.inf),
        ),
        corrected=(
            "There the mean of ‖∇f‖² is above the bound.",
            lambda r, c: mean_between(r.narrow_gradients**2, NARROW_BOUND, math.inf),
        ),
        formula=FORMULA,
        quote="The above proposition establishes a positive lower bound on",
    ),
    MOMENT.corrected(
        "The mean of ‖∇f‖² is above its bound in fully connected networks.",
        lambda r, c: mean_between(r.gradient_squares[0], BOUND, math.inf),
    ),
    MOMENT.corrected(
        "It is so in densely connected ones.",
        lambda r, c: mean_between(r.gradient_squares[1], BOUND, math.inf),
    ),
    MOMENT.corrected(
        "It is so in ones without half of their edges.",
        lambda r, c: mean_between(r.gradient_squares[2], BOUND, math.inf),
    ),
    MOMENT.found(
        "In fully connected ReLU networks of L = 3 layers the mean is 2L = 6 times the bound.",
        lambda r, c: mean_between(r.gradient_squares[0] / BOUND, 5.0, 7.0),
        formula=r"\mathbb E \|\nabla f\|^2 = L \, 2^{1 - L}",
        demand="derived: L 2^(1−L) over 2^(−L); two layers have 4 times and four 8 times theirs",
    ),
    MOMENT.control(
        "Eight times the bound is no bound: the mean of fully connected networks is below it.",
        lambda r, c: mean_between(r.gradient_squares[0] / BOUND, 0.0, 8.0),
        demand="derived: the mean is 6 times the bound, so that 8 times it is a third too much",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the mean of ‖∇f‖² on all graphs, and its bound."""
    figure, (gradients,) = panels("‖∇f‖², mean and bound")
    gradients.bar(range(len(NAMES)), result.gradient_squares.mean(axis=1))
    gradients.axhline(BOUND, **THEORY)
    gradients.set_xticks(range(len(NAMES)), NAMES, fontsize=7)
    return figure
