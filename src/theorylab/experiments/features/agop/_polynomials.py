"""SGD on polynomials of low rank: the settings, the protocol and the figure of these experiments.

    PolynomialConfig     which polynomial, how many samples, which network, when training ends
    begin                draws data and network, and measures the critical learning rate η_crit
    learn                trains until the data are fitted, and measures at the best validation loss
    learn_each           the same for many seeds and learning rates, on all cores
    learn_with_batches   the same for several batch sizes
    with_ranks           the same inputs and networks, with the targets of other polynomials

The loss is the mean squared error. What is measured: the test loss (noise included), alone and over
Var f*; cos(G, G*), the alignment of the AGOP on the training inputs with the EGOP of f*; and the
number of *super-critical steps*, those with

    η > η_crit(batch) = b / λ_max(K(batch)),

which the source calls the number of catapults. It counts steps; `dynamics.num_catapults` counts
spikes.

Source: zhu · agop-sgd · §4.4, Table 4.1; zhu · synthetic-tasks · C.6; zhu · agop · Eq. 4.6.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Real, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theorylab.data import Dataset, low_rank_polynomial, polynomial_agop
from theorylab.data.polynomials import Rank, polynomial_moments, polynomial_teacher
from theorylab.dynamics import kernel_matrix
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.features.agop import agop, agop_alignment
from theorylab.fields import Count, Increasing, Positive, Seeded, Several
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
from theorylab.typing import Apply, Measured, Params, RandomKey, Scalar

LOSS = squared("mean")
NOT_KEPT = "lab: chosen for this experiment; the runs it was set on were not kept"
CORNER = 10  # the corner of G that is kept has so many inputs: a polynomial depends on no others
# With the kernel of all samples, whose top eigenvector is nearly constant and stands far apart.
_NUM_PRODUCTS = 12
_LARGEST_COUNTED = 500  # samples of a batch; beyond, its η_crit costs more than its step
Convention = Literal["ntk", "torch"]


@dataclass(frozen=True)
class PolynomialConfig(Seeded):
    """Training on a polynomial of low rank until the data are fitted."""

    num_seeds: Count = 6  # data and networks, at least 6 to conclude
    rank: int = 2  # which polynomial: 2, 3 or 4
    dimension: Count = 100  # of the inputs, d
    num_train: Count = 2000  # training samples, n
    num_test: Count = 5000  # test samples, and as many validation samples
    widths: Several[Count] = (1024,)  # of the hidden layers
    target: Positive = 0.001  # the training loss at which a run ends
    max_steps: Count = 40000  # after which it ends anyway
    check_every: Count = 200  # steps from one look at the losses to the next

    scaled = False  # whether all targets, with their noise, are divided by √Var f*

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank not in (2, 3, 4):
            raise ValueError(f"rank must be 2, 3 or 4, got {self.rank}.")
        _ = self.variance  # it refuses a dimension that is too small for the rank

    @property
    def law(self) -> Rank:
        """The polynomial, as `theorylab.data` names it."""
        return cast(Rank, self.rank)

    @property
    def variance(self) -> float:
        """Var f*, before targets are divided."""
        return polynomial_moments(self.law, self.dimension).variance

    @property
    def model(self) -> Model:
        """The network."""
        return network_in("ntk", self.widths, self.dimension)

    @property
    def until(self) -> Until:
        """When a run ends."""
        return Until(self.target, self.max_steps, self.check_every)


@dataclass(frozen=True)
class BatchConfig(PolynomialConfig):
    """SGD on a polynomial of low rank, with batches of several sizes."""

    batch_sizes: Increasing[Count] = (5, 10, 50)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_batch_sizes(self.batch_sizes, self.num_train)


def require_batch_sizes(
    batch_sizes: Sequence[int], num_train: int, exactly_two: bool = False
) -> None:
    """Raise if a batch is larger than the training set, or if there are not two sizes."""
    if exactly_two and len(batch_sizes) != 2:
        raise ValueError(f"batch_sizes must be two and increasing, got {batch_sizes}.")
    if max(batch_sizes) > num_train:
        raise ValueError(f"batch_sizes must be at most {num_train}, got {max(batch_sizes)}.")


class Start(NamedTuple):
    """Data and a network before training."""

    train: Dataset
    validation: Dataset
    test: Dataset
    params: Params
    critical_rate: Float[Array, ""]  # η_crit of all training samples


class PolynomialTraining(NamedTuple):
    """What runs have at their best validation loss, and how they ended."""

    test: Float[Measured, "*r"]  # loss
    relative: Float[Measured, "*r"]  # test loss over Var f*: the mean has 1, without the noise
    alignment: Float[Measured, "*r"]  # cos(G, G*)
    corner: Float[Measured, "*r c c"]  # of G, up to 10 inputs
    num_supercritical: Real[Measured, "*r"]  # super-critical steps until then; −1 if not counted
    step: Int[Measured, "*r"]  # all steps until then
    num_steps: Int[Measured, "*r"]  # until the end
    loss: Float[Measured, "*r"]  # of training, at the end
    reached: Bool[Measured, "*r"]  # whether the data were fitted


def bytes_of(config: PolynomialConfig, num_seeds: int) -> int:
    """Bytes of the data and networks of so many seeds in float32, and of two runs at once."""
    samples = config.num_train + 2 * config.num_test
    data = num_seeds * samples * (config.dimension + 1)
    weights = num_seeds * sum(a * b for a, b in pairwise((config.dimension, *config.widths, 1)))
    activations = 2 * max(config.num_train, config.num_test) * sum(config.widths)
    outer_products = 10 * config.dimension**2  # G and G*, one of them in float64
    return 4 * (2 * data + 8 * weights + 3 * activations + outer_products)


def network_in(convention: Convention, widths: Sequence[int], dimension: int) -> Model:
    """A ReLU network to one output, in the source's parametrization or in PyTorch's.

    `ntk`: weights N(0, 1), layers divided by √fan-in, no biases. `torch`: weights and biases begin
    uniform on ±1/√fan-in, and nothing is divided.

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


