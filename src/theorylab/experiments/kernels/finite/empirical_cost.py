"""Shapes alone tell which of three ways to compute a finite-width tangent kernel is cheapest.

The tangent kernel of n inputs and k outputs can be had by multiplying Jacobians, n(1 + 2k)F + n²k²p
multiplications with p parameters and F multiplications for one output, or by pushing every gradient
forward, 2n²kF; so the second is preferable if F < C k p. F/p is how often an average parameter is
used: once in a fully connected network, at every position in a convolution. Structured derivatives
keep the gradients of weights in factors. Operations are counted twice: from shapes alone, and by
the compiler in the program that would run.

Source: golikov · entk-cost · 2.5.2; golikov · ntk-emp · 2.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, between, holds
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Count, Increasing, Plural, Seeded, within
from theorylab.kernels import ntk_costs, ntk_full
from theorylab.kernels.finite import NTKMethod
from theorylab.models import Activation, Conv, Dense, GlobalPool, Model, Serial, mlp, network
from theorylab.progress import report

PRECISION = "float32"
FORMULA = r"n (1 + 2k) F + n^2 k^2 p \;\lessgtr\; 2 n^2 k F \iff F \gtrless C k p"

COST = Source("golikov", "entk-cost", "2.5.2")
KERNEL = Source("golikov", "ntk-emp", "2.1, Eq. 2.56")

METHODS: tuple[NTKMethod, ...] = ("jacobian", "products", "structured")


@dataclass(frozen=True)
class Config(Seeded):
    """A fully connected and a convolutional network, of several widths and numbers of outputs."""

    widths: Increasing[Count] = (16, 48, 144)  # width of every hidden layer
    outputs: Increasing[Count] = (1, 2, 4, 8, 16, 32, 64)  # numbers of outputs k
    depth: Plural = 3  # layers with weights, hidden ones and the output
    dimension: Count = 8  # inputs of the fully connected network; channels of the other
    num_positions: Annotated[int, within(4)] = 8  # positions of the convolutional network
    num_samples: Count = 4  # inputs n of each of the two batches
    num_seeds: Count = 8  # random networks whose kernels are compared

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_samples * max(self.outputs) > 256:  # the compiler counts loops once
            raise ValueError(
                "num_samples times the most outputs must be at most 256, so that nothing is done in"
                f" blocks, got {self.num_samples} times {max(self.outputs)}."
            )


PRESETS = {
    "smoke": Config(widths=(16, 48), outputs=(1, 8, 64)),
    "paper": Config(widths=(64, 256, 1024, 4096), depth=4, num_positions=16),
}


class Result(NamedTuple):
    """Axes: networks (fully connected, convolutional), w widths, k outputs, m methods, s seeds."""

    counted: Float[np.ndarray, "2 w k m"]  # multiplications in the program, by the compiler
    modelled: Float[np.ndarray, "2 w k m"]  # multiplications from shapes
    uses: Float[np.ndarray, "2 w k"]  # F/p, how often an average parameter is used
    counted_crossover: Float[np.ndarray, "2 w"]  # the k from which products are cheaper
    modelled_crossover: Float[np.ndarray, "2 w"]
    chosen: Float[np.ndarray, "2 w k"]  # multiplications of what the model chooses, counted
    difference: Float[np.ndarray, "s 2 m"]  # of the kernels by each method, relative


def memory(config: Config) -> int:
    """Bytes of the Jacobians whose kernels are compared, and of the kernels."""
    width, k, n = config.widths[0], config.outputs[1], config.num_samples
    parameters = width * (3 * config.dimension + 3 * (config.depth - 1) * width + k)
    return 4 * (4 * n * k * parameters + 8 * (n * k) ** 2) + 2**20


def run(config: Config) -> Result:
    """Count operations on the grid; compare kernels at one of its points."""
    shape = (2, len(config.widths), len(config.outputs))
    counted, modelled = np.zeros((*shape, 3)), np.zeros((*shape, 3))
    uses, chosen = np.zeros(shape), np.zeros(shape)
    for at in np.ndindex(shape):
        report("counting operations", 0.8 * np.ravel_multi_index(at, shape) / np.prod(shape))
        width, k = config.widths[at[1]], config.outputs[at[2]]
        counted[at], modelled[at], uses[at], cheapest = _counts(config, at[0] == 1, width, k)
        chosen[at] = counted[at][METHODS.index(cheapest)]
    report("comparing kernels", 0.8)
    difference = np.stack([_differences(config, convolutional) for convolutional in (False, True)])
    return Result(
        counted=counted,
        modelled=modelled,
        uses=uses,
        counted_crossover=_crossover(config.outputs, counted),
        modelled_crossover=_crossover(config.outputs, modelled),
        chosen=chosen,
        difference=np.moveaxis(difference, 0, 1),
    )


def _network(config: Config, convolutional: bool, width: int, num_outputs: int) -> Model:
    """A network of hidden layers of one width."""
    if not convolutional:
        architecture = mlp([width] * (config.depth - 1), num_outputs=num_outputs, activation="tanh")
        return network(architecture, (config.dimension,))
    layers = [Conv(width, (3,), padding="same"), Activation("tanh")] * (config.depth - 1)
    architecture = Serial(*layers, GlobalPool(), Dense(num_outputs))
    return network(architecture, (config.num_positions, config.dimension))


def _inputs(config: Config, convolutional: bool) -> tuple[int, ...]:
    channels = (config.dimension,)
    return (config.num_samples, *((config.num_positions,) if convolutional else ()), *channels)


def _counts(
    config: Config, convolutional: bool, width: int, num_outputs: int
) -> tuple[np.ndarray, np.ndarray, float, str]:
    """Multiplications by compiler and by model, uses of a parameter, and the model's choice."""
    model = _network(config, convolutional, width, num_outputs)
    params = jax.eval_shape(model.init, jax.random.key(0))
    x = jax.ShapeDtypeStruct(_inputs(config, convolutional), jnp.result_type(float))
    costs = ntk_costs(model.apply, params, x, x, outputs="full")

    def compiler(method: NTKMethod) -> float:
        kernel = partial(ntk_full, model.apply, method=method, block_size=config.num_samples)
        analysis = jax.jit(kernel).lower(params, x, x).cost_analysis()
        return analysis["flops"] / 2 if analysis else np.nan  # a multiplication and an addition

    counted = np.array([compiler(method) for method in METHODS])
    modelled = np.array([getattr(costs, method).multiplications for method in METHODS])
    num_parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    return counted, modelled, costs.passes / num_parameters, costs.cheapest


