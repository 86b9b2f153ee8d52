"""Trained to add modulo p, every neuron becomes a cosine, and together they have all frequencies.

A network with one hidden layer and the activation zᵏ learns all pᵏ sums of k numbers, by AdamW on
cross-entropy + λ‖θ‖. At the start each of its weight vectors has all frequencies; at the end each
has one, the k + 1 vectors of a neuron the same one, with phases that add up, and every frequency
belongs to some neurons. This is the network of maximum margin. The loss says so too: with this
penalty the least possible value is known, and is attained at the maximum margin whatever λ is.

With plain weight decay instead of the norm, on the same sums, the margin stays small: that is what
the norm is for. With the norm and half of the sums (`halved`), a network of this size learns its
examples by heart. Along smaller and smaller λ the margin grows to γ*. Both are of the first case.
Only live neurons count, those of at least a tenth of the largest norm; the mean of a vector is no
frequency; margins are over all sums, seen or not.

Source: shi · exp-polynet-fourier · Figs 4.1, 4.2, C.1–C.4; shi · fourier-meters · §4.5.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, holds, median_at_least, median_at_most, ordered
from theorylab.data import all_sums, split_sums
from theorylab.data.modular import Sums, num_sums
from theorylab.experiments.checks import refuse_below, refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.fourier import (
    AdditionRecipe,
    Neurons,
    NeuronSpectra,
    average_margin,
    frequency_counts,
    group_norm,
    initial_neurons,
    interpolated,
    learn_addition,
    least_penalized_loss,
    maximum_margin,
    neuron_spectra,
    normalized_margin,
    num_cosine_neurons,
    polynomial_network,
    scores,
    uniformity,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"u_i(a) \propto \cos(\theta_{u_i} + 2\pi\zeta a/p), \quad \sum_i \theta_{u_i} = \theta_w"

SPARSE = Source("shi", "exp-polynet-fourier", "Figs 4.1, 4.2, C.1–C.4")
THEOREM = Source("shi", "max-margin-value", "Theorem 4.9")
LIMIT = Source("shi", "margins", "Lemma 4.7")
RECIPE = Source("shi", "exp-polynet-fourier", "C.10.1, the regularisation")

IN_PHASE = 0.1  # the largest residual of phases that counts as adding up, in radians


@dataclass(frozen=True)
class Config:
    """Polynomial networks trained on sums, for several numbers of terms and moduli."""

    num_terms: tuple[int, ...] = (2, 3, 4)  # k, one for each case
    moduli: tuple[int, ...] = (13, 13, 7)  # p, one for each case
    fraction: float = 1.0  # of all sums that are trained on
    penalty: float = 0.05  # λ, in front of the norm
    path: tuple[float, ...] = (0.2, 0.05, 0.01)  # λ that falls, each from where the last one ended
    weight_decay: float = 0.005  # of the runs without the norm
    halved: float = 0.5  # of all sums, for one more case with the norm
    learning_rate: float = 0.005  # of AdamW
    batch_size: int = 0  # examples in a step; 0: all
    num_steps: int = 1500
    num_seeds: int = 6  # networks of each case, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 0, "batch_size")
        if len(self.num_terms) != len(self.moduli) or not self.num_terms:
            raise ValueError(
                "num_terms and moduli must be as many and not none, "
                f"got {self.num_terms} and {self.moduli}."
            )
        for terms, modulus in self.cases:
            maximum_margin(terms, modulus)  # refuses what has none
            num_sums(terms, modulus)
            if modulus < 5:
                raise ValueError(f"moduli must be at least 5, for two frequencies, got {modulus}.")
        refuse_nonpositive(self, "penalty", "path", "weight_decay", "learning_rate")
        if len(self.path) < 2 or np.any(np.diff(self.path) >= 0):
            raise ValueError(f"path must be two penalties or more that fall, got {self.path}.")
        for name in ("fraction", "halved"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {getattr(self, name)}.")
        refuse_below(self, 1, "num_steps", "num_seeds")

    @property
    def cases(self) -> list[tuple[int, int]]:
        """(k, p) of every case."""
        return list(zip(self.num_terms, self.moduli, strict=True))


# The source trains on half of the sums, with up to three days on an A100 for each network.
PRESETS = {
    "smoke": Config(num_terms=(2,), moduli=(7,), num_steps=800),
    "paper": Config(
        num_terms=(3, 4, 5),
        moduli=(97, 47, 23),
        fraction=0.5,
        penalty=0.005,
        batch_size=1024,
        num_steps=100000,
    ),
}


class Measured(NamedTuple):
    """What is measured about one trained network."""

    initial: Float[jax.Array, ""]  # mean concentration of live neurons before training
    mean: Float[jax.Array, ""]  # mean concentration of live neurons
    median: Float[jax.Array, ""]  # median
    agreement: Float[jax.Array, ""]  # part of live neurons with one frequency, and phases that add
    live: Float[jax.Array, ""]  # part of all neurons
    counts: Int[jax.Array, " f"]  # live neurons at every frequency
    margin: Float[jax.Array, ""]  # least, over γ*‖θ‖ᵏ⁺¹
    average: Float[jax.Array, ""]  # average margin, over the same
    loss: Float[jax.Array, ""]  # of training, with the penalty
    accuracy: Float[jax.Array, ""]  # on all sums
    before: Float[jax.Array, " w"]  # concentrations of all vectors of live neurons, before
    after: Float[jax.Array, " w"]  # and after training; NaN for those of dead neurons
    vector: Float[jax.Array, " p"]  # the first place's weights of the largest neuron


class Result(NamedTuple):
    """What was measured: axes cases (c), seeds (s). The figure is of the last case's first seed."""

    num_terms: Int[np.ndarray, " c"]
    moduli: Int[np.ndarray, " c"]
    initial: Float[np.ndarray, "c s"]
    mean: Float[np.ndarray, "c s"]
    median: Float[np.ndarray, "c s"]
    agreement: Float[np.ndarray, "c s"]
    live: Float[np.ndarray, "c s"]
    coverage: Float[np.ndarray, "c s"]
    p_value: Float[np.ndarray, "c s"]  # of equally many neurons at all frequencies
    imbalance: Float[np.ndarray, "c s"]  # most over fewest neurons at a frequency
    margin: Float[np.ndarray, "c s"]
    average: Float[np.ndarray, "c s"]
    excess: Float[np.ndarray, "c s"]  # the loss over the least possible one
    accuracy: Float[np.ndarray, "c s"]
    decayed: Float[np.ndarray, "c s"]  # mean concentration with weight decay only
    decayed_margin: Float[np.ndarray, "c s"]
    decayed_accuracy: Float[np.ndarray, "c s"]
    halved_margin: Float[np.ndarray, " s"]  # of the first case, with the norm and half of the sums
    path: Float[np.ndarray, "s l"]  # margins of the first case along the penalties
    counts: Int[np.ndarray, " f"]
    before: Float[np.ndarray, " w"]
    after: Float[np.ndarray, " w"]
    vector: Float[np.ndarray, " p"]
    curve: Float[np.ndarray, "2 t"]