def begin(key: RandomKey, config: PolynomialConfig) -> Start:
    """Draw data and network, and measure η_crit of all training samples."""
    data_key, init_key = jax.random.split(key)
    total = config.num_train + 2 * config.num_test
    data = low_rank_polynomial(data_key, total, config.dimension, config.law)
    if config.scaled:
        data = replace(data, y=data.y / math.sqrt(config.variance))
    train, others = data.split(config.num_train)
    validation, test = others.split(config.num_test)
    model = config.model
    params = model.init(init_key)
    product = ntk_vector_product(model.apply, params, train.x)

    def follow(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        image = product(state[0])
        size = jnp.linalg.norm(image)
        return image / size, size

    # By hand, because `power_iteration` has the product twice, and here it is compiling that costs.
    constant = jnp.full_like(train.y, config.num_train**-0.5)
    _, top = jax.lax.fori_loop(0, _NUM_PRODUCTS, follow, (constant, jnp.zeros((), constant.dtype)))
    critical_rate = LOSS.critical_learning_rate(top, config.num_train)
    return Start(
        train=train,
        validation=validation,
        test=test,
        params=params,
        critical_rate=jnp.asarray(critical_rate),
    )


def learn(
    key: RandomKey,
    config: PolynomialConfig,
    start: Start,
    optimizer: optax.GradientTransformation,
    batch: Batches,
    learning_rate: Scalar | None = None,
) -> PolynomialTraining:
    """Train until the data are fitted, and measure at the best validation loss.

    Steps at which `learning_rate` is above η_crit(batch) are counted; without it, none are.
    """
    apply = config.model.apply

    def above(params: Params, x: Array, y: Array) -> Bool[Array, ""]:
        return super_critical(apply, params, x, jnp.asarray(learning_rate))

    risk = empirical_risk(LOSS, apply)
    event, samples = None if learning_rate is None else above, (start.train, start.validation)
    fitted = train_until(risk, start.params, *samples, optimizer, batch, config.until, key, event)
    test = risk(fitted.params, start.test.x, start.test.y)
    features = agop(apply, fitted.params, start.train.x)
    reference = polynomial_agop(config.law, config.dimension).astype(features.dtype)
    return PolynomialTraining(
        test=test,
        relative=test if config.scaled else test / config.variance,
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
    """
    kernel = kernel_matrix(apply, params, x)
    bound = 2 / (LOSS.curvature(len(x)) * learning_rate)
    factor = jnp.linalg.cholesky(bound * jnp.eye(len(x), dtype=kernel.dtype) - kernel)
    return jnp.isnan(factor[-1, -1])


def begin_each(key: RandomKey, num_seeds: int, config: PolynomialConfig) -> Start:
    """Begin once for every seed, on all cores: every field gets the axis of the seeds in front."""
    return ensemble(lambda key: begin(key, config), jax.random.split(key, num_seeds))


def learn_each(
    key: RandomKey,
    starts: Start,
    rates: Float[Array, "r s"],
    config: PolynomialConfig,
    optimizer: Callable[..., optax.GradientTransformation],
    batch: Batches,
    count: bool = True,
    settings: tuple[Shaped[Array, "r s"], ...] = (),
) -> PolynomialTraining:
    """Learn with r learning rates from every one of s starts, in one program on all cores.

    Every field has the axes r, s in front. `optimizer` makes an optax transformation from η and the
    settings; `count` says whether to count the super-critical steps.
    """
    num_rates, num_seeds = rates.shape
    places = jnp.tile(jnp.arange(num_seeds), num_rates)

    def one(given: tuple[RandomKey, Array, Scalar, tuple[Array, ...]]) -> PolynomialTraining:
        key, place, rate, others = given
        start = jax.tree.map(lambda leaf: leaf[place], starts)
        return learn(key, config, start, optimizer(rate, *others), batch, rate if count else None)

    keys = jax.random.split(key, rates.size)
    flat = jax.tree.map(jnp.ravel, (rates, settings))
    learned = ensemble(one, (keys, places, *flat))
    return jax.tree.map(lambda leaf: leaf.reshape(*rates.shape, *leaf.shape[1:]), learned)


def learn_with_batches(
    key: RandomKey, starts: Start, rates: Float[Array, "r s"], config: BatchConfig
) -> PolynomialTraining:
    """Learn by SGD with b sizes of batches and r learning rates from every one of s starts.

    Every field has the axes r, b, s in front. In batches of more than 500 samples no super-critical
    steps are counted: their number is −1.
    """
    runs = []
    for index, size in enumerate(config.batch_sizes):
        report(f"batches of {size}", (index + 1) / (len(config.batch_sizes) + 1))
        own, count = jax.random.fold_in(key, size), size <= _LARGEST_COUNTED
        learned = learn_each(own, starts, rates, config, gradient_descent, Batches(size), count)
        if not count:
            learned = learned._replace(
                num_supercritical=jnp.full_like(learned.num_supercritical, -1)
            )
        runs.append(learned)
    return jax.tree.map(lambda *parts: jnp.stack(parts, axis=1), *runs)


def learn_by_batch_size(
    config: BatchConfig, rates_of: Callable[[Float[Array, " s"]], Float[Array, "r s"]]
) -> tuple[Float[Array, " s"], PolynomialTraining]:
    """Give η_crit of every seed's training samples, and what `learn_with_batches` gives.

    The learning rates are `rates_of` these critical ones.
    """
    report("data, networks and their critical learning rates", 0.0)
    start_key, batch_key = jax.random.split(jax.random.key(config.seed))
    starts = begin_each(start_key, config.num_seeds, config)
    rates = rates_of(starts.critical_rate)
    return starts.critical_rate, learn_with_batches(batch_key, starts, rates, config)


def with_ranks(starts: Start, config: PolynomialConfig, ranks: Sequence[Rank]) -> Start:
    """What `begin_each` gives for each rank with scaled targets, all on one axis of seeds.

    A program that learns one polynomial learns every other without being compiled again: only
    targets differ, f*(x) and the same noise over √Var f*. The description of the data remains that
    of the first, so that all starts can be joined.
    """
    own = polynomial_teacher(config.law)
    unit = math.sqrt(config.variance) if config.scaled else 1.0

    def relabelled(data: Dataset, rank: Rank) -> Dataset:
        noise = unit * data.y - own(data.x)
        scale = math.sqrt(polynomial_moments(rank, config.dimension).variance)
        return replace(data, y=(polynomial_teacher(rank)(data.x) + noise) / scale)

    def one(rank: Rank, start: Start) -> Start:
        return start._replace(
            train=relabelled(start.train, rank),
            validation=relabelled(start.validation, rank),
            test=relabelled(start.test, rank),
        )

    every = [jax.vmap(partial(one, rank))(starts) for rank in ranks]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *every)


def aligned_with(
    matrix: Real[np.ndarray, "c c"], learned: PolynomialTraining | Any, rank: Rank
) -> Float[np.ndarray, "..."]:
    """cos(G, M) of all runs; their norms ‖G‖ follow from the alignment that was measured."""
    truth, corner = np.asarray(polynomial_agop(rank, CORNER)), np.asarray(learned.corner)
    own, other = (np.sum(corner * part, axis=(-2, -1)) for part in (truth, matrix))
    norm = own / (np.linalg.norm(truth) * np.asarray(learned.alignment))
    return np.asarray(other / (np.linalg.norm(matrix) * norm), float)


def over_batch_sizes(
    axes: Sequence[Axes],
    batch_sizes: Sequence[int],
    measures: Sequence[Real[np.ndarray, "r b s"]],
    labels: Sequence[str],
) -> None:
    """Draw every measure over the batch sizes, one colour for each learning rate."""
    for axis, values in zip(axes, measures, strict=True):
        named = {label: rate.T for label, rate in zip(labels, values, strict=True)}
        curves(axis, batch_sizes, named, "o-")
        label_axes(axis, "batch size", logarithmic="x")
        axis.set_xticks(batch_sizes, [str(size) for size in batch_sizes])
        axis.minorticks_off()  # their labels would stand upon those of the sizes


def gap(values: Float[np.ndarray, "2 s"]) -> Float[np.ndarray, " s"]:
    """Seed by seed, what the larger batch has more, as a part of what the smaller has."""
    return values[1] / values[0] - 1


def figure_by_rate(
    runs: PolynomialTraining, batch_sizes: Sequence[int], labels: Sequence[str]
) -> Figure:
    """Test loss, alignment and super-critical steps over batch sizes, by learning rate."""
    figure, axes = panels("test loss / Var f*", "alignment cos(G, G*)", "super-critical steps")
    over_batch_sizes(
        axes, batch_sizes, (runs.relative, runs.alignment, runs.num_supercritical), labels
    )
    return figure
