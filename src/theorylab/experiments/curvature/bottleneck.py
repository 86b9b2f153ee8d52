"""A few neurons that read little do no harm, but a narrow layer keeps a wide network curved.

The Hessian of a wide network falls like one over the root of its width, even if a few of its
neurons read only one other: the network does not depend on these. If a whole hidden layer is
narrow, every neuron of the next layer reads only a few. All that the input does to the output
goes through a small number of neurons, whose effect is not linear at any width: the Hessian stays
where it is. Connections around the narrow layer give its successors many neurons to read, and the
network becomes linear again.

Source: zhu · bottleneck · Fig. 2.3, A.6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between, median_at_least, ordered
from theorylab.curvature import dag_norms
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Seeded
from theorylab.models import Dag
from theorylab.models.dag_builders import bottleneck_neurons, densely_connected, fully_connected
from theorylab.progress import report

PRECISION = "float32"
FORMULA = r"\|\nabla^2 f\| \propto m^{-1/2} \text{ or } m^0"

FIGURE = Source("zhu", "bottleneck", "Fig. 2.3")
NARROW = Source("zhu", "bottleneck", "A.6")

NAMES = ("fully connected", "two neurons of in-degree 1", "narrow layer", "narrow, and around it")


@dataclass(frozen=True)
class Config(Seeded):
    """Random tanh networks of four layers with bottlenecks in the second hidden one."""

    widths: Increasing[Count] = (32, 64, 128, 256, 512)  # neurons m of a wide hidden layer
    narrow: int = 2  # bottleneck neurons, or neurons of the narrow layer
    dimension: Count = 4  # inputs d
    num_seeds: Count = 24  # random networks of each kind and width
    num_steps: Count = 16  # products with the Hessian for one norm

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.narrow <= self.widths[0] // 2:
            raise ValueError(
                f"narrow must be in 1 to {self.widths[0] // 2}, half of the least width, "
                f"got {self.narrow}."
            )


PRESETS = {
    "smoke": Config(widths=(24, 144), num_steps=8),
    "paper": Config(widths=(32, 64, 128, 256, 512, 1024, 2048), num_seeds=40, num_steps=40),
}


class Result(NamedTuple):
    """Axes: a kinds of networks (`NAMES`), s seeds, w widths."""

    widths: Int[np.ndarray, " w"]
    norms: Float[np.ndarray, "a s w"]  # ‖∇²f‖
    residuals: Float[np.ndarray, "a s w"]  # of Lanczos, over the norm


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest = max(config.widths)
    weights = widest * (4 * widest + config.dimension)
    wirings = 4 * len(NAMES) * config.num_seeds * len(config.widths) * weights
    return 8 * (config.num_steps + 8) * weights + wirings


def run(config: Config) -> Result:
    """Draw networks with and without bottlenecks and measure their Hessians."""
    report("networks with and without bottlenecks", 0.05)
    x_key, key = jax.random.split(jax.random.key(config.seed))
    x = sphere(x_key, 1, config.dimension, radius=config.dimension**0.5)[0]
    kinds = [_kinds(config.dimension, width, config.narrow) for width in config.widths]
    graphs = [
        kinds[at][kind]
        for kind in range(len(NAMES))
        for _ in range(config.num_seeds)
        for at in range(len(config.widths))
    ]
    found = dag_norms(graphs, x, key, config.num_steps)
    shape = (len(NAMES), config.num_seeds, len(config.widths))
    return Result(
        np.asarray(config.widths), found.norms.reshape(shape), found.residuals.reshape(shape)
    )


def _kinds(d: int, m: int, narrow: int) -> list[Dag]:
    """The four networks, in the order of `NAMES`."""
    return [
        fully_connected(d, [m, m, m], activation="tanh"),
        bottleneck_neurons(d, [m, m, m], count=narrow, activation="tanh"),
        fully_connected(d, [m, narrow, m], activation="tanh"),
        densely_connected(d, [m, narrow, m], activation="tanh"),
    ]


# The intervals that the catalogue states.
CLAIMS = (
    Claim(
        "Two neurons of in-degree 1 do not keep a wide network from becoming linear.",
        judge=lambda r, c: exponent_between(r.widths, r.norms[1], -0.65, -0.35),
        source=FIGURE,
        formula=r"\|\nabla^2 f\| \propto m^{-1/2}",
    ),
    Claim(
        "A narrow layer does: the Hessian does not fall with the width of the others.",
        judge=lambda r, c: exponent_between(r.widths, r.norms[2], -0.15, 0.3),
        source=NARROW,
        formula=r"\|\nabla^2 f\| = \Theta(1)",
    ),
    Claim(
        "Connections around the narrow layer make the network linear again.",
        judge=lambda r, c: exponent_between(r.widths, r.norms[3], -0.6, -0.3),
        source=NARROW,
    ),
    Claim(
        "At the largest width the network with the narrow layer is more than twice as curved.",
        judge=lambda r, c: median_at_least(r.norms[2][:, -1] / np.median(r.norms[0][:, -1]), 2.0),
        source=NARROW,
    ),
    Claim(
        "Without any bottleneck the Hessian falls like one over the root of the width.",
        judge=lambda r, c: exponent_between(r.widths, r.norms[0], -0.65, -0.35),
        source=FIGURE,
        kind="control",
    ),
    Claim(
        "The wider network with connections around its narrow layer is the less curved one.",
        judge=lambda r, c: ordered(r.norms[3][:, -1], r.norms[3][:, 0]),
        source=NARROW,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths, and the spread over seeds at the largest width."""
    figure, (norms, spread) = panels("Hessian norm over width", "at the largest width")
    for name, each in zip(NAMES, result.norms, strict=True):
        norms.loglog(result.widths, np.median(each, axis=0), "o-", markersize=3, label=name)
    slope = np.median(result.norms[0][:, 0]) * (result.widths / result.widths[0]) ** -0.5
    norms.loglog(result.widths, slope, **THEORY, label="slope −1/2")
    norms.set_xlabel("width m")
    norms.legend(fontsize=6)
    spread.boxplot(list(result.norms[:, :, -1]), tick_labels=[name[:12] for name in NAMES])
    spread.tick_params(labelsize=6)
    return figure
