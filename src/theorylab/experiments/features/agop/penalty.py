"""A penalty on the AGOP shrinks a network's features without improving them.

A two-layer network learns y = x₁x₂ + noise from inputs of which only two matter. Its features are
its average gradient outer product G. Good features go with good predictions, so one may ask whether
a penalty on G helps: on its trace, or on ‖G‖_F. Here both are tried, with several strengths, to the
same small training loss. G does become smaller. But gradients are penalized only at the training
inputs, and ‖G‖_F is least, for a given trace, when G is the same in all directions: the features
end further from the target's, and the test loss is no better. The source expects that a constraint
on the norm of G improves the generalization, and has no result.

Beside it, the neural feature ansatz: training makes the weights' own matrix WWᵀ of the first layer
like G. Random weights have a cosine with G already, as both are near a multiple of I; without that
multiple they have little, and trained ones much.

Source: zhu · ext-* · Ch. 5.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, median_at_least, median_at_most, ordered
from theorylab.data import low_rank_polynomial, polynomial_agop
from theorylab.experiments.drawing import THEORY, curves, label_axes, medians, panels
from theorylab.features import agop, agop_alignment, neural_feature_ansatz, penalized
from theorylab.fields import Plural, Positive, Seeded, Several
from theorylab.models import mlp, network
from theorylab.progress import report
from theorylab.training import empirical_risk, ensemble, squared
from theorylab.typing import Measured, Params, RandomKey

PRECISION = "float32"
FORMULA = r"L(w) + \alpha\,\mathrm{tr}\,G(w) + \beta\,\|G(w)\|_F, \qquad WW^T \propto G"

PENALTY = Source("zhu", "ext-*", "Ch. 5, regularization by the AGOP")
ANSATZ = Source("zhu", "ext-*", "Ch. 5, neural feature ansatz")

TRACE, FROBENIUS = range(2)  # along the axis of penalties
FITTED = 0.02  # the training loss that all runs must be below, twice the noise


@dataclass(frozen=True)
class Config(Seeded):
    """Adam on x₁x₂ with penalties on the average gradient outer product."""

    num_seeds: Plural = 8  # data and networks, at least 6 to conclude
    dimension: Plural = 20  # of the inputs, d
    num_train: Plural = 200  # training samples, n
    num_test: Plural = 1000  # test samples
    width: Plural = 128  # of the hidden layer
    strengths: Several[Positive] = (0.01, 0.03, 0.1)  # α or β, increasing
    learning_rate: Positive = 0.05  # of Adam
    num_steps: Plural = 1500  # of full gradients

    def __post_init__(self) -> None:
        super().__post_init__()
        if tuple(sorted(set(self.strengths))) != self.strengths:
            raise ValueError(f"strengths must increase, got {self.strengths}.")


PRESETS = {
    "smoke": Config(
        dimension=10,
        num_train=100,
        num_test=400,
        width=64,
        strengths=(0.1,),
        num_steps=800,
        num_seeds=12,
    ),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, width=1024, num_steps=4000),
}


class Network(NamedTuple):
    """Networks at the end, and before; axes in front: seeds, or penalties, strengths, seeds."""

    train: Float[Measured, "*s"]  # loss
    test: Float[Measured, "*s"]
    alignment: Float[Measured, "*s"]  # cos(G, G*)
    trace: Float[Measured, "*s"]  # tr G
    cosine: Float[Measured, "*s 2"]  # cos(WWᵀ, G) before and after
    correlation: Float[Measured, "*s 2"]  # the same without multiples of I


class Result(NamedTuple):
    """What was measured."""

    free: Network  # without a penalty
    penalized: Network


def run(config: Config) -> Result:
    """Train without a penalty and with both, from the same starts."""
    strengths = np.asarray(config.strengths)
    penalties = np.concatenate([[[0.0, 0.0]], np.kron(np.eye(2), strengths[:, None])])
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report(f"{len(penalties)} penalties, {len(keys)} seeds", 0.0)
    given = (jnp.tile(keys, len(penalties)), jnp.repeat(jnp.asarray(penalties), len(keys), axis=0))
    found = ensemble(lambda pair: _train(*pair, config=config), given)
    num_free = config.num_seeds
    return Result(
        free=jax.tree.map(lambda leaf: leaf[:num_free], found),
        penalized=jax.tree.map(
            lambda leaf: leaf[num_free:].reshape(2, len(strengths), num_free, *leaf.shape[1:]),
            found,
        ),
    )


def _train(key: RandomKey, penalty: Float[Array, " 2"], config: Config) -> Network:
    """One network, with the penalties α and β."""
    data_key, init_key = jax.random.split(key)
    total = config.num_train + config.num_test
    data = low_rank_polynomial(data_key, total, config.dimension)
    train, test = data.split(config.num_train)
    model = network(mlp([config.width]), (config.dimension,))
    params = model.init(init_key)
    risk = empirical_risk(squared("mean"), model.apply)
    objective = penalized(risk, model.apply, penalty[TRACE], penalty[FROBENIUS])
    optimizer = optax.adam(config.learning_rate)

    def step(state: tuple[Params, optax.OptState], _: None):
        weights, memory = state
        slope = jax.grad(objective)(weights, train.x, train.y)
        update, memory = optimizer.update(slope, memory)
        return (optax.apply_updates(weights, update), memory), None

    start = (params, optimizer.init(params))
    (trained, _), _ = jax.lax.scan(step, start, length=config.num_steps)
    features = agop(model.apply, trained, train.x)
    reference = polynomial_agop(2, config.dimension).astype(features.dtype)
    layers = [
        next(iter(neural_feature_ansatz(model.apply, w, train.x).values()))
        for w in (params, trained)
    ]
    return Network(
        train=risk(trained, train.x, train.y),
        test=risk(trained, test.x, test.y),
        alignment=agop_alignment(features, reference),
        trace=jnp.trace(features),
        cosine=jnp.stack([layer.cosine for layer in layers]),
        correlation=jnp.stack([layer.correlation for layer in layers]),
    )


SEEN = "lab: bounds and directions are those of seeds 101 to 103"

CLAIMS = (
    PENALTY.claim(
        "A penalty on ‖G‖_F improves the generalization: with some strength the test loss is"
        " lower.",
        lambda r, c: ordered(r.penalized.test[FROBENIUS].min(axis=0), r.free.test),
        quote="promote the smoothness of the predictor hence improving the generalization",
        expected="refuted",
        why="gradients are penalized at the training inputs only, and ‖G‖_F is least where G is the"
        " same in all directions. The source proposes it, without an experiment.",
    ),
    PENALTY.found(
        "A penalty on the trace makes the trace smaller, in every network.",
        lambda r, c: ordered(r.penalized.trace[TRACE, -1], r.free.trace),
    ),
    PENALTY.found(
        "A penalty on ‖G‖_F makes the trace smaller, too.",
        lambda r, c: ordered(r.penalized.trace[FROBENIUS, -1], r.free.trace),
    ),
    PENALTY.found(
        "With the strongest penalty on ‖G‖_F the features are further from the target's.",
        lambda r, c: ordered(r.penalized.alignment[FROBENIUS, -1], r.free.alignment),
    ),
    PENALTY.found(
        "With the strongest penalty on ‖G‖_F the test loss is larger.",
        lambda r, c: ordered(r.free.test, r.penalized.test[FROBENIUS, -1]),
    ),
    PENALTY.found(
        "At equal strength, ‖G‖_F costs more alignment than the trace.",
        lambda r, c: ordered(*r.penalized.alignment[[FROBENIUS, TRACE], -1]),
    ),
    PENALTY.check(
        "All networks fit: their training losses are below twice the noise.",
        lambda r, c: at_most(max(each.train.max() for each in r), FITTED),
    ),
    ANSATZ.claim(
        "Training makes WWᵀ of the first layer like G: their correlation without I is above 0.4.",
        lambda r, c: median_at_least(r.free.correlation[:, 1], 0.4),
        formula=r"WW^T \propto G",
        quote="norm of the weights by the neural ansatz in [91]",
        demand=SEEN,
    ),
    ANSATZ.found(
        "It is larger than before training, network by network.",
        lambda r, c: ordered(r.free.correlation[:, 0], r.free.correlation[:, 1]),
    ),
    ANSATZ.control(
        "In random networks that correlation is below 0.5.",
        lambda r, c: median_at_most(r.free.correlation[:, 0], 0.5),
        demand=SEEN,
    ),
    ANSATZ.control(
        "A plain cosine does not tell: with I it is larger in random networks.",
        lambda r, c: ordered(r.free.correlation[:, 0], r.free.cosine[:, 0]),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss and alignment over the strength, and the ansatz before and after training."""
    figure, (test, alignment, ansatz) = panels(
        "test loss", "alignment cos(G, G*)", "WWᵀ and G of the first layer"
    )
    for axis, name in ((test, "test"), (alignment, "alignment")):
        values = getattr(result.penalized, name)
        named = {"penalty on tr G": values[TRACE].T, "penalty on ‖G‖_F": values[FROBENIUS].T}
        axis.axhline(float(np.median(getattr(result.free, name))), **THEORY, label="no penalty")
        curves(axis, config.strengths, named, "o-")
        label_axes(axis, "strength", logarithmic="x")
    named = {"cosine": result.free.cosine, "without I": result.free.correlation}
    medians(ansatz, ["random", "trained"], named, "o-")
    return figure
