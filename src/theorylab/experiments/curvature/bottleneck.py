"""A narrow layer keeps a wide network nonlinear; a few neurons of small in-degree do not.

The Hessian of a wide network falls like one over the root of its width, even if a few of its
neurons read only one other neuron, because the network does not depend on these. If a whole hidden
layer is narrow, every neuron of the next layer reads only a few: all that the input does to the
output goes through a small number of neurons, whose effect is not linear at any width, and the
Hessian does not fall. Connections around the narrow layer give its successors many neurons to read,
and the network becomes linear again.

Source: zhu · bottleneck · Fig. 2.3, A.6.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, identity, median_at_least
from theorylab.curvature import dag_norms
from theorylab.experiments.curvature._dags import input_and_key, lanczos_bytes
from theorylab.experiments.drawing import label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Seeded
from theorylab.models import Dag
from theorylab.models.dag_builders import bottleneck_neurons, densely_connected, fully_connected
from theorylab.progress import report
from theorylab.typing import Measured

PRECISION = "float32"
FORMULA = r"\|\nabla^2 f\| \propto m^{-1/2} \text{ or } m^0"

FIGURE = Source("zhu", "bottleneck", "Fig. 2.3")
LAYER = Source("zhu", "bottleneck", "A.6")

NAMES = ("fully connected", "two neurons of in-degree 1", "narrow layer", "narrow, and around it")
PLAIN, NEURONS, NARROW, AROUND = range(4)


@dataclass(frozen=True)
class Config(Seeded):
    """Random tanh networks of four layers with bottlenecks in the second hidden one."""

    widths: Increasing[Count] = (32, 64, 128, 256, 512)  # neurons m of a wide hidden layer
    narrow: Count = 2  # bottleneck neurons, or neurons of the narrow layer
    dimension: Count = 4  # inputs d
    num_seeds: Count = 24  # random networks of each kind and width
    num_steps: Count = 16  # products with the Hessian for one norm

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.widths[0] // 2
        if self.narrow > most:
            must = f"narrow must be at most {most}, half of the least width"
            raise ValueError(f"{must}, got {self.narrow}.")


PRESETS = {
    "smoke": Config(widths=(24, 144), num_steps=8),
    "paper": Config(widths=(32, 64, 128, 256, 512, 1024), num_seeds=32, num_steps=40),
}


class Result(NamedTuple):
    """Axes: a kinds of networks (`NAMES`), s seeds, w widths."""

    norms: Float[Measured, "a s w"]  # ‖∇²f‖
    bottlenecks: Int[Measured, "a w"]  # neurons that read one other


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest = max(config.widths)
    num_networks = len(NAMES) * config.num_seeds * len(config.widths)
    weights = widest * (4 * widest + config.dimension)
    return lanczos_bytes(weights, config.num_steps, num_networks)


def run(config: Config) -> Result:
    """Draw networks with and without bottlenecks and measure their Hessians."""
    report("networks with and without bottlenecks", 0.05)
    x, key = input_and_key(config.seed, config.dimension)
    by_width = [_kinds(config.dimension, m, config.narrow) for m in config.widths]
    kinds = list(zip(*by_width, strict=True))
    graphs = [graph for kind in kinds for graph in kind * config.num_seeds]
    norms = dag_norms(graphs, x, key, config.num_steps).norms
    return Result(
        norms=norms.reshape(len(NAMES), config.num_seeds, -1),
        bottlenecks=np.array([[np.sum(graph.in_degrees == 1) for graph in kind] for kind in kinds]),
    )


def _kinds(d: int, m: int, narrow: int) -> list[Dag]:
    """The four networks, in the order of `NAMES`."""
    return [
        fully_connected(d, [m, m, m], activation="tanh"),
        bottleneck_neurons(d, [m, m, m], count=narrow, activation="tanh"),
        fully_connected(d, [m, narrow, m], activation="tanh"),
        densely_connected(d, [m, narrow, m], activation="tanh"),
    ]


def _asked(result: Result, config: Config) -> Int[np.ndarray, "a w"]:
    """`narrow` neurons of in-degree 1 in the networks that have such, at every width."""
    return np.where(np.arange(len(NAMES)) == NEURONS, config.narrow, 0)[:, None] + np.zeros_like(
        result.bottlenecks
    )


SLOPE = "lab: −1/2 and 0.15 for noise; set with the experiment, on seeds that were not kept"
CLAIMS = (
    FIGURE.claim(
        "Two neurons of in-degree 1 do not keep a wide network from becoming linear.",
        lambda r, c: exponent_between(c.widths, r.norms[NEURONS], -math.inf, -0.35),
        formula=r"\|\nabla^2 f\| = \tilde O(m^{-1/2})",
        quote="will still transition to linearity with respect to … as the number of neurons goes"
        " to infinity",
        demand=SLOPE,
    ),
    LAYER.claim(
        "A narrow layer does: the Hessian does not fall with the width of the others.",
        lambda r, c: exponent_between(c.widths, r.norms[NARROW], -0.15, math.inf),
        quote="Such bottleneck neural networks were shown to break transition to linearity",
        demand="lab: 0 and 0.15 for noise; set with the experiment, on seeds that were not kept",
    ),
    LAYER.claim(
        "Connections around the narrow layer make the network linear again.",
        lambda r, c: exponent_between(c.widths, r.norms[AROUND], -math.inf, -0.3),
        quote="then the resulting network can have the property of transition to linearity",
        demand="lab: −1/2 and 0.2, as networks with two neurons in a layer differ much; set with "
        "the experiment, on seeds that were not kept",
    ),
    LAYER.found(
        "At the largest width the network with the narrow layer is more than twice as curved as one"
        " without.",
        lambda r, c: median_at_least(
            r.norms[NARROW][:, -1] / np.median(r.norms[PLAIN][:, -1]), 2.0
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    FIGURE.check(
        "The bottleneck neurons are there, as many as asked for, and the other networks have none.",
        lambda r, c: identity(r.bottlenecks, _asked(r, c), 0.0),
    ),
    FIGURE.control(
        "Without any bottleneck the Hessian falls like one over the root of the width.",
        lambda r, c: exponent_between(c.widths, r.norms[PLAIN], -0.65, -0.35),
        demand=SLOPE,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths."""
    figure, (axis,) = panels("Hessian norm over width")
    scaling(axis, config.widths, dict(zip(NAMES, result.norms, strict=True)), exponent=-0.5)
    label_axes(axis, "width m")
    return figure