def memory(config: Config) -> int:
    """Bytes of hidden and output layers on one batch, of two networks at once, with gradients."""
    sizes = [
        (config.batch_size or num_sums(*case)) * (num_cosine_neurons(*case) + case[1])
        for case in config.cases
    ]
    looked = max(4096 * (num_cosine_neurons(*case) + case[1]) for case in config.cases)
    listed = max(num_sums(*case) * (case[0] + 2) for case in config.cases)
    return 4 * 2 * (6 * max(sizes) + 2 * looked + 3 * listed)


def run(config: Config) -> Result:
    """Train every case with the norm and with weight decay, from the same starts."""
    penalized, decayed = [], []
    for place, (terms, modulus) in enumerate(config.cases):
        report(f"training on sums of {terms} terms modulo {modulus}", place / len(config.cases))
        key = jax.random.fold_in(jax.random.key(config.seed), place)
        penalized.append(_trained(key, (terms, modulus), config.fraction, config, decay=False))
        decayed.append(_trained(key, (terms, modulus), config.fraction, config, decay=True))
    report("half of the sums, and smaller penalties", 0.9)
    key = jax.random.fold_in(jax.random.key(config.seed), len(config.cases))
    halved = _trained(key, config.cases[0], config.halved, config, decay=False)
    counts = [np.asarray(case.counts) for case in penalized]
    optima = [least_penalized_loss(*case, config.penalty) for case in config.cases]
    last = jax.tree.map(lambda leaf: np.asarray(leaf[0]), penalized[-1])
    points = jnp.linspace(0.0, len(last.vector) - 1.0, 200)

    def each(name: str, runs: list[Measured]) -> np.ndarray:
        return np.stack([np.asarray(getattr(case, name)) for case in runs])

    return Result(
        num_terms=np.array(config.num_terms),
        moduli=np.array(config.moduli),
        initial=each("initial", penalized),
        mean=each("mean", penalized),
        median=each("median", penalized),
        agreement=each("agreement", penalized),
        live=each("live", penalized),
        coverage=np.stack([(case > 0).mean(axis=1) for case in counts]),
        p_value=np.array([[uniformity(row).p_value for row in case] for case in counts]),
        imbalance=np.stack([c.max(axis=1) / np.maximum(c.min(axis=1), 0.5) for c in counts]),
        margin=each("margin", penalized),
        average=each("average", penalized),
        excess=each("loss", penalized) / np.array(optima)[:, None],
        accuracy=each("accuracy", penalized),
        decayed=each("mean", decayed),
        decayed_margin=each("margin", decayed),
        decayed_accuracy=each("accuracy", decayed),
        halved_margin=np.asarray(halved.margin),
        path=np.asarray(_path(key, config)),
        counts=last.counts,
        before=last.before,
        after=last.after,
        vector=last.vector,
        curve=np.stack([points, interpolated(jnp.asarray(last.vector), points)]),
    )


