"""A network that starts near zero learns features without any catapult.

With weights from N(0, σ²), σ = 0.1 in place of 1, the tangent kernel starts small and the weights
must travel far: features are learned from the beginning. That makes small initialisation the
reference for what catapults do to a network of ordinary scale. Both learn y = x₁x₂ + noise by
gradient descent, to the same training loss. The tangent kernel's critical rate n/λ_max(K) of the
small start is about 1/σ² times as large; but there the residuals' share of the Hessian, which does
not shrink with σ, decides how fast one may go. So without catapults η = 0.3 η_crit(t) by the exact
Hessian.

Source: zhu · near-zero-init · Fig. C.14; zhu · agop · Eqs 4.5–4.6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_least,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.data import Dataset, polynomial_agop
from theorylab.dynamics import critical_learning_rate, exact_critical_learning_rate
from theorylab.experiments.checks import refuse_below, refuse_nonpositive
from theorylab.experiments.drawing import panels
from theorylab.experiments.features.agop._catapult_descent import (
    LOSS,
    Measurement,
    measured_descent,
)
from theorylab.experiments.features.agop._polynomial_catapults import PATIENCE, catapulted, drawn
from theorylab.models import Model, mlp, network
from theorylab.progress import report
from theorylab.training import ensemble, follow_critical
from theorylab.typing import Params, Scalar

PRECISION = "float32"
FORMULA = r"w \sim N(0, \sigma^2), \quad \sigma = 0.1"

SMALL = Source("zhu", "near-zero-init", "Fig. C.14")
AGOP = Source("zhu", "agop", "Eq. 4.6")
CALM = 0.3  # η/η_crit without catapults
NUM_PRODUCTS = 12  # with the Hessian, for one critical rate


@dataclass(frozen=True)
class Config:
    """A small start, an ordinary start, and an ordinary start with catapults, on x₁x₂."""

    dimension: int = 30  # of the inputs, d
    num_train: int = 300  # training samples, n
    num_test: int = 1000  # test samples
    width: int = 256  # of the hidden layer
    weight_scale: float = 0.1  # σ of the small start
    num_raises: int = 6  # raises of the learning rate, for the ordinary start
    target: float = 0.01  # the training loss to reach
    max_steps: int = 12_000  # of gradient descent
    measure_every: int = 4  # steps from one measurement of η_crit to the next
    num_seeds: int = 24  # independent data and networks; six leave the first claim open
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 2, "dimension", "num_train", "num_test", "width", "max_steps")
        refuse_below(self, 1, "num_raises", "measure_every", "num_seeds")
        if not 0 < self.weight_scale < 1:
            raise ValueError(f"weight_scale must be in (0, 1), got {self.weight_scale}.")
        refuse_nonpositive(self, "target")


PRESETS = {
    "smoke": Config(
        dimension=12,
        num_train=120,
        num_test=300,
        width=64,
        num_raises=2,
        max_steps=1500,
        num_seeds=6,
    ),
    "paper": Config(
        dimension=100,
        num_train=2000,
        num_test=5000,
        width=1024,
        target=1e-3,
        max_steps=20_000,
        num_seeds=6,
    ),
}


class Result(NamedTuple):
    """What was measured, by seed: small start, ordinary start, ordinary start with catapults."""

    test: Float[np.ndarray, "3 s"]
    alignment: Float[np.ndarray, "3 s"]
    reached: Bool[np.ndarray, "3 s"]
    rate_ratio: Float[np.ndarray, " s"]  # η_crit(0) of the small start over that of the other
    weight_scale: float
    rises: Float[np.ndarray, " s"]  # largest loss of the small start over its first
    losses: Float[np.ndarray, "3 t"]  # training loss over time, first seed


def memory(config: Config) -> int:
    """Bytes of activations, data and the tangent kernel, for a seed on each of two cores."""
    samples = config.num_train + config.num_test
    return 2 * 4 * (6 * samples * (config.dimension + config.width) + 4 * config.num_train**2)


def run(config: Config) -> Result:
    """Descend in the three ways."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    scales = jnp.array([config.weight_scale, 1.0])
    report("small and ordinary start", 0.0)
    pairs = (jnp.concatenate([keys, keys]), jnp.repeat(scales, len(keys)))
    calm = ensemble(lambda pair: _descent(pair[0], pair[1], 0, config), pairs)
    report("ordinary start with catapults", 0.6)
    thrown = ensemble(lambda key: _descent(key, 1.0, config.num_raises, config), keys)
    small, ordinary = (
        jax.tree.map(lambda leaf, part=part: leaf[part], calm)
        for part in (slice(len(keys)), slice(len(keys), None))
    )
    found = (small, ordinary, thrown)
    losses = [np.asarray(one.losses) for one in found]
    rates = np.asarray(ensemble(lambda pair: _kernel_rate(pair[0], pair[1], config), pairs))
    return Result(
        test=np.stack([np.asarray(one.test) for one in found]),
        alignment=np.stack([np.asarray(one.alignment) for one in found]),
        reached=np.stack([np.asarray(one.reached) for one in found]),
        rate_ratio=rates[: len(keys)] / rates[len(keys) :],
        weight_scale=config.weight_scale,
        rises=np.nanmax(losses[0], axis=1) / losses[0][:, 0],
        losses=np.stack([loss[0] for loss in losses]),
    )


