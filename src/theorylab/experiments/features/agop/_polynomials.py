"""Learning a polynomial of low rank: how well a network does, and which directions it looks at.

    begin    draws a task and a network: data for training, validation and test, w₀, and η_crit
    learn    trains until the data are fitted, and measures at the best validation loss

`begin_each` and `learn_each` do so for many seeds and learning rates, on all cores, and
`learn_with_batches` for several sizes of batches too.

The loss is the mean squared error. What is measured: the test loss (noise included), alone and over
Var f*; cos(G, G*), the alignment of the AGOP on the training inputs with the EGOP of f*; and the
number of *super-critical steps*, those with

    η > η_crit(batch) = b / λ_max(K(batch)),

which the source calls the number of catapults. It counts steps; `dynamics.num_catapults` counts
spikes.

Source: zhu · agop-sgd · §4.4, Table 4.1; zhu · synthetic-tasks · C.6.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Shaped

from theorylab.data import Dataset, low_rank_polynomial, polynomial_agop
from theorylab.data.polynomials import Rank, polynomial_moments
from theorylab.dynamics import kernel_matrix
from theorylab.features.agop import agop, agop_alignment
from theorylab.kernels import ntk_vector_product
from theorylab.models import Model, mlp, network
from theorylab.models.parametrization import Torch
from theorylab.progress import report
from theorylab.training import (
    Batches,
    Until,
    empirical_risk,
    ensemble,
    gradient_descent,
    squared,
    train_until,
)
from theorylab.typing import Apply, Params, RandomKey, Scalar

LOSS = squared("mean")
CORNER = 10  # inputs of the corner of G that is kept: those of which a polynomial may depend
# With the kernel of all samples, whose top eigenvector is nearly constant and stands far apart.
_NUM_PRODUCTS = 12
Convention = Literal["ntk", "torch"]
_LARGEST_COUNTED = 500  # samples of a batch; beyond, its η_crit costs more than its step


@dataclass(frozen=True)
class PolynomialTask:
    """Which polynomial, and how many samples of it.

    Args:
        rank: The rank of its EGOP.
        dimension: The dimension d of the inputs.
        num_train: The number of training samples n.
        num_others: The number of validation samples, and of test samples.
        noise: The standard deviation of the noise of all targets.
        scaled: Whether all targets, with their noise, are divided by √Var f*.
    """

    rank: Rank = 2
    dimension: int = 100
    num_train: int = 2000
    num_others: int = 5000
    noise: float = 0.1
    scaled: bool = False

    def __post_init__(self) -> None:
        for name in ("num_train", "num_others"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        _ = self.variance  # refuses what does not fit

    @property
    def variance(self) -> float:
        """Var f*, before targets are divided."""
        return polynomial_moments(self.rank, self.dimension).variance


class Start(NamedTuple):
    """A task and a network before training."""

    train: Dataset
    validation: Dataset
    test: Dataset
    params: Params
    critical_rate: Float[Array, ""]  # η_crit of all training samples


class PolynomialTraining(NamedTuple):
    """What was measured at the best validation loss, and how training ended.

    Args:
        test: The test loss.
        relative: The test loss over Var f*: 1 is what the mean predicts, without the noise.
        alignment: cos(G, G*).
        corner: The first rows and columns of G, of up to 10 inputs.
        num_supercritical: The super-critical steps until then, which the source calls catapults.
        step: All steps until then.
        num_steps: The steps until the end.
        loss: The training loss at the end.
        reached: Whether the data were fitted.
    """

    test: Float[Array, ""]
    relative: Float[Array, ""]
    alignment: Float[Array, ""]
    corner: Float[Array, "c c"]
    num_supercritical: Int[Array, ""]
    step: Int[Array, ""]
    num_steps: Int[Array, ""]
    loss: Float[Array, ""]
    reached: Bool[Array, ""]


def bytes_of(task: PolynomialTask, widths: Sequence[int], num_seeds: int) -> int:
    """What the data and networks of all seeds take in single precision, and two runs at once.

    Args:
        task: What is to be learned.
        widths: Of the hidden layers.
        num_seeds: The number of seeds.
    """
    samples = task.num_train + 2 * task.num_others
    data = num_seeds * samples * (task.dimension + 1)
    weights = num_seeds * sum(a * b for a, b in pairwise((task.dimension, *widths, 1)))
    activations = 2 * max(task.num_train, task.num_others) * sum(widths)
    return 4 * (2 * data + 8 * weights + 3 * activations)


def network_in(convention: Convention, widths: Sequence[int], dimension: int) -> Model:
    """A ReLU network to one output, in the source's parametrization or in PyTorch's.

    Args:
        convention: `ntk`: weights N(0, 1), layers divided by √fan-in, no biases. `torch`: weights
            and biases begin uniform on ±1/√fan-in, and nothing is divided.
        widths: Of the hidden layers.
        dimension: Of the inputs.

    Example:
        >>> layers = network_in("torch", [4], dimension=3).init(jax.random.key(0))
        >>> sorted(layers[0]), layers[0]["weight"].shape
        (['bias', 'weight'], (3, 4))
    """
    if convention not in get_args(Convention):
        raise ValueError(f"convention must be one of {get_args(Convention)}, got {convention!r}.")
    if convention == "ntk":
        return network(mlp(widths), (dimension,))
    return network(mlp(widths), (dimension,), Torch(), bias="uniform", law="uniform")


def begin(key: RandomKey, task: PolynomialTask, model: Model) -> Start:
    """Draw data and network, and measure η_crit of all training samples.

    Args:
        key: The randomness of both.
        task: What is to be learned.
        model: A network from `task.dimension` inputs to one output.
    """
    data_key, init_key = jax.random.split(key)
    total = task.num_train + 2 * task.num_others
    data = low_rank_polynomial(data_key, total, task.dimension, task.rank, task.noise)
    if task.scaled:
        data = replace(data, y=data.y / math.sqrt(task.variance))
    train, others = data.split(task.num_train)
    validation, test = others.split(task.num_others)
    params = model.init(init_key)
    product = ntk_vector_product(model.apply, params, train.x)

    def follow(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        image = product(state[0])
        size = jnp.linalg.norm(image)
        return image / size, size

    # By hand, because `power_iteration` has the product twice, and here it is compiling that costs.
    constant = jnp.full_like(train.y, task.num_train**-0.5)
    _, top = jax.lax.fori_loop(0, _NUM_PRODUCTS, follow, (constant, jnp.zeros((), constant.dtype)))
    critical_rate = LOSS.critical_learning_rate(top, task.num_train)
    return Start(train, validation, test, params, jnp.asarray(critical_rate))


def learn(
    key: RandomKey,
    task: PolynomialTask,
    model: Model,
    start: Start,
    optimizer: optax.GradientTransformation,
    batch: Batches,
    until: Until,
    learning_rate: Scalar | None = None,
) -> PolynomialTraining:
    """Train until the data are fitted, and measure at the best validation loss.

    Args:
        key: The randomness of the batches.
        task: What is to be learned.
        model: The network.
        start: Where to begin, from `begin`.
        optimizer: Any optax transformation.
        batch: The size of batches.
        until: When training ends.
        learning_rate: η, to count the steps at which it is above η_crit(batch); if it is not
            given, nothing is counted.
    """

    def above(params: Params, x: Array, y: Array) -> Bool[Array, ""]:
        return super_critical(model.apply, params, x, jnp.asarray(learning_rate))

    risk = empirical_risk(LOSS, model.apply)
    event = None if learning_rate is None else above
    fitted = train_until(
        risk, start.params, start.train, start.validation, optimizer, batch, until, key, event
    )
    test = risk(fitted.params, start.test.x, start.test.y)
    features = agop(model.apply, fitted.params, start.train.x)
    reference = polynomial_agop(task.rank, task.dimension).astype(features.dtype)
    return PolynomialTraining(
        test=test,
        relative=test if task.scaled else test / task.variance,
        alignment=agop_alignment(features, reference),
        corner=features[:CORNER, :CORNER],
        num_supercritical=fitted.num_events,
        step=fitted.step,
        num_steps=fitted.num_steps,
        loss=fitted.loss,
        reached=fitted.reached,
    )


def super_critical(
    apply: Apply, params: Params, x: Float[Array, "n ..."], learning_rate: Scalar
) -> Bool[Array, ""]:
    """Whether η > η_crit(x) = n/λ_max(K), for the mean squared error of one output.

    That is so just where (n/η) I − K is not positive definite and has no Cholesky factor, which
    costs a small part of what the eigenvalue does.

    Args:
        apply: The network.
        params: Its parameters.
        x: The inputs of the batch.
        learning_rate: η.
    """
    kernel = kernel_matrix(apply, params, x)
    bound = 2 / (LOSS.curvature(len(x)) * learning_rate)
    factor = jnp.linalg.cholesky(bound * jnp.eye(len(x), dtype=kernel.dtype) - kernel)
    return jnp.isnan(factor[-1, -1])


def begin_each(key: RandomKey, num_seeds: int, task: PolynomialTask, model: Model) -> Start:
    """Begin once for every seed, on all cores: every field gets the axis of the seeds in front."""
    return ensemble(lambda key: begin(key, task, model), jax.random.split(key, num_seeds))


def learn_each(
    key: RandomKey,
    starts: Start,
    rates: Float[Array, "r s"],
    task: PolynomialTask,
    model: Model,
    optimizer: Callable[..., optax.GradientTransformation],
    batch: Batches,
    until: Until,
    count: bool = True,
    settings: tuple[Shaped[Array, "r s"], ...] = (),
) -> PolynomialTraining:
    """Learn with r learning rates from every one of s starts, in one program on all cores.

    Every field has the axes r, s in front.

    Args:
        key: The randomness of all batches.
        starts: Where to begin, from `begin_each`.
        rates: The learning rates η, of every start its own.
        task: What is to be learned.
        model: The network.
        optimizer: η, *settings ─► an optax transformation.
        batch: The size of batches.
        until: When training ends.
        count: Whether to count the super-critical steps.
        settings: What else the optimiser takes.
    """
    num_rates, num_seeds = rates.shape
    places = jnp.tile(jnp.arange(num_seeds), num_rates)

    def one(given: tuple[RandomKey, Array, Scalar, tuple[Array, ...]]) -> PolynomialTraining:
        key, place, rate, others = given
        start = jax.tree.map(lambda leaf: leaf[place], starts)
        chosen, counted = optimizer(rate, *others), rate if count else None
        return learn(key, task, model, start, chosen, batch, until, counted)

    keys = jax.random.split(key, rates.size)
    flat = jax.tree.map(jnp.ravel, (rates, settings))
    learned = ensemble(one, (keys, places, *flat))
    return jax.tree.map(lambda leaf: leaf.reshape(*rates.shape, *leaf.shape[1:]), learned)


def learn_with_batches(
    key: RandomKey,
    starts: Start,
    rates: Float[Array, "r s"],
    task: PolynomialTask,
    model: Model,
    batch_sizes: Sequence[int],
    until: Until,
) -> PolynomialTraining:
    """Learn by SGD with b sizes of batches and r learning rates from every one of s starts.

    Every field has the axes r, b, s in front. In batches of more than 500 samples no super-critical
    steps are counted: their number is −1.

    Args:
        key: The randomness of all batches.
        starts: Where to begin, from `begin_each`.
        rates: The learning rates η, of every start its own.
        task: What is to be learned.
        model: The network.
        batch_sizes: The sizes.
        until: When training ends.
    """
    runs = []
    for index, size in enumerate(batch_sizes):
        report(f"batches of {size}", (index + 1) / (len(batch_sizes) + 1))
        own, batch, count = jax.random.fold_in(key, size), Batches(size), size <= _LARGEST_COUNTED
        learned = learn_each(own, starts, rates, task, model, gradient_descent, batch, until, count)
        if not count:
            learned = learned._replace(
                num_supercritical=jnp.full_like(learned.num_supercritical, -1)
            )
        runs.append(learned)
    return jax.tree.map(lambda *parts: jnp.stack(parts, axis=1), *runs)
