"""Small batches find features in PyTorch's own parametrization too, not only in the tangent one.

The task of `features/agop_sgd`, y = x₁x₂ + noise, with the network as PyTorch makes it by default:
weights and biases begin uniform on ±1/√fan-in, and nothing is divided by a width. The critical
learning rate is then some hundred times smaller, and the two layers move differently; batches of 5
still end with a smaller test loss than batches of 50, and with better features.

`rank` chooses the polynomials of ranks 3 and 4, with targets over their deviation (with targets as
they are, rank 3 diverges). The claims, the critical rate among them, are made for rank 2. In single
small runs a network of one hidden layer did not order the batches of ranks 3 and 4; one of three
did for rank 4, at a larger rate than the source's and with some super-critical steps. Gradient
descent with catapults is there in this parametrization, too: `features/agop_gd` and
`features/catapults_by_rank` with `--parametrization torch`.

The control has a quarter of the learning rate. There no step is super-critical, and the test losses
of both batch sizes differ by less. (Learning rates of the source are matched to tasks by the order
of its panels only.)

Source: zhu · torch-param · C.9, C.18, C.20.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_most, median_at_least, median_between, ordered
from theorylab.data import Rank
from theorylab.experiments.batch_sizes import (
    by_batch_size,
    learn_by_batch_size,
    refuse_batch_sizes,
)
from theorylab.experiments.checks import refuse_below, refuse_nonpositive
from theorylab.experiments.drawing import panels
from theorylab.features import Task, bytes_of, network_in
from theorylab.training import Until

PRECISION = "float32"
FORMULA = r"W_{ij}, b_i \sim U(-1/\sqrt{\text{fan-in}},\ 1/\sqrt{\text{fan-in}})"

ORDER = Source("zhu", "torch-param", "C.20")

CALM_RATE, CATAPULT_RATE = 0, 1  # along the axis of learning rates


@dataclass(frozen=True)
class Config:
    """SGD on x₁x₂ in PyTorch's parametrization, with two batch sizes and two learning rates."""

    rank: int = 2  # which polynomial: 2, 3 or 4
    dimension: int = 100  # of the inputs, d
    num_train: int = 2000  # training samples, n
    num_others: int = 5000  # validation samples, and test samples
    widths: tuple[int, ...] = (1024,)  # of the hidden layers
    batch_sizes: tuple[int, ...] = (5, 50)  # two, increasing
    learning_rate: float = 0.01  # of the source
    calm_part: float = 0.25  # the learning rate of the control, as a part of it
    target: float = 0.001  # the training loss at which a run ends
    max_steps: int = 100000  # after which it ends anyway
    check_every: int = 400  # steps from one look at the losses to the next
    num_seeds: int = 6  # data and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "num_train")
        refuse_batch_sizes(self.batch_sizes, self.num_train, exactly_two=True)
        refuse_nonpositive(self, "learning_rate")
        if not 0 < self.calm_part < 1:
            raise ValueError(f"calm_part must be in (0, 1), got {self.calm_part}.")
        refuse_below(self, 1, "widths", "num_seeds")
        if self.rank not in (2, 3, 4):
            raise ValueError(f"rank must be 2, 3 or 4, got {self.rank}.")
        _ = self.task, self.until  # they check the rest

    @property
    def task(self) -> Task:
        """What is learned."""
        rank = cast(Rank, self.rank)
        return Task(rank, self.dimension, self.num_train, self.num_others, scaled=True)

    @property
    def until(self) -> Until:
        """When a run ends."""
        return Until(self.target, self.max_steps, self.check_every)


PRESETS = {
    "smoke": Config(
        dimension=30,
        num_train=300,
        num_others=500,
        widths=(256,),
        learning_rate=0.03,  # the critical one is larger, as the network is narrower
        target=0.003,
        check_every=100,
    ),
    "paper": Config(num_seeds=10),
}


