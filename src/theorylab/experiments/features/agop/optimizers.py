"""Optimisers that find the right directions predict better: test loss falls with alignment.

Seven optimisers train the network of `features/agop/sgd` on x₁x₂ + noise until the training loss is
below 10⁻³: SGD on batches of 100, with momentum, gradient descent, Adadelta, Adagrad, RMSprop and
Adam, with learning rates that were not tuned to be best. Compared at the best validation loss, the
better the average gradient outer product G of a network is aligned with that of the truth, G*, the
smaller its test loss is: ranked across optimisers, the two are nearly opposite. Optimisers have
the settings of PyTorch (see `training.torch_optimizer`); momentum is 0.9, which the source does not
say.

The control is the alignment with eight inputs that do not matter: that must not go with a smaller
test loss. `rank` chooses the polynomials of ranks 3 and 4, with the table's learning rates for them
(the source's networks there have three hidden layers of 256); for rank 3 there is no such control.

The same inputs and networks learn the polynomial of rank 3 as well, with targets over their
deviation. At this size no optimiser learns it: the test loss stays at the variance, and there is no
such ranking. (Nor with three layers of 64, d = 20 and n = 300, where rank 4 shows it.)

Source: zhu · optimizers · Fig. 4.11, Table C.1.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_least,
    at_most,
    median_at_least,
    median_at_most,
    probability_at_most,
)
from theorylab.data import polynomial_agop
from theorylab.data.polynomials import Rank
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import COLOURS, panels
from theorylab.experiments.features.agop._other_ranks import aligned_with, with_ranks
from theorylab.experiments.features.agop._polynomials import (
    CORNER,
    PolynomialTask,
    PolynomialTraining,
    begin_each,
    bytes_of,
    learn_each,
)
from theorylab.models import mlp, network
from theorylab.numerics import rank_correlations, spearman
from theorylab.progress import report
from theorylab.training import Batches, Until, gradient_descent, torch_optimizer
from theorylab.training.torch_optimizers import TorchOptimizer, select_optimizer
from theorylab.typing import Scalar

PRECISION = "float32"
FORMULA = r"\rho_S(L_{\rm test}, \cos(G, G^*)) \le -0.7"

RANKING = Source("zhu", "optimizers", "Fig. 4.11, Table C.1")
OTHER = Source("zhu", "optimizers", "Fig. 4.11, rank 3")

# As in Table C.1, but for gradient descent, which comes last: it is SGD on all samples at once.
NAMES = ("SGD", "SGD+M", "Adadelta", "Adagrad", "RMSprop", "Adam", "GD")
METHODS: tuple[TorchOptimizer, ...] = ("sgd", "momentum", "adadelta", "adagrad", "rmsprop", "adam")
OTHER_RANK: Rank = 3
TABLE: dict[Rank, tuple[float, ...]] = {
    2: (2.0, 2.0, 2.0, 0.1, 0.01, 0.01, 2.0),
    3: (2.0, 2.0, 2.0, 0.01, 0.01, 0.001, 2.0),
    4: (1.0, 1.0, 1.0, 0.005, 0.001, 0.001, 1.0),
}


@dataclass(frozen=True)
class Config:
    """Seven optimisers on a polynomial of few of the inputs."""

    rank: int = 2  # which polynomial: 2, 3 or 4
    scaled: bool = False  # whether targets are divided by the deviation of the polynomial
    dimension: int = 40  # of the inputs, d
    num_train: int = 600  # training samples, n
    num_others: int = 1000  # validation samples, and test samples
    widths: tuple[int, ...] = (256,)  # of the hidden layers
    batch_size: int = 100  # of all but gradient descent
    learning_rates: tuple[float, ...] = ()  # seven, GD's the last; none: Table C.1's for the rank
    gradient_descent: bool = True  # whether to run it too, which takes most of the time
    target: float = 0.001  # the training loss at which a run ends
    max_steps: int = 6000  # after which it ends anyway
    check_every: int = 50  # steps from one look at the losses to the next
    num_seeds: int = 6  # data and networks, at least 6 to conclude
    num_other: int = 12  # the same for rank 3
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "num_train")
        given = self.learning_rates
        if given and (len(given) != len(NAMES) or not min(given) > 0):
            raise ValueError(
                f"learning_rates must be {len(NAMES)} positive numbers or none, got {given}."
            )
        if not 1 <= self.batch_size <= self.num_train:
            raise ValueError(f"batch_size must be in [1, {self.num_train}], got {self.batch_size}.")
        refuse_below(self, 1, "widths", "num_seeds", "num_other")
        if self.rank not in TABLE:
            raise ValueError(f"rank must be 2, 3 or 4, got {self.rank}.")
        refuse_below(self, 10, "dimension")
        _ = self.task, self.until  # they check the rest

    @property
    def task(self) -> PolynomialTask:
        """What is learned."""
        rank = cast(Rank, self.rank)
        return PolynomialTask(
            rank, self.dimension, self.num_train, self.num_others, scaled=self.scaled
        )

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates, as given or else the table's."""
        return self.learning_rates or TABLE[cast(Rank, self.rank)]

    @property
    def until(self) -> Until:
        """When a run ends."""
        return Until(self.target, self.max_steps, self.check_every)