def _trained(
    key: RandomKey, case: tuple[int, int], fraction: float, config: Config, decay: bool
) -> Measured:
    """Networks of all seeds, trained with the norm or with weight decay, and measured."""
    sums, width = all_sums(*case), num_cosine_neurons(*case)
    recipe = AdditionRecipe(
        learning_rate=config.learning_rate,
        penalty=0.0 if decay else config.penalty,
        weight_decay=config.weight_decay if decay else 0.0,
        batch_size=config.batch_size,
    )

    def one(key: RandomKey) -> Measured:
        start_key, split_key, batch_key = jax.random.split(key, 3)
        start = initial_neurons(start_key, *case, width)
        parts = (sums, sums) if fraction == 1 else split_sums(split_key, sums, fraction)
        steps = [config.num_steps]
        network = (polynomial_network, group_norm)
        trained = learn_addition(batch_key, *network, start, parts, recipe, steps)
        return _measured(start, trained.params, trained.records.loss[-1], sums)

    return ensemble(one, jax.random.split(key, config.num_seeds))


def _path(key: RandomKey, config: Config) -> Float[jax.Array, "s l"]:
    """Margins of the first case over γ*, each penalty from where the one before ended."""
    case, steps = config.cases[0], [config.num_steps]
    sums, width = all_sums(*case), num_cosine_neurons(*case)

    def one(key: RandomKey) -> Float[jax.Array, " l"]:
        start_key, batch_key = jax.random.split(key)

        def further(params: Neurons, penalty: jax.Array) -> tuple[Neurons, jax.Array]:
            recipe = AdditionRecipe(config.learning_rate, penalty, batch_size=config.batch_size)
            network = (polynomial_network, group_norm)
            trained = learn_addition(batch_key, *network, params, (sums, sums), recipe, steps)
            return trained.params, normalized_margin(trained.params) / maximum_margin(*case)

        start = initial_neurons(start_key, *case, width)
        return jax.lax.scan(further, start, jnp.array(config.path, start.output.dtype))[1]

    return ensemble(one, jax.random.split(key, config.num_seeds))


def _measured(start: Neurons, params: Neurons, loss: jax.Array, sums: Sums) -> Measured:
    """Spectra before and after, margins and accuracy of one network."""
    num_terms, modulus, _ = params.inputs.shape
    first, last = neuron_spectra(start), neuron_spectra(params)
    norms = (params.inputs**2).sum(axis=(0, 1))
    agrees = last.same & (last.residual < IN_PHASE) & last.live
    bound = maximum_margin(num_terms, modulus) * group_norm(params) ** (num_terms + 1)
    before, after = _live_powers(first), _live_powers(last)
    return Measured(
        initial=jnp.nanmean(before),
        mean=jnp.nanmean(after),
        median=jnp.nanmedian(after),
        agreement=agrees.sum() / last.live.sum(),
        live=last.live.mean(),
        counts=frequency_counts(last, modulus),
        margin=normalized_margin(params) / maximum_margin(num_terms, modulus),
        average=average_margin(params) / bound,
        loss=loss,
        accuracy=scores(polynomial_network, params, sums)[1],
        before=before,
        after=after,
        vector=params.inputs[0, :, norms.argmax()],
    )


def _live_powers(spectra: NeuronSpectra) -> jax.Array:
    """Concentrations of all vectors, NaN for those of dead neurons."""
    return jnp.ravel(jnp.where(spectra.live[None, :], spectra.concentration, jnp.nan))


def _growth(path: np.ndarray) -> np.ndarray:
    """The least growth of the margin from λ to λ, or how far it is above 0.98 γ*, by seed."""
    return np.maximum(np.diff(path), path[:, 1:] - 0.98).min(axis=1)


