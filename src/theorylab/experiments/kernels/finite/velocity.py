"""Early in training the kernel turns fast and batches decide the outcome; later neither is so.

In the standard parametrization the tangent kernel H of a network turns while it learns. Its
velocity is the kernel distance ρ(H, H′) = 1 − ⟨H, H′⟩/(‖H‖‖H′‖) between two times a fixed number of
steps apart. To see what chance still decides at a time T, two copies of the network are trained on
from there, with different batches. Do they end in one valley? The barrier between them is the
largest test error on the segment from one to the other, less the mean of its ends. Early in
training the velocity and the barrier are large, and soon they fall together.

The learning rate is constant for two thirds of training, where all times T lie, and then falls to
0, so that no noise of the last steps stands between copies.

The source has no numbers. It compares velocities of the first epoch and of the end; here the end
is the last sixth before the learning rate falls, because a kernel that is not trained does not
turn.

Source: golikov · std-param-evolution · 2.7.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    identity,
    median_at_least,
    median_at_most,
    trend,
)
from theorylab.data import Dataset, digits
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded, Whole, within
from theorylab.kernels import alignment, ntk
from theorylab.models import Model, Standard, mlp, network
from theorylab.numerics import rank_correlations, spearman
from theorylab.progress import report
from theorylab.training import cross_entropy, ensemble, every, zero_one
from theorylab.training.trajectory import run_and_record
from theorylab.typing import Params, RandomKey

PRECISION = "float32"
FORMULA = (
    r"\rho(H, H') = 1 - \frac{\mathrm{tr}(H H'^\top)}"
    r"{\sqrt{\mathrm{tr}(H H^\top)\,\mathrm{tr}(H' H'^\top)}}"
)

SOURCE = Source("golikov", "std-param-evolution", "2.7")

LOSS = cross_entropy("mean")
ERROR = zero_one("mean")


@dataclass(frozen=True)
class Config(Seeded):
    """ReLU networks in the standard parametrization, trained on handwritten digits by SGD."""

    width: Count = 32  # neurons of every hidden layer
    depth: Plural = 5  # layers with weights, hidden ones and the output
    num_samples: Annotated[int, within(1, 1700)] = 1000  # training images
    batch_size: Count = 16
    learning_rate: Positive = 0.15  # in the first two thirds of training
    num_steps: Count = 2400  # of SGD
    interval: Count = 15  # steps between two times at which the kernel is compared
    spawns: Increasing[Whole] = (0, 15, 30, 60, 600, 1200)  # steps T after which copies part
    num_copies: Count = 3  # copies for each T, over which is averaged
    num_points: Count = 40  # test images on which the kernel is measured
    num_segment: Annotated[int, within(3)] = 9  # points of the segment between two copies
    num_seeds: Count = 20  # random networks

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps % self.interval or any(step % self.interval for step in self.spawns):
            raise ValueError(
                f"num_steps and spawns must be multiples of interval = {self.interval}, "
                f"got {self.num_steps} and {self.spawns}."
            )
        if self.spawns[0] != 0:
            raise ValueError(f"spawns must begin with 0, got {self.spawns}.")
        first, last = self.num_steps // 3, 2 * self.num_steps // 3
        if len(self.spawns) < 3 or not first <= self.spawns[-1] <= last:
            raise ValueError(
                f"spawns must be three or more, the last in [{first}, {last}], got {self.spawns}."
            )


PRESETS = {
    "smoke": Config(
        num_samples=400,
        num_steps=900,
        spawns=(0, 60, 450),
        num_copies=1,
        num_points=20,
        num_seeds=14,
    ),
    "paper": Config(width=128, num_steps=12000, spawns=(0, 60, 150, 300, 600, 1500, 3000, 6000)),
}


class Result(NamedTuple):
    """Axes: s seeds, t times of the kernel, u spawn times. Of copies, means over several."""

    steps: Int[np.ndarray, " t"]  # at which an interval begins
    velocity: Float[np.ndarray, "s t"]  # ρ over one interval
    velocity_at_spawn: Float[np.ndarray, "s u"]  # mean over the three intervals that follow
    barrier: Float[np.ndarray, "s u"]  # of the test error between network and copy
    loss_barrier: Float[np.ndarray, "s u"]  # of the test loss
    kernel_distance: Float[np.ndarray, "s u"]  # ρ between them at the end
    pattern_distance: Float[np.ndarray, "s u"]  # share of neurons that differ in being active
    function_distance: Float[np.ndarray, "s u"]  # share of test images classified differently
    same_barrier: Float[np.ndarray, " s"]  # between copies that never part
    late: Bool[np.ndarray, " u"]  # which spawn times are in the last two thirds of training
    error: Float[np.ndarray, " s"]  # test error at the end


def memory(config: Config) -> int:
    """Bytes of the Jacobians of one network at all points, and of a few copies."""
    weights = (64 + 10 + (config.depth - 2) * config.width) * config.width
    return 4 * weights * (10 * config.num_points + 8)


def run(config: Config) -> Result:
    """Train, spawn, and compare."""
    report("training and spawning", 0.0)
    images = digits("standard").shuffled(jax.random.key(0))
    train, test = images.split(config.num_samples)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    found = ensemble(lambda key: _one(key, train, test, config), keys)
    arrays = {name: np.asarray(values) for name, values in found.items()}
    spawns = np.asarray(config.spawns)
    following = spawns[:, None] // config.interval + np.arange(3)[None, :]
    return Result(
        steps=np.arange(0, config.num_steps, config.interval),
        velocity_at_spawn=arrays["velocity"][:, following].mean(axis=2),
        late=spawns >= config.num_steps / 3,
        **arrays,
    )


def _one(key: RandomKey, train: Dataset, test: Dataset, config: Config) -> dict[str, Array]:
    """One network: the velocity of its kernel, and its copies of every spawn time."""
    for_start, for_batches, for_copies = jax.random.split(key, 3)
    architecture = mlp([config.width] * (config.depth - 1), num_outputs=10)
    model = network(architecture, (64,), Standard(weight_scale=math.sqrt(2)))
    start = model.init(for_start)
    points = test.x[: config.num_points]

    def kernel(params: Params) -> Float[Array, "p p"]:
        return ntk(model.apply, params, points)

    first = run_and_record(
        _step(model, train, for_batches, config),
        start,
        every(config.interval, config.num_steps),
        measure=lambda params: (kernel(params), params),
        params_of=lambda params: params,
    )
    kernels, checkpoints = first.records
    velocity = 1 - jax.vmap(alignment)(kernels[1:], kernels[:-1])

    def compare(spawn: Int[Array, ""], number: Int[Array, ""]) -> dict[str, Array]:
        """A copy that goes on from a checkpoint with batches of its own; number 0 with the same."""
        own = jax.random.fold_in(for_copies, number)
        step = _step(model, train, jnp.where(number == 0, for_batches, own), config)
        parted = jax.tree.map(lambda w: w[spawn // config.interval], checkpoints)
        copy = jax.lax.fori_loop(spawn, config.num_steps, lambda t, w: step(w, t), parted)
        distance = 1 - alignment(kernels[-1], kernel(copy))
        return _compared(model, first.params, copy, test, config) | {"kernel_distance": distance}

    # The last of them never parts.
    count = config.num_copies
    spawns = jnp.asarray([*np.repeat(config.spawns, count), config.spawns[-1]])
    numbers = jnp.asarray([*range(1, count + 1)] * len(config.spawns) + [0])
    compared = jax.lax.map(lambda pair: compare(*pair), (spawns, numbers))
    means = {name: v[:-1].reshape(-1, count).mean(axis=1) for name, v in compared.items()}
    return means | {
        "velocity": velocity,
        "error": ERROR(model.apply(first.params, test.x), test.y),
        "same_barrier": compared["barrier"][-1],
    }


def _step(
    model: Model, train: Dataset, key: RandomKey, config: Config
) -> Callable[[Params, Int[Array, ""]], Params]:
    """A step of SGD, whose batches depend on nothing but the key and the number of the step."""
    shape = (config.num_steps, config.batch_size)
    batches = jax.random.randint(key, shape, 0, train.num_samples)

    def step(params: Params, number: Int[Array, ""]) -> Params:
        x, y = train.x[batches[number]], train.y[batches[number]]
        slopes = jax.grad(lambda w: LOSS(model.apply(w, x), y))(params)
        rate = config.learning_rate * jnp.minimum(1.0, 3 * (1 - number / config.num_steps))
        return jax.tree.map(lambda w, g: w - rate * g, params, slopes)

    return step


def _compared(
    model: Model,
    one: Params,
    other: Params,
    test: Dataset,
    config: Config,
) -> dict[str, Array]:
    """Barriers between two networks, and distances of what they do."""

    def between(share: Float[Array, ""]) -> tuple[Array, Array]:
        mixed = jax.tree.map(lambda a, b: (1 - share) * a + share * b, one, other)
        outputs = model.apply(mixed, test.x)
        return ERROR(outputs, test.y), LOSS(outputs, test.y)

    errors, losses = jax.lax.map(between, jnp.linspace(0.0, 1.0, config.num_segment))

    def barrier(values: Float[Array, " a"]) -> Float[Array, ""]:
        return values.max() - (values[0] + values[-1]) / 2

    told = [model.apply(params, test.x).argmax(axis=1) for params in (one, other)]
    active = [_active(params, test.x) for params in (one, other)]
    return {
        "barrier": barrier(errors),
        "loss_barrier": barrier(losses),
        "pattern_distance": jnp.mean((active[0] != active[1]).astype(float)),
        "function_distance": jnp.mean((told[0] != told[1]).astype(float)),
    }


def _active(params: Params, x: Float[Array, "n d"]) -> Array:
    """Which hidden neurons each image opens; in the standard parametrization there is no factor."""
    weights = [layer["weight"] for layer in params if layer]
    patterns = []
    for weight in weights[:-1]:
        x = x @ weight
        patterns.append(x > 0)
        x = jax.nn.relu(x)
    return jnp.concatenate(patterns, axis=1)


def _slowing(result: Result, config: Config) -> Float[np.ndarray, " s"]:
    """The velocity in the first epoch over that before the learning rate falls.

    Medians over the time: now and then a kernel jumps, also late.
    """
    epoch = config.num_samples / config.batch_size  # steps that draw as many images as there are
    share = result.steps / (result.steps[-1] + result.steps[1])
    early = np.median(result.velocity[:, result.steps < epoch], axis=1)
    return early / np.median(result.velocity[:, (share > 0.5) & (share < 0.66)], axis=1)


def _drop(result: Result) -> Float[np.ndarray, " s"]:
    """The barrier from the start, less five times the mean of the late ones."""
    return result.barrier[:, 0] - 5 * result.barrier[:, result.late].mean(axis=1)


# Smoke runs with seeds 11 and 12 gave 780 and 320 for the first, 0.04 and 0.02 for the second, 1
# and 1 for the third. With 1000 images in place of 400 some networks still learn after 1000 steps,
# and slow down by 4 to 60: so that preset has fewer images.
CLAIMS = (
    SOURCE.claim(
        "The kernel turns at least five times as fast in the first epoch as half way.",
        lambda r, c: median_at_least(_slowing(r, c), 5.0),
        quote="a phase of rapid kernel evolution, and a phase of almost constant NTK",
        demand="lab: the source has no number; seeds 11 and 12 gave 780 and 320",
    ),
    SOURCE.claim(
        "Copies that part at the start end behind a barrier, at least five times that of copies "
        "that part after a third of training.",
        lambda r, c: median_at_least(_drop(r), 0.0),
        quote="the test error barrier drops dramatically with growth of spawn epoch",
        demand="lab: the source has no number",
    ),
    SOURCE.claim(
        "Velocity and barrier, in the mean over networks, go together over the time of parting.",
        lambda r, c: at_least(
            spearman(r.velocity_at_spawn.mean(axis=0), r.barrier.mean(axis=0)).estimate, 0.8
        ),
        quote="kernel velocity and error barrier appear to be strongly correlated",
        formula=r"\rho_S(\mathrm{velocity}, \mathrm{barrier}) \ge 0.8",
        demand="lab: the source has no number",
    ),
    # A barrier counts some test images of 797, and late ones differ by chance: so not 0.8 here.
    SOURCE.found(
        "So they do for single networks, if less clearly.",
        lambda r, c: median_at_least(rank_correlations(r.velocity_at_spawn, r.barrier), 0.2),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    SOURCE.claim(
        "The later copies part, the nearer are their kernels.",
        lambda r, c: trend(r.kernel_distance.T, increasing=False),
        quote="kernel distance between child networks as a function of spawn epoch",
    ),
    SOURCE.claim(
        "And the fewer neurons are active in one and not in the other.",
        lambda r, c: trend(r.pattern_distance.T, increasing=False),
        quote="ReLU activation Hamming distance",
    ),
    SOURCE.claim(
        "And the fewer images do they classify differently.",
        lambda r, c: trend(r.function_distance.T, increasing=False),
        quote="Hamming distance between responses on the test set",
    ),
    SOURCE.check(
        "All networks have learned: one test image in ten at most is misclassified.",
        lambda r, c: median_at_most(r.error, 0.1),
    ),
    SOURCE.control(
        "Copies with the same batches have no barrier between them.",
        lambda r, c: identity(r.same_barrier, np.zeros_like(r.same_barrier), 1e-6),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the velocity over time, the barrier over spawn time, and the distances of copies."""
    figure, (velocity, barrier, distance) = panels(
        "velocity of the kernel", "barrier between copies", "distance of copies"
    )
    curves(velocity, result.steps, {"ρ over one interval": result.velocity})
    label_axes(velocity, "step", logarithmic="y")
    curves(barrier, config.spawns, {"test error": result.barrier}, "o-")
    distances = {
        "kernels": result.kernel_distance,
        "active neurons": result.pattern_distance,
        "predictions": result.function_distance,
    }
    curves(distance, config.spawns, distances, "o-")
    for axis in (barrier, distance):
        label_axes(axis, "step of parting T")
    return figure