PRESETS = {
    "smoke": Config(
        dimension=30,
        num_train=300,
        num_others=500,
        widths=(128,),
        batch_size=50,
        gradient_descent=False,
        max_steps=2000,
        num_other=6,
    ),
    "paper": Config(
        dimension=100, num_train=2000, num_others=5000, widths=(1024,), max_steps=20000
    ),
}


class Result(NamedTuple):
    """What was measured: axes optimisers, seeds."""

    test: Float[np.ndarray, "o s"]
    relative: Float[np.ndarray, "o s"]  # the test loss over Var f*
    alignment: Float[np.ndarray, "o s"]
    misalignment: Float[np.ndarray, "o s"]  # with inputs that do not matter
    loss: Float[np.ndarray, "o s"]  # of training, at the end
    reached: Bool[np.ndarray, "o s"]
    num_steps: Int[np.ndarray, "o s"]
    other_test: Float[np.ndarray, "p q"]  # of rank 3 over that of predicting 0, on batches
    other_alignment: Float[np.ndarray, "p q"]


def memory(config: Config) -> int:
    """Bytes of the data and networks of all seeds."""
    return bytes_of(config.task, config.widths, config.num_seeds + 2 * config.num_other)


def run(config: Config) -> Result:
    """Train with every optimiser, from the same starts."""
    report("data and networks", 0.0)
    task = config.task
    model = network(mlp(config.widths), (config.dimension,))
    start_key, batch_key = jax.random.split(jax.random.key(config.seed))
    every = begin_each(start_key, config.num_seeds + config.num_other, task, model)
    starts, rest = (
        jax.tree.map(lambda leaf, part=part: leaf[part], every)
        for part in (slice(config.num_seeds), slice(config.num_seeds, None))
    )
    report("six optimisers on batches", 0.05)
    rates = jnp.tile(jnp.array(config.rates)[:, None], (1, config.num_seeds))
    other_rates = jnp.tile(jnp.array(TABLE[OTHER_RANK][:-1])[:, None], (1, config.num_other))
    ends, batch = config.until, Batches(config.batch_size)
    others = with_ranks(rest, task, (OTHER_RANK,))
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), starts, others)
    both_rates = jnp.concatenate([rates[:-1], other_rates], axis=1)
    which = jnp.tile(jnp.arange(len(METHODS))[:, None], (1, both_rates.shape[1]))
    all_learned = learn_each(
        batch_key, both, both_rates, task, model, _optimizer, batch, ends, False, (which,)
    )
    learned, other = (
        jax.tree.map(lambda leaf, part=part: leaf[:, part], all_learned)
        for part in (slice(config.num_seeds), slice(config.num_seeds, None))
    )
    if config.gradient_descent:
        report("gradient descent", 0.5)
        batch = Batches(config.num_train)
        last = learn_each(
            batch_key, starts, rates[-1:], task, model, gradient_descent, batch, ends, False
        )
        learned = jax.tree.map(lambda *parts: jnp.concatenate(parts), learned, last)
    together = jax.tree.map(np.asarray, learned)
    return Result(
        test=together.test,
        relative=together.relative,
        alignment=together.alignment,
        misalignment=_elsewhere(together, task),
        loss=together.loss,
        reached=together.reached,
        num_steps=together.num_steps,
        other_test=np.asarray(other.test / jnp.mean(others.test.y**2, axis=(1, 2))[None]),
        other_alignment=aligned_with(np.asarray(polynomial_agop(OTHER_RANK, CORNER)), other, task),
    )