class Result(NamedTuple):
    """What was measured: axes learning rates (calm, source), batch sizes, seeds."""

    batch_sizes: Int[np.ndarray, " b"]
    learning_rates: Float[np.ndarray, " r"]
    critical_rates: Float[np.ndarray, " s"]  # of the whole training set, at the start
    test: Float[np.ndarray, "r b s"]
    relative: Float[np.ndarray, "r b s"]  # the test loss over Var f*
    alignment: Float[np.ndarray, "r b s"]
    num_supercritical: Int[np.ndarray, "r b s"]  # super-critical steps
    num_steps: Int[np.ndarray, "r b s"]
    loss: Float[np.ndarray, "r b s"]  # of training, at the end
    target: float


def memory(config: Config) -> int:
    """Bytes of the data and networks of all seeds."""
    return bytes_of(config.task, config.widths, config.num_seeds)


def run(config: Config) -> Result:
    """Train with both batch sizes at both rates, from the same starts."""
    learning_rates = config.learning_rate * np.array([config.calm_part, 1.0])
    critical_rates, learned = learn_by_batch_size(
        config.seed,
        config.num_seeds,
        config.task,
        network_in("torch", config.widths, config.dimension),
        config.batch_sizes,
        config.until,
        lambda critical: (
            jnp.asarray(learning_rates, critical.dtype)[:, None] + jnp.zeros_like(critical)[None]
        ),
    )
    return Result(
        batch_sizes=np.array(config.batch_sizes),
        learning_rates=learning_rates,
        critical_rates=critical_rates,
        test=learned.test,
        relative=learned.relative,
        alignment=learned.alignment,
        num_supercritical=learned.num_supercritical,
        num_steps=learned.num_steps,
        loss=learned.loss,
        target=config.target,
    )


def _gap(values: np.ndarray) -> np.ndarray:
    """Seed by seed, what the larger batch has more, as a part of what the smaller has."""
    return values[1] / values[0] - 1


# Orders are the catalogue's; the test losses of the control may differ a third of what they do.
CLAIMS = (
    Claim(
        "Small batches have the smaller test loss, seed by seed.",
        judge=lambda r: ordered(*r.test[CATAPULT_RATE]),
        source=ORDER,
    ),
    Claim(
        "Small batches have the better aligned features, seed by seed.",
        judge=lambda r: ordered(*r.alignment[CATAPULT_RATE][::-1]),
        source=ORDER,
    ),
    Claim(
        "Small batches have more super-critical steps, seed by seed.",
        judge=lambda r: ordered(*r.num_supercritical[CATAPULT_RATE][::-1]),
        source=ORDER,
    ),
    Claim(
        "The critical learning rate is 50 to 1000 times smaller than the tangent network's 6.",
        judge=lambda r: median_between(r.critical_rates, 0.006, 0.12),
        source=ORDER,
    ),
    Claim(
        "At a quarter of that rate no step is super-critical, in any run.",
        judge=lambda r: at_most(r.num_supercritical[CALM_RATE].max(), 0),
        source=ORDER,
        kind="control",
    ),
    Claim(
        "At a quarter of that rate the batch size changes the test loss at most a third as much.",
        judge=lambda r: median_at_least(
            _gap(r.test[CATAPULT_RATE]) / 3 - np.abs(_gap(r.test[CALM_RATE])), 0.0
        ),
        source=ORDER,
        kind="control",
    ),
    Claim(
        "All runs are compared at one training loss: each has fallen below it.",
        judge=lambda r: at_most(r.loss.max(), r.target),
        source=ORDER,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """Test loss, alignment and super-critical steps of both sizes, at both rates."""
    figure, axes = panels("test loss / Var f*", "alignment cos(G, G*)", "super-critical steps")
    measures = (result.relative, result.alignment, result.num_supercritical)
    labels = [f"η = {rate:g}" for rate in result.learning_rates]
    by_batch_size(axes, result.batch_sizes, measures, labels)
    return figure
