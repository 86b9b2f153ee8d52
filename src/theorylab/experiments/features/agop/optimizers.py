"""Across optimisers, the test loss falls as the features align with the target's.

Seven optimisers train the network of `features/agop/sgd` on x₁x₂ + noise until the training loss is
below 10⁻³: SGD on batches of 100, with momentum, gradient descent, Adadelta, Adagrad, RMSprop and
Adam, with learning rates that were not tuned to be best. Compared at the best validation loss, the
better the average gradient outer product G of a network is aligned with that of the target, G*, the
smaller its test loss is: ranked across optimisers, the two are nearly opposite. Optimisers have
the settings of PyTorch (see `training.torch_optimizer`); momentum is 0.9, which the source does not
say.

The control is the alignment with eight inputs that do not matter: that must not go with a smaller
test loss. `rank` chooses the polynomials of ranks 3 and 4, with the table's learning rates for them
(the source's networks there have three hidden layers of 256); for rank 3 there is no such control.

The same inputs and networks learn the polynomial of rank 3 as well, with targets over their
deviation. There the source's correlation is not reproduced: with one hidden layer, at this size, no
optimiser learns it, the test loss stays at the variance, and nothing is ranked. Nor is it with
three hidden layers of 64, d = 20 and n = 300, where rank 4 shows it; the source has three of 256,
d = 100 and n = 1000.

Source: zhu · optimizers · Fig. 4.11, Table C.1.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, median_at_least, median_at_most
from theorylab.data import polynomial_agop
from theorylab.data.polynomials import Rank
from theorylab.experiments.drawing import COLOURS, label_axes, panels
from theorylab.fields import Count, Several
from theorylab.numerics import rank_correlations, spearman
from theorylab.progress import report
from theorylab.training import Batches, gradient_descent, torch_optimizer
from theorylab.training.torch_optimizers import TorchOptimizer, select_optimizer
from theorylab.typing import Measured, Scalar

from . import _polynomials as polynomials
from ._polynomials import CORNER, NOT_KEPT, PolynomialConfig, PolynomialTraining

PRECISION = "float32"
FORMULA = r"\rho_S(L_{\rm test}, \cos(G, G^*)) \le -0.7"

RANKING = Source("zhu", "optimizers", "Fig. 4.11, Table C.1")
OTHER = Source("zhu", "optimizers", "Fig. 4.11b, rank 3")
STRONGLY = "the AGOP alignment strongly correlates with the test performance"

# As in Table C.1, but for gradient descent, which comes last: it is SGD on all samples at once.
NAMES = ("SGD", "SGD+M", "Adadelta", "Adagrad", "RMSprop", "Adam", "GD")
METHODS: tuple[TorchOptimizer, ...] = ("sgd", "momentum", "adadelta", "adagrad", "rmsprop", "adam")
OTHER_RANK: Rank = 3
TABLE: dict[Rank, tuple[float, ...]] = {  # learning rates by rank
    2: (2.0, 2.0, 2.0, 0.1, 0.01, 0.01, 2.0),
    3: (2.0, 2.0, 2.0, 0.01, 0.01, 0.001, 2.0),
    4: (1.0, 1.0, 1.0, 0.005, 0.001, 0.001, 1.0),
}


@dataclass(frozen=True)
class Config(PolynomialConfig):
    """Seven optimisers on a polynomial of few of the inputs."""

    dimension: Count = 40  # of the inputs, d
    num_train: Count = 600  # training samples, n
    num_test: Count = 1000  # test samples, and as many validation samples
    widths: Several[Count] = (256,)  # of the hidden layers
    batch_size: Count = 100  # of all but gradient descent
    gradient_descent: bool = True  # whether to run it too, which takes most of the time
    max_steps: Count = 6000  # after which a run ends anyway
    check_every: Count = 50  # steps from one look at the losses to the next
    num_others: Count = 12  # data and networks for rank 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size > self.num_train:
            raise ValueError(f"batch_size must be at most {self.num_train}, got {self.batch_size}.")
        if self.dimension < 10:
            raise ValueError(f"dimension must be at least 10 for rank 3, got {self.dimension}.")


PRESETS = {
    "smoke": Config(
        dimension=30,
        num_train=300,
        num_test=500,
        widths=(128,),
        batch_size=50,
        gradient_descent=False,
        max_steps=2000,
        num_others=6,
    ),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, widths=(1024,), max_steps=20000),
}


class Result(NamedTuple):
    """Axes: o optimisers, s seeds; p optimisers on batches and q seeds of rank 3."""

    runs: PolynomialTraining  # axes: optimisers, seeds
    misalignment: Float[Measured, "o s"]  # with inputs that do not matter
    other_test: Float[Measured, "p q"]  # of rank 3 over that of predicting 0, on batches
    other_alignment: Float[Measured, "p q"]


def memory(config: Config) -> int:
    """Bytes of the data and networks of all seeds."""
    return polynomials.bytes_of(config, config.num_seeds + 2 * config.num_others)


def run(config: Config) -> Result:
    """Train with every optimiser, from the same starts."""
    report("data and networks", 0.0)
    start_key, batch_key = jax.random.split(jax.random.key(config.seed))
    num_all = config.num_seeds + config.num_others
    starts, rest = _split(polynomials.begin_each(start_key, num_all, config), config)
    others = polynomials.with_ranks(rest, config, (OTHER_RANK,))
    report("six optimisers on batches", 0.05)
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), starts, others)
    rates = jnp.tile(jnp.array(TABLE[config.law])[:, None], (1, config.num_seeds))
    other_rates = jnp.tile(jnp.array(TABLE[OTHER_RANK][:-1])[:, None], (1, config.num_others))
    both_rates = jnp.concatenate([rates[:-1], other_rates], axis=1)
    which = jnp.tile(jnp.arange(len(METHODS))[:, None], (1, num_all))
    batch = Batches(config.batch_size)
    every = polynomials.learn_each(
        batch_key, both, both_rates, config, _optimizer, batch, False, (which,)
    )
    learned, other = _split(every, config, axis=1)
    if config.gradient_descent:
        report("gradient descent", 0.5)
        batch = Batches(config.num_train)
        last = polynomials.learn_each(
            batch_key, starts, rates[-1:], config, gradient_descent, batch, False
        )
        learned = jax.tree.map(lambda *parts: jnp.concatenate(parts), learned, last)
    rank_3 = np.asarray(polynomial_agop(OTHER_RANK, CORNER))
    return Result(
        runs=learned,
        misalignment=_elsewhere(learned, config.law),
        other_test=other.test / jnp.mean(others.test.y**2, axis=(1, 2))[None],
        other_alignment=polynomials.aligned_with(rank_3, other, config.law),
    )


def _split(records: Any, config: Config, axis: int = 0) -> tuple[Any, Any]:
    """The seeds of the polynomial itself, and those of rank 3."""
    halves = jax.tree.map(lambda leaf: tuple(jnp.split(leaf, [config.num_seeds], axis)), records)
    return jax.tree.transpose(jax.tree.structure(records), jax.tree.structure((0, 0)), halves)


def _optimizer(rate: Scalar, index: Int[Array, ""]) -> optax.GradientTransformation:
    """The optimiser with this number, chosen when it runs."""
    return select_optimizer([torch_optimizer(method, rate) for method in METHODS], index)


def _elsewhere(learned: PolynomialTraining, rank: Rank) -> np.ndarray:
    """cos(G, diag(0, …, 0, 1, …, 1, 0 …)), the alignment with inputs up to the tenth without use.

    All ten are of use to the polynomial of rank 3, which gives NaN.
    """
    useless = np.diagonal(np.asarray(polynomial_agop(rank, CORNER))) == 0
    if not useless.any():
        return np.full_like(learned.alignment, np.nan)
    return polynomials.aligned_with(np.diag(useless.astype(float)), learned, rank)


def _correlations(test: np.ndarray, alignment: np.ndarray) -> np.ndarray:
    """Spearman's correlation across optimisers, for every seed."""
    return rank_correlations(test.T, alignment.T)


