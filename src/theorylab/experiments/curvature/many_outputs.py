"""A network with a few outputs is as straight as with one; with as many as its width, it is not.

The Hessians of all outputs together are a tensor, of norm ‖𝐇‖ = max Σ H_ijk vᵢuⱼsₖ over unit
vectors: the curvature of the most curved mixture Σ sₖfₖ of outputs. It is at most d_L times that of
the most curved single output, with d_L outputs, so of the same order m^(−1/2) in the width m while
d_L stays. The factor is generous: √d_L is enough, and what is found is hardly above 1.

If the outputs are as many as the neurons that they read, some mixture of them reads nearly one
neuron alone, and is as curved as that one, whatever the width; with two layers the norm is known
exactly.

Source: zhu · hessian-norm · Cor. A.3.1.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between, holds
from theorylab.curvature import TensorNorm, tensor_norm, two_layer_tensor_norm
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Plural, Seeded
from theorylab.models.dag_builders import fully_connected
from theorylab.progress import report
from theorylab.training import dag_ensemble
from theorylab.typing import Apply, RandomKey

PRECISION = "float32"
FORMULA = r"\|\mathbf H\| = \sup_{u, v, s} \sum H_{ijk} v_i u_j s_k \le d_L \max_k \|H_{f_k}\|"

TENSOR = Source("zhu", "hessian-norm", "Cor. A.3.1")


@dataclass(frozen=True)
class Config(Seeded):
    """Random tanh networks of growing width, with a few outputs."""

    widths: Increasing[Count] = (32, 64, 128, 256)  # neurons m of each of two hidden layers
    dimension: Count = 4  # inputs d
    num_outputs: Plural = 4  # outputs d_L
    num_seeds: Count = 16  # random networks of each width
    num_rounds: Count = 6  # in which the directions v and s are renewed
    num_steps: Plural = 16  # products with a Hessian in each

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.widths[0] < 8:
            raise ValueError(f"widths must be at least 8, got {self.widths}.")


PRESETS = {
    "smoke": Config(widths=(24, 160), num_seeds=12, num_outputs=3, num_rounds=2, num_steps=8),
    "paper": Config(widths=(64, 128, 256, 512, 1024), dimension=16, num_outputs=10, num_steps=40),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, k outputs."""

    norms: Float[np.ndarray, "s w"]  # ‖𝐇‖ of three layers
    outputs: Float[np.ndarray, "s w k"]  # ‖H_k‖
    as_many: Float[np.ndarray, "s w"]  # ‖𝐇‖ of two layers with m outputs, exactly


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest = max(config.widths)
    weights = widest * (widest + config.dimension + config.num_outputs)
    wirings = 4 * config.num_seeds * len(config.widths) * weights
    return 8 * (config.num_steps + 8) * weights + wirings + 4 * config.num_seeds * widest**2


def run(config: Config) -> Result:
    """Draw networks and search for the most curved mixtures of their outputs."""
    x_key, graph_key, two_key = jax.random.split(jax.random.key(config.seed), 3)
    d, num_outputs, num_seeds = config.dimension, config.num_outputs, config.num_seeds
    x = sphere(x_key, 1, d, radius=math.sqrt(d))[0]
    graphs = [fully_connected(d, [m, m], num_outputs, "tanh") for m in config.widths] * num_seeds

    def search(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> TensorNorm:
        return tensor_norm(apply, weights, x, key, 1, config.num_rounds, config.num_steps)

    report("mixtures of outputs", 0.05)
    found = dag_ensemble(search, graphs, jax.random.split(graph_key, len(graphs)))
    shape = (num_seeds, len(config.widths))
    report("two layers", 0.8)
    return Result(
        norms=found.value.reshape(shape),
        outputs=found.outputs.reshape(*shape, num_outputs),
        as_many=_as_many(two_key, x, config),
    )


def _as_many(key: RandomKey, x: Float[Array, " d"], config: Config) -> Float[np.ndarray, "s w"]:
    """‖𝐇‖ of two layers with as many outputs as neurons, by the closed form."""

    def one(m: int, drawn: Float[Array, " p"]) -> Float[Array, ""]:
        inner, outer = drawn[: m * len(x)].reshape(-1, m), drawn[m * len(x) :].reshape(m, m)
        return two_layer_tensor_norm(inner, outer, x, "tanh")

    norms = []
    for m in config.widths:
        drawn = jax.random.normal(jax.random.fold_in(key, m), (config.num_seeds, m * (len(x) + m)))
        norms.append(np.asarray(jax.jit(jax.vmap(partial(one, m)))(drawn)))
    return np.stack(norms, axis=1)


def _most(result: Result) -> Float[np.ndarray, "s w"]:
    return result.outputs.max(axis=-1)


# The interval of slopes is that of `curvature/hessian_norm`, the catalogue's for every graph.
CLAIMS = (
    Claim(
        "The tensor's norm is at most d_L times that of the most curved output, in every network.",
        judge=lambda r, c: holds(r.outputs.shape[-1] * _most(r) - r.norms, 1e-5),
        source=TENSOR,
    ),
    Claim(
        "Even √(Σ‖H_k‖²), at most √d_L times that, is not exceeded.",
        judge=lambda r, c: holds(np.sqrt((r.outputs**2).sum(axis=-1)) - r.norms, 1e-5),
        source=TENSOR,
        formula=r"\|\mathbf H\| \le \sqrt{\textstyle\sum_k \|H_{f_k}\|^2}",
    ),
    Claim(
        "It is no less than that of any single output.",
        judge=lambda r, c: holds(r.norms - _most(r), 1e-5),
        source=TENSOR,
    ),
    Claim(
        "It falls like one over the root of the width, as with one output.",
        judge=lambda r, c: exponent_between(c.widths, r.norms, -0.65, -0.35),
        source=TENSOR,
        formula=r"\|\mathbf H\| = \tilde O(1/\sqrt m) \text{ if } d_L = O(1)",
    ),
    Claim(
        "With as many outputs as neurons it does not fall.",
        judge=lambda r, c: exponent_between(c.widths, r.as_many, -0.15, 0.15),
        source=TENSOR,
        kind="control",
        formula=r"\|\mathbf H\| \approx \max_i |\phi''(z_i)| \, \|v_i\| / \sqrt m",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths, and how far the tensor's is above the most curved output's."""
    figure, (norms, factor) = panels("norm of the Hessian over width", "tensor over output")
    rows = (
        (result.norms, "all outputs, three layers"),
        (_most(result), "the most curved output"),
        (result.as_many, "as many outputs as neurons"),
    )
    for values, label in rows:
        norms.loglog(config.widths, np.median(values, axis=0), "o-", markersize=3, label=label)
    middle = np.median(result.norms, axis=0)[0]
    norms.loglog(
        config.widths,
        middle * (np.asarray(config.widths) / np.asarray(config.widths)[0]) ** -0.5,
        **THEORY,
    )
    factor.semilogx(config.widths, (result.norms / _most(result)).T, "o", markersize=3)
    factor.axhline(math.sqrt(result.outputs.shape[-1]), **THEORY)
    norms.legend(fontsize=6)
    for axis in (norms, factor):
        axis.set_xlabel("width m")
    return figure
