"""A price on the size of a network's gradients shrinks its features, and does not improve them.

A two-layer network learns y = x₁x₂ + noise from inputs of which only two matter. What it looks at
is its average gradient outer product G. Good features go with good predictions, so one may ask
whether a price on G helps: on its trace, or on ‖G‖_F. Here both are tried, with several strengths,
to the same small training loss. G does become smaller. But gradients are only charged at the
training inputs, and ‖G‖_F is least, for a given trace, when G is the same in all directions: the
features end further from the target's, and the test loss is no better. The source asks the
question and has no answer to it.

Beside it, the neural feature ansatz: training makes the weights' own matrix WWᵀ of the first layer
like G. Random weights have a cosine with G already, as both are near a multiple of I; without that
multiple they have little, and trained ones much.

Source: zhu · ext-* · Ch. 5 (ext-agop-reg).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_most, median_at_least, median_at_most, ordered
from theorylab.data import low_rank_polynomial, polynomial_agop
from theorylab.experiments.checks import refuse_below, refuse_negative, refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features import agop, agop_alignment, neural_feature_ansatz, penalized
from theorylab.models import mlp, network
from theorylab.progress import report
from theorylab.training import empirical_risk, ensemble, squared
from theorylab.typing import Params, RandomKey

PRECISION = "float32"
FORMULA = r"L(w) + \alpha\,\mathrm{tr}\,G(w) + \beta\,\|G(w)\|_F, \qquad WW^T \propto G"

PRICE = Source("zhu", "ext-*", "Ch. 5, ext-agop-reg")
ANSATZ = Source("zhu", "ext-*", "Ch. 5, neural feature ansatz")

TRACE, FROBENIUS = range(2)  # kinds of prices


@dataclass(frozen=True)
class Config:
    """Adam on x₁x₂ with prices on the average gradient outer product."""

    dimension: int = 20  # of the inputs, d
    num_train: int = 200  # training samples, n
    num_test: int = 1000  # test samples
    width: int = 128  # of the hidden layer
    strengths: tuple[float, ...] = (0.01, 0.03, 0.1)  # α or β, increasing
    learning_rate: float = 0.05  # of Adam
    num_steps: int = 1500  # of full gradients
    fitted: float = 0.02  # the training loss that all runs must be below, twice the noise
    num_seeds: int = 8  # data and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        refuse_below(
            self, 2, "dimension", "num_train", "num_test", "width", "num_steps", "num_seeds"
        )
        rising = tuple(sorted(set(self.strengths)))
        if not self.strengths or rising != self.strengths or not self.strengths[0] > 0:
            raise ValueError(f"strengths must be positive and increase, got {self.strengths}.")
        refuse_nonpositive(self, "learning_rate", "fitted")


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


class Trained(NamedTuple):
    """One network at the end, and before."""

    train: Float[Array, ""]  # loss
    test: Float[Array, ""]
    alignment: Float[Array, ""]  # cos(G, G*)
    trace: Float[Array, ""]  # tr G
    cosine: Float[Array, " 2"]  # cos(WWᵀ, G) before and after
    correlation: Float[Array, " 2"]  # the same without multiples of I


class Result(NamedTuple):
    """Axes: s seeds, two kinds of prices (trace, Frobenius), p strengths; 2 before and after."""

    strengths: Float[np.ndarray, " p"]
    free_test: Float[np.ndarray, " s"]  # without a price
    free_alignment: Float[np.ndarray, " s"]
    free_trace: Float[np.ndarray, " s"]
    test: Float[np.ndarray, "2 p s"]
    alignment: Float[np.ndarray, "2 p s"]
    trace: Float[np.ndarray, "2 p s"]
    cosine: Float[np.ndarray, "s 2"]  # of the ansatz, without a price
    correlation: Float[np.ndarray, "s 2"]
    train: Float[np.ndarray, " r"]  # training losses of all runs
    fitted: float


def memory(config: Config) -> int:
    """Bytes of activations and Jacobians on each of two cores, a few times over."""
    samples = config.num_train + config.num_test
    return 2 * 4 * 12 * samples * (config.dimension + config.width)


def run(config: Config) -> Result:
    """Train without a price and with both, from the same starts."""
    strengths = np.asarray(config.strengths)
    prices = np.concatenate([[[0.0, 0.0]], np.kron(np.eye(2), strengths[:, None])])
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report(f"{len(prices)} prices, {len(keys)} seeds", 0.0)
    given = (jnp.tile(keys, len(prices)), jnp.repeat(jnp.asarray(prices), len(keys), axis=0))
    found = ensemble(lambda pair: _train(pair[0], pair[1], config), given)
    shape = (len(prices), len(keys))
    by_price = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]), found)
    free = jax.tree.map(lambda leaf: leaf[0], by_price)
    paid = jax.tree.map(lambda leaf: leaf[1:].reshape(2, -1, *leaf.shape[1:]), by_price)
    return Result(
        strengths=strengths,
        free_test=free.test,
        free_alignment=free.alignment,
        free_trace=free.trace,
        test=paid.test,
        alignment=paid.alignment,
        trace=paid.trace,
        cosine=free.cosine,
        correlation=free.correlation,
        train=by_price.train.ravel(),
        fitted=config.fitted,
    )


def _train(key: RandomKey, price: Float[Array, " 2"], config: Config) -> Trained:
    """One network, with the prices α and β."""
    data_key, init_key = jax.random.split(key)
    total = config.num_train + config.num_test
    data = low_rank_polynomial(data_key, total, config.dimension)
    train, test = data.split(config.num_train)
    model = network(mlp([config.width]), (config.dimension,))
    params = model.init(init_key)
    risk = empirical_risk(squared("mean"), model.apply)
    objective = penalized(risk, model.apply, price[TRACE], price[FROBENIUS])
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
    return Trained(
        train=risk(trained, train.x, train.y),
        test=risk(trained, test.x, test.y),
        alignment=agop_alignment(features, reference),
        trace=jnp.trace(features),
        cosine=jnp.stack([layer.cosine for layer in layers]),
        correlation=jnp.stack([layer.correlation for layer in layers]),
    )


# No result of the source stands behind these; directions and bounds are those of seeds 101 to 103.
CLAIMS = (
    Claim(
        "A price on the trace makes the trace smaller, in every network.",
        judge=lambda r, c: ordered(r.trace[TRACE, -1], r.free_trace),
        source=PRICE,
    ),
    Claim(
        "So does a price on ‖G‖_F.",
        judge=lambda r, c: ordered(r.trace[FROBENIUS, -1], r.free_trace),
        source=PRICE,
    ),
    Claim(
        "With the strongest price on ‖G‖_F the features are further from the target's.",
        judge=lambda r, c: ordered(r.alignment[FROBENIUS, -1], r.free_alignment),
        source=PRICE,
    ),
    Claim(
        "And the test loss is larger.",
        judge=lambda r, c: ordered(r.free_test, r.test[FROBENIUS, -1]),
        source=PRICE,
    ),
    Claim(
        "At equal strength, ‖G‖_F costs more alignment than the trace.",
        judge=lambda r, c: ordered(r.alignment[FROBENIUS, -1], r.alignment[TRACE, -1]),
        source=PRICE,
    ),
    Claim(
        "All networks fit: their training losses are below twice the noise.",
        judge=lambda r, c: at_most(r.train.max(), r.fitted),
        source=PRICE,
        kind="control",
    ),
    Claim(
        "Training makes WWᵀ of the first layer like G: their correlation without I is above 0.4.",
        judge=lambda r, c: median_at_least(r.correlation[:, 1], 0.4),
        source=ANSATZ,
        formula=r"WW^T \propto G",
    ),
    Claim(
        "It is larger than before training, network by network.",
        judge=lambda r, c: ordered(r.correlation[:, 0], r.correlation[:, 1]),
        source=ANSATZ,
    ),
    Claim(
        "In random networks that correlation is below 0.5.",
        judge=lambda r, c: median_at_most(r.correlation[:, 0], 0.5),
        source=ANSATZ,
        kind="control",
    ),
    Claim(
        "A plain cosine does not tell: with I it is larger in random networks.",
        judge=lambda r, c: ordered(r.correlation[:, 0], r.cosine[:, 0]),
        source=ANSATZ,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss and alignment over the price, and the ansatz before and after training."""
    figure, (test, alignment, ansatz) = panels(
        "test loss", "alignment cos(G, G*)", "WWᵀ and G of the first layer"
    )
    rows = (
        (test, result.test, result.free_test),
        (alignment, result.alignment, result.free_alignment),
    )
    for axis, values, free in rows:
        for kind, name in enumerate(("price on tr G", "price on ‖G‖_F")):
            middle = np.median(values[kind], axis=-1)
            axis.semilogx(result.strengths, middle, "o-", markersize=3, label=name)
        axis.axhline(float(np.median(free)), **THEORY, label="no price")
        axis.set_xlabel("strength")
        axis.legend(fontsize=7)
    for values, name in ((result.cosine, "cosine"), (result.correlation, "without I")):
        ansatz.plot(["random", "trained"], np.median(values, axis=0), "o-", label=name)
    ansatz.legend(fontsize=7)
    return figure