def _means(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Test loss and alignment of every optimiser, in the mean over seeds."""
    return result.runs.test.mean(axis=1), result.runs.alignment.mean(axis=1)


CLAIMS = (
    RANKING.claim(
        "Across optimisers test loss and alignment are ranked oppositely, seed by seed.",
        lambda r, c: median_at_most(_correlations(r.runs.test, r.runs.alignment), -0.7),
        formula=r"\rho_S \le -0.7",
        quote=STRONGLY,
        demand="lab: strongly is −0.7 or below; all seeds of rank 2 had it",
    ),
    RANKING.claim(
        "Means over seeds are ranked oppositely as well.",
        lambda r, c: at_most(spearman(*_means(r)).estimate, -0.9),
        formula=r"\rho_S \le -0.9",
        quote=STRONGLY,
        demand=NOT_KEPT,
    ),
    RANKING.claim(
        "The means lie nearly on a line: Pearson's correlation is at most −0.9.",
        lambda r, c: at_most(np.corrcoef(*_means(r))[0, 1], -0.9),
        formula=r"r \le -0.9",
        quote=STRONGLY,
        demand=NOT_KEPT,
    ),
    RANKING.found(
        "Optimisers that fit equally well differ: the best test loss is 10 % below the worst.",
        lambda r, c: median_at_most(r.runs.test.min(axis=0) / r.runs.test.max(axis=0), 0.9),
        demand=NOT_KEPT,
    ),
    OTHER.claim(
        "On the polynomial of rank 3, too, test loss and alignment are ranked oppositely.",
        lambda r, c: median_at_most(_correlations(r.other_test, r.other_alignment), -0.7),
        formula=r"\rho_S \le -0.7",
        quote=STRONGLY,
        regime="num_others >= 12",
        expected="refuted",
        why="no optimiser learns rank 3 with one hidden layer at this size, nor with three of 64"
        " (d = 20, n = 300). The source has three of 256, d = 100 and n = 1000: hours on a CPU.",
        demand="lab: strongly is −0.7 or below, as for rank 2",
    ),
    OTHER.found(
        "The polynomial of rank 3 is not learned at this size: the best optimiser's test loss is"
        " above nine tenths of that of the prediction 0, in the median.",
        lambda r, c: median_at_least(r.other_test.min(axis=0), 0.9),
        demand="lab: on seed 101 (n = 300) the best test loss is 0.99 of it",
    ),
    RANKING.control(
        "Alignment with inputs that do not matter does not go with a smaller test loss.",
        lambda r, c: median_at_least(_correlations(r.runs.test, r.misalignment), 0.0),
    ),
    RANKING.check(
        "Most runs have fitted the data: at least four in five reached the training loss.",
        lambda r, c: at_least(np.mean(r.runs.reached), 0.8),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss over alignment, one point for every run."""
    figure, (axis,) = panels("one point for every run")
    runs = zip(NAMES, COLOURS, "osD^v<>", result.runs.alignment, result.runs.relative, strict=False)
    for name, colour, marker, alignment, relative in runs:
        axis.plot(alignment, relative, marker, color=colour, label=name)
    label_axes(axis, "alignment cos(G, G*)", "test loss / Var f*")
    axis.legend(fontsize=7)
    return figure
