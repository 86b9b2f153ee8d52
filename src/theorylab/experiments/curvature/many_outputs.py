"""Networks with few outputs become linear with their width; with m outputs they do not.

The Hessians of all outputs together are a tensor, of norm ‖𝐇‖ = max Σ H_ijk vᵢuⱼsₖ over unit
vectors: the curvature of the most curved mixture Σ sₖfₖ of outputs. It is at most d_L times that of
the most curved single output, with d_L outputs, so of the same order m^(−1/2) in the width m while
d_L is fixed. The factor is generous: √d_L is enough, and what is measured is hardly above 1.

If there are as many outputs as neurons that they read, some mixture of them reads nearly one neuron
alone, and is as curved as that one, whatever the width; with two layers the norm is known exactly.

Source: zhu · hessian-norm · A.3, Cor. A.3.1.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, holds
from theorylab.curvature import TensorNorm, tensor_norm, two_layer_tensor_norm
from theorylab.data import sphere
from theorylab.experiments.curvature._dags import lanczos_bytes
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Plural, Seeded, within
from theorylab.models.dag_builders import fully_connected
from theorylab.progress import report
from theorylab.training import dag_ensemble
from theorylab.typing import Apply, Measured, RandomKey

PRECISION = "float32"
FORMULA = r"\|\mathbf H\| = \sup_{u, v, s} \sum H_{ijk} v_i u_j s_k \le d_L \max_k \|H_{f_k}\|"

TENSOR = Source("zhu", "hessian-norm", "A.3, Cor. A.3.1")


@dataclass(frozen=True)
class Config(Seeded):
    """Random tanh networks of growing width, with a few outputs."""

    widths: Increasing[Annotated[int, within(8)]] = (32, 64, 128, 256)  # m of both hidden layers
    dimension: Count = 4  # inputs d
    num_outputs: Plural = 4  # outputs d_L
    num_seeds: Count = 16  # random networks of each width
    num_rounds: Count = 6  # in which the directions v and s are renewed
    num_steps: Plural = 16  # products with a Hessian in each


PRESETS = {
    "smoke": Config(widths=(24, 160), num_seeds=12, num_outputs=3, num_rounds=2, num_steps=8),
    "paper": Config(widths=(64, 128, 256, 512, 1024), dimension=16, num_outputs=10, num_steps=40),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, k outputs."""

    norms: Float[Measured, "s w"]  # ‖𝐇‖ of three layers
    outputs: Float[Measured, "s w k"]  # ‖H_k‖
    as_many: Float[Measured, "s w"]  # ‖𝐇‖ of two layers with m outputs, exactly


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest, num_networks = max(config.widths), config.num_seeds * len(config.widths)
    weights = widest * (widest + config.dimension + config.num_outputs)
    return lanczos_bytes(weights, config.num_steps, num_networks) + 4 * config.num_seeds * widest**2


def run(config: Config) -> Result:
    """Draw networks and search for the most curved mixtures of their outputs."""
    x_key, graph_key, two_key = jax.random.split(jax.random.key(config.seed), 3)
    d, num_outputs = config.dimension, config.num_outputs
    x = sphere(x_key, 1, d, radius=math.sqrt(d))[0]
    graphs = [fully_connected(d, [m, m], num_outputs, "tanh") for m in config.widths]
    graphs *= config.num_seeds

    def search(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> TensorNorm:
        return tensor_norm(apply, weights, x, key, 1, config.num_rounds, config.num_steps)

    def as_many(m: int, drawn: Float[Array, " p"]) -> Float[Array, ""]:
        inner, outer = drawn[: m * d].reshape(d, m), drawn[m * d :].reshape(m, m)
        return two_layer_tensor_norm(inner, outer, x, "tanh")

    report("mixtures of outputs", 0.05)
    found = dag_ensemble(search, graphs, jax.random.split(graph_key, len(graphs)))
    report("two layers", 0.8)
    exact = []
    for m in config.widths:
        drawn = jax.random.normal(jax.random.fold_in(two_key, m), (config.num_seeds, m * (d + m)))
        exact.append(jax.jit(jax.vmap(partial(as_many, m)))(drawn))
    return Result(
        norms=found.value.reshape(config.num_seeds, -1),
        outputs=found.outputs.reshape(config.num_seeds, -1, num_outputs),
        as_many=np.stack(exact, axis=1),
    )


def _most(result: Result) -> Float[Measured, "s w"]:
    return result.outputs.max(axis=-1)


CLAIMS = (
    TENSOR.claim(
        "The tensor's norm is at most d_L times that of the most curved output, in every network.",
        lambda r, c: holds(c.num_outputs * _most(r) - r.norms, 1e-5),
        quote="It is not hard to see that",
        demand="source",
    ),
    TENSOR.found(
        "That is loose: √(Σ‖H_k‖²), at most √d_L times the most curved output, is not exceeded.",
        lambda r, c: holds(np.sqrt((r.outputs**2).sum(axis=-1)) - r.norms, 1e-5),
        formula=r"\|\mathbf H\| \le \sqrt{\textstyle\sum_k \|H_{f_k}\|^2}",
        demand="derived: Cauchy–Schwarz over the outputs",
    ),
    TENSOR.check(
        "The search finds no less than the norm of any single output.",
        lambda r, c: holds(r.norms - _most(r), 1e-5),
    ),
    TENSOR.claim(
        "It is of the order of m^(−1/2) or less, as with one output.",
        lambda r, c: exponent_between(c.widths, r.norms, -math.inf, -0.35),
        formula=r"\|\mathbf H\| = \tilde O(1/\sqrt m) \text{ if } d_L = O(1)",
        demand="lab: −1/2 and 0.15 for noise; set with the experiment, on seeds that were not kept",
    ),
    TENSOR.control(
        "With as many outputs as neurons it does not fall.",
        lambda r, c: exponent_between(c.widths, r.as_many, -0.15, 0.15),
        formula=r"\|\mathbf H\| \approx \max_i |\phi''(z_i)| \, \|v_i\| / \sqrt m",
        demand="lab: 0 and 0.15 for noise; set with the experiment, on seeds that were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths, and how far the tensor's is above the most curved output's."""
    figure, (norms, factor) = panels("norm of the Hessian over width", "tensor over output")
    named = {
        "all outputs, three layers": result.norms,
        "the most curved output": _most(result),
        "as many outputs as neurons": result.as_many,
    }
    scaling(norms, config.widths, named, exponent=-0.5)
    curves(factor, config.widths, {"measured": result.norms / _most(result)})
    factor.axhline(math.sqrt(config.num_outputs), **THEORY)
    label_axes(norms, "width m")
    label_axes(factor, "width m", logarithmic="x")
    return figure
