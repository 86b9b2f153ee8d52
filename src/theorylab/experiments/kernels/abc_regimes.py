"""The regime of an abc-parametrization does not depend on the law of the initial weights.

For an MLP of width n, with W = n⁻ᵃ w, w ~ n⁻ᵇ D and the learning rate ηn⁻ᶜ, the exponents decide
whether training blows up (unstable), does nothing (trivial), follows a fixed kernel, or learns
features. Sixteen parametrizations, the NTK one, μP, the standard one and perturbations, are
trained with weights from four laws D of mean 0 and variance 1. The regime that the fitted
exponents of sizes and movements show is compared with the inequalities of `models.regime`, and
the movement of features with n⁻ʳ. A law without a variance, Student's t with one degree of freedom,
is no D: it makes the NTK parametrization unstable.

Source: golikov · abc-dichotomy · Def. 3.4.5, Thm 3.4.6.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Count, Increasing, Positive, Seeded
from theorylab.models import ABC, regime
from theorylab.models.parameters import Law, draw_weights
from theorylab.models.parametrization import Exponents
from theorylab.numerics import power_law_exponents
from theorylab.progress import report
from theorylab.training import ensemble, squared
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"W^l = n^{-a_l} w^l, \quad w^l_{\alpha\beta} \sim n^{-b_l} \mathcal{D}, \quad \eta n^{-c}"
)

DICHOTOMY = Source("golikov", "abc-dichotomy", "Thm 3.4.6")
DEFINITION = Source("golikov", "abc-dichotomy", "Def. 3.4.5")

LAWS: tuple[Law, ...] = ("normal", "uniform", "rademacher", "exponential")
HEAVY = len(LAWS)  # the place of Student's t with one degree of freedom, after the laws
UNSTABLE, TRIVIAL, KERNEL, FEATURES = range(4)
LOSS = squared("half_sum")
HALF = 0.125  # all exponents are multiples of ¼: half way between two of them

# Exponents a and b of the first, the second and the last layer, and c of the learning rate.
PARAMETRIZATIONS = {
    "NTK": ((0.0, 0.5, 0.5), (0.0, 0.0, 0.0), 0.0),
    "NTK, slower": ((0.0, 0.5, 0.5), (0.0, 0.0, 0.0), 0.25),
    "NTK, faster": ((0.0, 0.5, 0.5), (0.0, 0.0, 0.0), -0.5),
    "NTK, small output": ((0.0, 0.5, 0.75), (0.0, 0.0, 0.0), 0.0),
    "NTK, large output": ((0.0, 0.5, 0.5), (0.0, 0.0, -0.25), 0.0),
    "NTK, small hidden": ((0.0, 0.5, 0.5), (0.0, 0.25, 0.0), 0.0),
    "between NTK and μP": ((-0.25, 0.25, 0.5), (0.25, 0.25, 0.25), 0.0),
    "μP": ((-0.5, 0.0, 0.5), (0.5, 0.5, 0.5), 0.0),
    "μP, shifted": ((-0.25, 0.25, 0.75), (0.25, 0.25, 0.25), -0.5),
    "μP, slower": ((-0.5, 0.0, 0.5), (0.5, 0.5, 0.5), 0.25),
    "μP, faster": ((-0.5, 0.0, 0.5), (0.5, 0.5, 0.5), -0.5),
    "μP, slow output": ((-0.5, 0.0, 0.75), (0.5, 0.5, 0.25), 0.0),
    "μP, large inputs": ((-0.5, 0.0, 0.5), (0.25, 0.5, 0.5), 0.0),
    "μP, large hidden": ((-0.5, 0.0, 0.5), (0.5, 0.25, 0.5), 0.0),
    "standard over n": ((0.0, 0.0, 0.0), (0.0, 0.5, 0.5), 1.0),
    "standard over √n": ((0.0, 0.0, 0.0), (0.0, 0.5, 0.5), 0.5),
}


@dataclass(frozen=True)
class Config(Seeded):
    """Tanh networks with two hidden layers in many parametrizations, by several laws."""

    widths: Increasing[Count] = (32, 64, 128, 256)  # width n of both hidden layers
    dimension: Count = 4  # inputs d
    num_samples: Count = 4  # training inputs
    num_steps: Count = 2  # of gradient descent on all of them
    learning_rate: Positive = 0.1  # η
    num_seeds: Count = 24  # networks of each parametrization, law and width


PRESETS = {
    "smoke": Config(widths=(32, 128), num_seeds=6),
    "paper": Config(widths=(64, 128, 256, 512, 1024, 2048), num_seeds=100),
}


class Sizes(NamedTuple):
    """Root mean squares over units and inputs."""

    first: Float[Array, "..."]  # pre-activations of the first hidden layer, before training
    second: Float[Array, "..."]  # of the second
    output: Float[Array, "..."]  # of the output, for random signs of the last weights
    moved: Float[Array, "..."]  # the second layer's largest movement from the start in training
    output_moved: Float[Array, "..."]  # and the output's


class Result(NamedTuple):
    """Axes: p parametrizations, l laws (the last one is no D), w widths."""

    sizes: Sizes  # (p, l, w), root mean squares over networks too
    predicted: Int[np.ndarray, " p"]  # regime by the inequalities
    feature_exponent: Float[np.ndarray, " p"]  # r; features move as n⁻ʳ


def run(config: Config) -> Result:
    """Train networks in every parametrization, from every law, at every width."""
    report("networks", 0.0)
    for_data, for_networks = jax.random.split(jax.random.key(config.seed))
    x = jax.random.normal(for_data, (config.num_samples, config.dimension))
    # Larger than initial outputs, so that the first step does not depend much on these.
    y = jnp.where(jnp.arange(config.num_samples) % 2 == 0, 3.0, -3.0)
    exponents = jnp.asarray([[*a, *b, c] for a, b, c in PARAMETRIZATIONS.values()])
    shape = (len(exponents), HEAVY + 1, len(config.widths), config.num_seeds)
    which, law, place, _ = (axis.ravel() for axis in jnp.indices(shape))
    widths = jnp.asarray(config.widths, x.dtype)[place]
    keys, widest = jax.random.split(for_networks, len(which)), config.widths[-1]

    def one(given: tuple[Array, Array, Array, RandomKey]) -> Sizes:
        exponents, law, width, key = given
        shapes = [(x.shape[1], widest), (widest, widest), (widest, 1)]
        draws = [partial(_draw, shapes, name) for name in (*LAWS, "heavy")]
        return _sizes(jax.lax.switch(law, draws, key), x, y, exponents, width, config)

    found = ensemble(one, (exponents[which], law, widths, keys))
    regimes = [regime(_abc(each)) for each in PARAMETRIZATIONS.values()]
    return Result(
        sizes=jax.tree.map(lambda v: jnp.sqrt((v.reshape(shape) ** 2).mean(axis=3)), found),
        predicted=np.array(
            [_named(each.stable, each.nontrivial, each.learns_features) for each in regimes]
        ),
        feature_exponent=np.array([each.feature_exponent for each in regimes]),
    )


def _abc(exponents: tuple[tuple[float, ...], tuple[float, ...], float]) -> ABC:
    a, b, c = exponents
    return ABC(*(Exponents(*pair, c) for pair in zip(a, b, strict=True)))


def _draw(
    shapes: list[tuple[int, int]], law: Law | Literal["heavy"], key: RandomKey
) -> list[Float[Array, "..."]]:
    keys = jax.random.split(key, len(shapes))
    if law == "heavy":
        return [jax.random.t(key, 1.0, shape) for key, shape in zip(keys, shapes, strict=True)]
    return [draw_weights(key, shape, law) for key, shape in zip(keys, shapes, strict=True)]


def _sizes(
    draws: list[Float[Array, "..."]],
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    exponents: Float[Array, " 7"],
    width: Float[Array, ""],
    config: Config,
) -> Sizes:
    """Train the network of the first units; those beyond the width are at rest."""
    a, b, c = exponents[:3], exponents[3:6], exponents[6]
    units = jnp.arange(config.widths[-1]) < width
    start = [width ** -b[layer] * draw for layer, draw in enumerate(draws)]

    def layers(weights: list[Array]) -> tuple[Array, Array, Array]:
        first, second, last = (width ** -a[layer] * w for layer, w in enumerate(weights))
        h1 = jnp.where(units, x @ first / x.shape[1] ** 0.5, 0.0)
        h2 = jnp.where(units, jnp.tanh(h1) @ second, 0.0)
        return h1, h2, (jnp.tanh(h2) @ last)[:, 0]

    def step(weights: list[Array], _) -> tuple[list[Array], tuple[Array, Array]]:
        slopes = jax.grad(lambda weights: LOSS(layers(weights)[2][:, None], y[:, None]))(weights)
        rate = config.learning_rate * width**-c
        weights = [w - rate * slope for w, slope in zip(weights, slopes, strict=True)]
        hidden, outputs = layers(weights)[1:]
        return weights, (_size(hidden - h2, width), _size(outputs - before))

    h1, h2, before = layers(start)
    _, (moved, output_moved) = jax.lax.scan(step, start, length=config.num_steps)
    signed = jnp.tanh(h2) ** 2 @ (width ** -a[2] * start[2]) ** 2
    return Sizes(
        first=_size(h1, width),
        second=_size(h2, width),
        output=jnp.sqrt(jnp.mean(signed)),
        moved=moved.max(),
        output_moved=output_moved.max(),
    )


def _size(values: Array, width: Array | None = None) -> Float[Array, ""]:
    """The root mean square; zeros of units at rest do not count."""
    per_unit = 1.0 if width is None else values.shape[-1] / width
    return jnp.sqrt(per_unit * jnp.mean(values**2))


def _named(stable: bool, nontrivial: bool, learns: bool) -> int:
    """The regime as a number."""
    if not stable:
        return UNSTABLE
    return TRIVIAL if not nontrivial else FEATURES if learns else KERNEL


def measured_exponents(sizes: Sizes, widths: tuple[int, ...]) -> Sizes:
    """Fit the exponents in the width, for every parametrization and law."""

    def fitted(values: Float[np.ndarray, "p l w"]) -> Float[np.ndarray, "p l"]:
        flat = power_law_exponents(np.asarray(widths), values.reshape(-1, len(widths)))
        return flat.reshape(values.shape[:2])

    return jax.tree.map(lambda values: fitted(np.asarray(values, float)), sizes)


def measured_regimes(result: Result, config: Config) -> Int[np.ndarray, "p l"]:
    """What the exponents show: sizes that neither grow nor vanish, and what moves by Θ(1)."""
    first, second, output, moved, output_moved = measured_exponents(result.sizes, config.widths)
    started = (np.abs(first) < HALF) & (np.abs(second) < HALF) & (output < HALF)
    stable = started & (moved < HALF) & (output_moved < HALF)
    nontrivial = output_moved > -HALF
    kinds = [~stable, ~nontrivial, moved < -HALF]
    return np.select(kinds, [UNSTABLE, TRIVIAL, KERNEL], FEATURES)


def _mistaken(result: Result, config: Config) -> int:
    """How many pairs of parametrization and law are not in the regime of the inequalities."""
    found = measured_regimes(result, config)[:, :HEAVY]
    return int(np.sum(found != result.predicted[:, None]))


def _exponent_errors(result: Result, config: Config) -> Float[np.ndarray, "q l"]:
    """|p + r| of the parametrizations that train, for features that move as nᵖ."""
    trains = result.predicted >= KERNEL
    moved = measured_exponents(result.sizes, config.widths).moved[trains, :HEAVY]
    return np.abs(moved + result.feature_exponent[trains, None])


CLAIMS = (
    DICHOTOMY.claim(
        "Every parametrization is in one regime for all four laws of the initial weights.",
        lambda r, c: at_most(np.ptp(measured_regimes(r, c)[:, :HEAVY], axis=1).max(), 0),
        quote="is in feature learning (resp. kernel/stable/nontrivial) regime iff it is so for",
        regime="num_seeds >= 24 and max(widths) >= 256",
        demand="source",
    ),
    DICHOTOMY.claim(
        "That regime is the one of the inequalities in the exponents, in all 64 cases.",
        lambda r, c: at_most(_mistaken(r, c), 0),
        quote="Each category is characterized by some set of linear inequalities",
        regime="num_seeds >= 24 and max(widths) >= 256",
        demand="derived: exponents are multiples of ¼, so that ± ⅛ tells them apart",
    ),
    DICHOTOMY.found(
        "Where networks train, features move as n⁻ʳ, with the exponent to 0.15 for every law.",
        lambda r, c: at_most(_exponent_errors(r, c).max(), 0.15),
        formula=r"\Delta h^L \propto n^{-r}",
        regime="num_seeds >= 24 and max(widths) >= 256",
        demand="lab: chosen before a run; η, targets and c were set on seed 0",
    ),
    DICHOTOMY.check(
        "All four regimes are there, each of them twice at least.",
        lambda r, c: at_least(np.bincount(r.predicted, minlength=4).min(), 2),
    ),
    DEFINITION.control(
        "A law without a variance makes the NTK parametrization unstable.",
        lambda r, c: at_most(measured_regimes(r, c)[0, HEAVY], UNSTABLE),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the exponents of what moves, for every parametrization and law, and n⁻ʳ."""
    figure, (features, outputs) = panels("hidden layer: exponent", "output: exponent")
    exponents = measured_exponents(result.sizes, config.widths)
    places = np.arange(len(PARAMETRIZATIONS))
    for axis, values in ((features, exponents.moved), (outputs, exponents.output_moved)):
        for place, law in enumerate(LAWS):
            axis.plot(values[:, place], places, "o", markersize=3, label=law)
        axis.axvline(0.0, **THEORY)
        axis.set_yticks(places, PARAMETRIZATIONS, fontsize=6)
        label_axes(axis, "exponent of the width")
    trains = result.predicted >= KERNEL
    features.plot(-result.feature_exponent[trains], places[trains], "k|", label="−r")
    features.legend(fontsize=6)
    return figure