def _crossover(outputs: tuple[int, ...], multiplications: np.ndarray) -> np.ndarray:
    """The k at which Jacobians and products cost the same, between two of the grid; NaN if none."""
    advantage = np.log(multiplications[..., 0] / multiplications[..., 1])
    found = np.full(advantage.shape[:-1], np.nan)
    for at in np.ndindex(found.shape):
        gains = advantage[at]
        if gains[0] < 0 < gains[-1]:
            i = int(np.argmax(gains > 0))
            logs = np.log(outputs[i - 1 : i + 1])
            found[at] = np.exp(np.interp(0.0, gains[i - 1 : i + 1], logs))
    return found


def _differences(config: Config, convolutional: bool) -> np.ndarray:
    """How far the kernels by every method are from Jacobian contraction, relative to their norm."""
    model = _network(config, convolutional, config.widths[0], config.outputs[1])
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)

    @jax.jit
    def compared(keys):
        def one(key):
            for_params, for_first, for_second = jax.random.split(key, 3)
            params = model.init(for_params)
            x1, x2 = (
                jax.random.normal(k, _inputs(config, convolutional))
                for k in (for_first, for_second)
            )
            kernels = [ntk_full(model.apply, params, x1, x2, method=way) for way in METHODS]
            scale = jnp.linalg.norm(kernels[0])
            return jnp.stack([jnp.linalg.norm(k - kernels[0]) / scale for k in kernels])

        return jax.lax.map(one, keys)

    return np.asarray(compared(keys))


def _constant(result: Result, config: Config) -> np.ndarray:
    """C = F/(kp) where both cost the same: (2, w)."""
    logs = np.log(config.outputs)
    at = np.log(result.counted_crossover)
    uses = [
        [np.interp(at[i, j], logs, result.uses[i, j]) for j in range(at.shape[1])] for i in range(2)
    ]
    return np.asarray(uses) / result.counted_crossover


# 1.5 is the room that a choice by count may lose, since passes
# over elementwise functions count as one multiplication each and take the compiler one to five.
CLAIMS = (
    KERNEL.check(
        "Jacobian contraction, vector products and structured derivatives give the same kernel.",
        lambda r, c: at_most(float(r.difference.max()), 1e-5),  # single precision
    ),
    COST.found(
        "From how many outputs on products are cheaper, shapes tell within a factor of 3.",
        lambda r, c: holds(
            np.log(3.0) - np.abs(np.log(r.counted_crossover / r.modelled_crossover))
        ),
        formula=r"n (1 + 2k) F + n^2 k^2 p = 2 n^2 k F + n(2 + 2k) F",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    COST.claim(
        "Products are preferable if F < C k p, with one C for all widths and both networks.",
        lambda r, c: between(float(_constant(r, c).max() / _constant(r, c).min()), 1.0, 3.0),
        quote="which improves over the jacobian contraction method as long as",
        formula=r"F < C\,k\,p",
        demand="lab: one C to a factor of 3; the source says only that there is one",
    ),
    COST.check(
        "What the count from shapes chooses costs at most 1.5 times the cheapest method.",
        lambda r, c: holds(np.log(1.5) - np.log(r.chosen / r.counted.min(axis=-1))),
    ),
    COST.found(
        "In a fully connected network, structured derivatives always cost less than Jacobians.",
        lambda r, c: holds(np.log(r.counted[0, ..., 0] / r.counted[0, ..., 2])),
    ),
    COST.control(
        "Where every weight is used at many positions, products need more outputs to pay.",
        lambda r, c: at_least(
            float((r.counted_crossover[1] / r.counted_crossover[0]).min()),
            float((r.uses[1] / r.uses[0]).min() / 3),
        ),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw counts over the number of outputs, for the widest networks; and the crossovers."""
    outputs = np.asarray(config.outputs)
    widths = np.asarray(config.widths)
    figure, (dense, convolutional, crossover) = panels(
        "fully connected: multiplications", "convolutional: multiplications", "products pay from"
    )
    for axis, counted, modelled in zip(
        (dense, convolutional), result.counted[:, -1], result.modelled[:, -1], strict=True
    ):
        for index, method in enumerate(METHODS):
            axis.plot(outputs, counted[:, index], "o", markersize=4, label=method)
            axis.plot(outputs, modelled[:, index], **THEORY)
        label_axes(axis, "outputs k", logarithmic="xy")
        axis.legend(fontsize=7)
    for index, name in enumerate(("fully connected", "convolutional")):
        crossover.plot(widths, result.counted_crossover[index], "o", label=name)
        crossover.plot(widths, result.modelled_crossover[index], **THEORY)
    label_axes(crossover, "width", "outputs k", "xy")
    crossover.legend(fontsize=7)
    return figure
