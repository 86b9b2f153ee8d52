"""Attention becomes linear with many heads, and not with one that is wide.

A block of self-attention reads a few positions, and one output reads the mean of what comes out.
Its Hessian in all weights is measured over the width m. A head, however wide, decides by a handful
of scores QKᵀ: they are bottleneck neurons, through a softmax, and each of them moves by the order
of 1 when its weights do; so the Hessian stays. With m heads of a fixed width every head counts for
1/√m of the output, and the Hessian falls like m^(−1/2), as in the networks on graphs.

The theorems for graphs do not speak of products of neurons; whether such a theorem holds is asked
in the source and not answered. What is stated here was found by measuring.

Source: zhu · ext-* · Ch. 5 (ext-attention-dag); zhu · hessian-norm · Thm 2.3.6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between
from theorylab.curvature import output_hessian, spectral_norm
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Plural, Seeded
from theorylab.models import Architecture, Dense, GlobalPool, SelfAttention, Serial
from theorylab.models import network as network_of
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\|\nabla^2 f\| \propto m^{-1/2} \text{ with } m \text{ heads}, \; m^0 \text{ with one}"

ATTENTION = Source("zhu", "ext-*", "Ch. 5, ext-attention-dag")

NAMES = ("m heads", "one head of width m")
HEADS, WIDE = range(2)


@dataclass(frozen=True)
class Config(Seeded):
    """Random attention blocks of growing width, on random positions."""

    widths: Increasing[Count] = (8, 16, 32, 64)  # m
    head_width: Count = 4  # of each of m heads
    num_positions: Plural = 4  # that attend to each other
    dimension: Count = 6  # of each position
    num_seeds: Count = 48  # random networks of each kind and width
    num_steps: Plural = 12  # products with the Hessian for one norm

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.widths[0] < 2:
            raise ValueError(f"widths must be at least 2, got {self.widths}.")


PRESETS = {
    "smoke": Config(widths=(6, 48), num_seeds=40, num_steps=8),
    "paper": Config(
        widths=(16, 32, 64, 128, 256), head_width=16, num_positions=16, num_seeds=32, num_steps=30
    ),
}


class Result(NamedTuple):
    """Axes: a kinds of networks (`NAMES`), s seeds, w widths."""

    widths: Int[np.ndarray, " w"]
    norms: Float[np.ndarray, "a s w"]  # ‖∇²f‖


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores."""
    widest = max(config.widths)
    weights = widest**2 * config.head_width + 3 * widest * config.head_width * config.dimension
    return 8 * (config.num_steps + 8) * (weights + widest**2)


def run(config: Config) -> Result:
    """Draw networks of each kind and measure their Hessians."""
    rows = []
    x_key, key = jax.random.split(jax.random.key(config.seed))
    x = sphere(x_key, config.num_positions, config.dimension, radius=config.dimension**0.5)
    for kind, name in enumerate(NAMES):
        report(name, kind / len(NAMES))
        own = jax.random.fold_in(key, kind)
        rows.append([_norms(own, x, kind, width, config) for width in config.widths])
    norms = np.transpose(np.array(rows), (0, 2, 1))
    return Result(np.asarray(config.widths), norms)


def _block(kind: int, width: int, config: Config) -> Architecture:
    """What each position becomes."""
    heads, head_width = (width, config.head_width) if kind == HEADS else (1, width)
    return SelfAttention(width, heads, head_width)


def _norms(
    key: RandomKey, x: Float[Array, "t d"], kind: int, width: int, config: Config
) -> Float[np.ndarray, " s"]:
    """‖∇²f‖ of random networks of one kind and width."""
    model = network_of(Serial(_block(kind, width, config), GlobalPool(), Dense(1)), x.shape)

    def one(key: RandomKey) -> Float[Array, ""]:
        init_key, lanczos_key = jax.random.split(key)
        params = model.init(init_key)
        operator = output_hessian(model.apply, params, x)
        return spectral_norm(operator, params, lanczos_key, config.num_steps).value

    keys = jax.random.split(jax.random.fold_in(key, width), config.num_seeds)
    return np.asarray(ensemble(one, keys))


# No result of the source stands behind these. The intervals are those of graphs: a slope of −1/2
# with 0.15 on either side, and 0.1 more above, as the most curved of m heads adds 1/(2 log m); and
# one above −0.15 that does not fall.
CLAIMS = (
    Claim(
        "With m heads of a fixed width the Hessian falls like one over the root of m.",
        judge=lambda r, c: exponent_between(r.widths, r.norms[HEADS], -0.65, -0.25),
        source=ATTENTION,
    ),
    Claim(
        "With one head of width m it does not fall.",
        judge=lambda r, c: exponent_between(r.widths, r.norms[WIDE], -0.15, 0.15),
        source=ATTENTION,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over the width, of every kind."""
    figure, (axis,) = panels("Hessian norm over width")
    for name, norms in zip(NAMES, result.norms, strict=True):
        axis.loglog(result.widths, np.median(norms, axis=0), "o-", markersize=3, label=name)
    first = np.median(result.norms[HEADS], axis=0)[0]
    slope = first * (result.widths / result.widths[0]) ** -0.5
    axis.loglog(result.widths, slope, **THEORY, label="slope −1/2")
    axis.set_xlabel("width m")
    axis.legend(fontsize=7)
    return figure