def _begin(
    key: Key[Array, ""], scale: Scalar, config: Config
) -> tuple[Model, Params, Dataset, Dataset]:
    """A network with its weights, training and test data."""
    data_key, init_key = jax.random.split(key)
    train, test = drawn(data_key, config.dimension, config.num_train, config.num_test)
    model = network(mlp([config.width]), (config.dimension,))
    # Only the weights are small, and not the factors 1/√fan-in beside them.
    return model, jax.tree.map(lambda w: scale * w, model.init(init_key)), train, test


def _kernel_rate(key: Key[Array, ""], scale: Scalar, config: Config) -> Array:
    """The critical rate at the start, by the tangent kernel."""
    model, params, train, _ = _begin(key, scale, config)
    return critical_learning_rate(model.apply, params, train, LOSS)


def _descent(key: Key[Array, ""], scale: Scalar, num_raises: int, config: Config) -> Measurement:
    model, params, train, test = _begin(key, scale, config)

    task = (model.apply, params, train, test, polynomial_agop(2, config.dimension))
    end = (config.target, config.max_steps)
    if num_raises > 0:
        return catapulted(*task, num_raises, *end)

    def exact(w: Params) -> Array:
        return exact_critical_learning_rate(model.apply, w, train, LOSS, key, NUM_PRODUCTS)

    calm = follow_critical(exact, CALM, config.measure_every)
    return measured_descent(*task, calm, *end, PATIENCE)


CLAIMS = (
    Claim(
        "A small start gives features at least as good as catapults do.",
        judge=lambda r, c: median_at_least(r.alignment[0] - r.alignment[2], -0.01),
        source=SMALL,
        formula=r"\cos_\sigma \ge \cos_k - 0.01",
    ),
    Claim(
        "Its test loss is at most 1.1 times that with catapults.",
        judge=lambda r, c: median_at_most(r.test[0] / r.test[2], 1.1),
        source=SMALL,
    ),
    Claim(
        "Both have better features than an ordinary start without catapults.",
        judge=lambda r, c: ordered(r.alignment[1], np.minimum(r.alignment[0], r.alignment[2])),
        source=SMALL,
    ),
    Claim(
        "The critical learning rate of the small start is about 1/σ² times as large.",
        judge=lambda r, c: median_between(r.rate_ratio * r.weight_scale**2, 0.8, 1.25),
        source=SMALL,
        formula=r"\eta_{crit}(\sigma) \approx \sigma^{-2} \eta_{crit}(1)",
    ),
    Claim(
        "The small start needs no catapult: its loss never rises by half.",
        judge=lambda r, c: median_at_most(r.rises, 1.5),
        source=SMALL,
        kind="control",
    ),
    Claim(
        "All runs are compared at the same training loss, which they all reach.",
        judge=lambda r, c: at_least(float(r.reached.mean()), 1.0),
        source=AGOP,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw training losses, test losses and alignments of the three."""
    figure, (loss, test, alignment) = panels("training loss", "test loss", "alignment cos(G, G*)")
    words = ("small start", "ordinary", "catapults")
    for name, losses in zip(words, result.losses, strict=True):
        loss.loglog(1 + np.arange(len(losses)), losses, label=name)
    loss.set_xlabel("step")
    loss.legend(fontsize=7)
    for axis, values in ((test, result.test), (alignment, result.alignment)):
        axis.plot(words, values, "o", color="C0")
    return figure