def _optimizer(rate: Scalar, index: Int[Array, ""]) -> optax.GradientTransformation:
    """The optimiser with this number, chosen when it runs."""
    return select_optimizer([torch_optimizer(method, rate) for method in METHODS], index)


def _elsewhere(learned: PolynomialTraining, task: PolynomialTask) -> np.ndarray:
    """cos(G, diag(0, …, 0, 1, …, 1, 0 …)), the alignment with inputs up to the tenth without use.

    All ten are of use to the polynomial of rank 3, which gives NaN.
    """
    useless = np.diagonal(np.asarray(polynomial_agop(task.rank, CORNER))) == 0
    if not useless.any():
        return np.full_like(learned.alignment, np.nan)
    return aligned_with(np.diag(useless.astype(float)), learned, task)


def _correlations(test: np.ndarray, alignment: np.ndarray) -> np.ndarray:
    """Spearman's correlation across optimisers, for every seed."""
    return rank_correlations(test.T, alignment.T)


def _ranked(test: np.ndarray, alignment: np.ndarray) -> tuple[int, int]:
    """How many seeds have a correlation of −0.7 or below, of how many."""
    correlations = _correlations(test, alignment)
    return int((correlations <= -0.7).sum()), len(correlations)


# Seed by seed −0.7 with its interval is asked; of the means over seeds −0.9, as in the catalogue.
# Of rank 3, seed 101 (n = 300), three of twelve seeds have −0.7, and the best test loss is 0.99 of
# that of the prediction 0. All seeds of rank 2 have −0.7; nine in ten is what six can tell from it.
CLAIMS = (
    Claim(
        "Across optimisers test loss and alignment are ranked oppositely, seed by seed.",
        judge=lambda r, c: median_at_most(_correlations(r.test, r.alignment), -0.7),
        source=RANKING,
        formula=r"\rho_S \le -0.7",
    ),
    Claim(
        "Means over seeds are ranked oppositely as well.",
        judge=lambda r, c: at_most(
            spearman(r.test.mean(axis=1), r.alignment.mean(axis=1)).estimate, -0.9
        ),
        source=RANKING,
        formula=r"\rho_S \le -0.9",
    ),
    Claim(
        "Their means lie nearly on a line: Pearson's correlation is as strong.",
        judge=lambda r, c: at_most(
            np.corrcoef(r.test.mean(axis=1), r.alignment.mean(axis=1))[0, 1], -0.9
        ),
        source=RANKING,
        formula=r"r \le -0.9",
    ),
    Claim(
        "Optimisers that fit equally well differ: the best test loss is 10 % below the worst.",
        judge=lambda r, c: median_at_most(r.test.min(axis=0) / r.test.max(axis=0), 0.9),
        source=RANKING,
    ),
    Claim(
        "The polynomial of rank 3 is not learned at this size: the best optimiser's test loss is"
        " above nine tenths of what the prediction 0 has, in the median.",
        judge=lambda r, c: median_at_least(r.other_test.min(axis=0), 0.9),
        source=OTHER,
    ),
    Claim(
        "There the ranking is not found in nearly every seed: in at most nine of ten.",
        judge=lambda r, c: probability_at_most(*_ranked(r.other_test, r.other_alignment), 0.9),
        source=OTHER,
    ),
    Claim(
        "Alignment with inputs that do not matter does not go with a smaller test loss.",
        judge=lambda r, c: median_at_least(_correlations(r.test, r.misalignment), 0.0),
        source=RANKING,
        kind="control",
    ),
    Claim(
        "Most runs have fitted the data: at least four in five reached the training loss.",
        judge=lambda r, c: at_least(np.mean(r.reached), 0.8),
        source=RANKING,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss over alignment, one point for every run."""
    figure, (axis,) = panels("one point for every run")
    markers = "osD^v<>"
    for index, (alignment, relative) in enumerate(
        zip(result.alignment, result.relative, strict=True)
    ):
        colour = COLOURS[index % len(COLOURS)]
        axis.plot(alignment, relative, markers[index], color=colour, label=NAMES[index])
    axis.set_xlabel("alignment cos(G, G*)")
    axis.set_ylabel("test loss / Var f*")
    axis.legend(fontsize=7)
    return figure