# Thresholds are the catalogue's, of full data and the norm; each seed counts with its worst case.
CLAIMS = (
    Claim(
        "The vectors of live neurons have 95 % of their power at one frequency, in the mean.",
        judge=lambda r, c: median_at_least(r.mean.min(axis=0), 0.95),
        source=SPARSE,
        formula=r"\max_j |\hat u(j)|^2 / \sum_j |\hat u(j)|^2 \ge 0.95",
    ),
    Claim(
        "Half of the vectors of live neurons have 99 % of their power at one frequency.",
        judge=lambda r, c: median_at_least(r.median.min(axis=0), 0.99),
        source=SPARSE,
    ),
    Claim(
        "Training concentrates the power: it was spread before, in every case and seed.",
        judge=lambda r, c: ordered(r.initial.max(axis=0) + 0.1, r.mean.min(axis=0)),
        source=SPARSE,
    ),
    Claim(
        "In 95 % of live neurons all vectors have one frequency, and their phases add up.",
        judge=lambda r, c: median_at_least(r.agreement.min(axis=0), 0.95),
        source=THEOREM,
    ),
    Claim(
        "Every frequency belongs to some neuron, in every network.",
        judge=lambda r, c: holds(r.coverage - 1),
        source=THEOREM,
    ),
    Claim(
        "Frequencies are used about equally: χ² does not reject at 1 %, or none 4 times another.",
        judge=lambda r, c: holds(np.maximum(r.p_value - 0.01, (4 - r.imbalance) / 100)),
        source=SPARSE,
    ),
    Claim(
        "The least margin over all sums is above 0.7 γ*.",
        judge=lambda r, c: median_at_least(r.margin.min(axis=0), 0.7),
        source=THEOREM,
    ),
    Claim(
        "No trained network has a margin above γ*, least or average, with norm or decay.",
        judge=lambda r, c: holds(
            1 - np.stack([r.margin, r.average, r.decayed_margin]), rounding=1e-5
        ),
        source=THEOREM,
    ),
    Claim(
        "The loss is within 2 % of the least one possible, which is that of the maximum margin.",
        judge=lambda r, c: median_at_most(r.excess.max(axis=0), 1.02),
        source=LIMIT,
        formula=r"\min_\theta L = \min_r \log(1 + (p-1) e^{-\gamma^* r^{k+1}}) + \lambda r",
    ),
    Claim(
        "No loss is below the least one possible.",
        judge=lambda r, c: holds(r.excess - 1, rounding=1e-5),
        source=LIMIT,
    ),
    Claim(
        "With every smaller λ the margin grows, until it is within 2 % of γ*.",
        judge=lambda r, c: median_at_least(_growth(r.path), 0.0),
        source=LIMIT,
        formula=r"\gamma_\lambda \to \gamma^*",
    ),
    Claim(
        "With weight decay in place of the norm, on the same sums, the margin is below 0.7 γ*.",
        judge=lambda r, c: median_at_most(r.decayed_margin.max(axis=0), 0.7),
        source=RECIPE,
        kind="control",
    ),
    Claim(
        "With the norm, but half of the sums, the margin over all of them is below 0.7 γ*.",
        judge=lambda r, c: median_at_most(r.halved_margin, 0.7),
        source=RECIPE,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Concentrations before and after, frequencies, one neuron, margins of all cases."""
    figure, axes = panels(
        "power at one frequency", "live neurons at each frequency", "one weight vector", "margins"
    )
    bins = np.linspace(0.0, 1.0, 41).tolist()
    for powers, label in ((result.before, "before training"), (result.after, "after")):
        axes[0].hist(powers[np.isfinite(powers)], bins=bins, alpha=0.7, label=label)
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].bar(np.arange(1, len(result.counts) + 1), result.counts)
    axes[2].plot(np.arange(len(result.vector)), result.vector, "o")
    axes[2].plot(*result.curve, **THEORY)
    places = np.arange(len(result.moduli))
    axes[3].plot(places, result.margin, "o", color="C0", alpha=0.6)
    axes[3].plot(places, result.decayed_margin, "s", color="C1", alpha=0.6)
    axes[3].axhline(1.0, **THEORY)
    names = [f"{k}, {p}" for k, p in zip(result.num_terms, result.moduli, strict=True)]
    axes[3].set_xticks(places, names)
    axes[3].set(xlabel="k, p", ylabel="least margin / γ* (squares: weight decay)")
    return figure
