"""No single neuron has a larger average margin than one of cosines, and ascent finds these.

Of all neurons of norm 1 that add k numbers modulo p, those whose k + 1 vectors are cosines of one
frequency, with phases that add up, have the largest average margin, γ*: ascent from random starts
finds them, and nothing better. So the average margin of any network, and with it the least one, is
at most γ*‖θ‖ᵏ⁺¹.

Source: shi · max-margin-value · Lemmas 4.10, C.10–C.15; shi · margins · Lemmas C.5, C.6.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import at_least, at_most, holds, identity
from theorylab.data.modular import all_sums, num_sums
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.features.fourier.margins import average_margin, least_margin, weighted_margin
from theorylab.features.fourier.maximum_margin import ascended_neuron, maximum_margin
from theorylab.features.fourier.polynomial import group_norm, initial_neurons, polynomial_network
from theorylab.features.fourier.spectra import neuron_spectra
from theorylab.fields import Count, Odd, Seeded, Several
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._sums import Case, paired

PRECISION = "float64"
FORMULA = r"\mathbb{E} g' = \frac{k!}{(p-1)p^k} \sum_{j \ne 0} \hat w(-j) \prod_i \hat u_i(j)"

NEURON = Source("shi", "max-margin-value", "Lemmas 4.10, C.10–C.15")
PROOF = Source("shi", "max-margin-value", "proof of Lemma C.10")
DUALITY = Source("shi", "margins", "Lemmas C.5, C.6")

AT_ONCE, WIDTH = 50, 4  # random networks that are measured together, and their neurons


@dataclass(frozen=True)
class Config(Seeded):
    """Single neurons by ascent, and random networks, for several numbers of terms and moduli."""

    num_terms: Several[Count] = (2, 3, 3, 3, 4)  # k of the random networks
    moduli: Several[Odd] = (7, 5, 7, 11, 5)  # p of the random networks
    ascent_terms: Several[Count] = (2, 3, 4, 5)  # k of the single neurons
    ascent_moduli: Several[Odd] = (5, 7, 11, 13)  # p of the single neurons, each with each k
    num_seeds: Count = 50  # starts of the ascent
    num_steps: Count = 2000  # of the ascent
    num_random: Count = 1000  # random networks that the bound is tested on

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("ascent_terms", 20), ("ascent_moduli", 10_000)):
            # More would not end: powers of the modulus, and spectra of as many numbers.
            if max(getattr(self, name)) > most:
                raise ValueError(f"{name} must be at most {most}, got {getattr(self, name)}.")
        for case in (*self.cases, *self.ascents):
            maximum_margin(*case)  # refuses what has none
            num_sums(*case)

    @property
    def cases(self) -> list[Case]:
        """(k, p) of the random networks."""
        return paired(self.num_terms, self.moduli)

    @property
    def ascents(self) -> list[Case]:
        """(k, p) of the single neurons."""
        return list(itertools.product(self.ascent_terms, self.ascent_moduli))


PRESETS = {
    "smoke": Config(
        num_terms=(2, 3),
        moduli=(7, 5),
        ascent_terms=(3,),
        ascent_moduli=(5,),
        num_seeds=10,
        num_steps=400,
        num_random=50,
    ),
    "paper": Config(num_terms=(2, 3, 3, 4, 4, 5), moduli=(97, 31, 47, 11, 13, 7)),
}


class Result(NamedTuple):
    """What was measured: cases (c) of random networks (r), cases (a) of ascent, starts (s)."""

    by_transform: Float[Measured, " c"]  # E g′ of a random neuron, by Fourier transforms
    by_examples: Float[Measured, " c"]  # and as the mean over all examples
    centred: Float[Measured, " c"]  # the right output less the mean of all outputs, over examples
    random_least: Float[Measured, "c r"]  # h of random networks, over γ*‖θ‖ᵏ⁺¹
    random_average: Float[Measured, "c r"]  # E g′ of the same
    ascended: Float[Measured, "a s"]  # E g′ after ascent over γ*
    concentration: Float[Measured, " a"]  # least of the best neuron's vectors
    residual: Float[Measured, " a"]  # of the best neuron's phases


def memory(config: Config) -> int:
    """Bytes of random networks on all examples, and of neurons that ascend together."""
    networks = max(num_sums(k, p) * (k + p + WIDTH) for k, p in config.cases)
    neurons = max((k + 1) * p for k, p in config.ascents)
    random = min(AT_ONCE, config.num_random) * networks + 4 * config.num_random
    return 8 * (4 * random + 40 * config.num_seeds * neurons)


def run(config: Config) -> Result:
    """Measure random networks and ascended neurons."""
    network_key, ascent_key = jax.random.split(jax.random.key(config.seed))
    report("random networks", 0.0)
    keys = [jax.random.fold_in(network_key, place) for place in range(len(config.cases))]
    random = [
        _random(key, case, config.num_random) for key, case in zip(keys, config.cases, strict=True)
    ]
    neurons = []
    for place, case in enumerate(config.ascents):
        report(f"ascent for {case[0]} terms modulo {case[1]}", place / len(config.ascents))
        keys = jax.random.split(jax.random.fold_in(ascent_key, place), config.num_seeds)
        neurons.append(_ascent(keys, case, config.num_steps))
    networks = jax.tree.map(lambda *leaves: np.stack(leaves), *random)
    ascended, concentration, residual = (np.stack(each) for each in zip(*neurons, strict=True))
    return Result(**networks, ascended=ascended, concentration=concentration, residual=residual)


def _random(key: RandomKey, case: Case, num_random: int) -> dict[str, Array]:
    """E g′ of one neuron, by transforms and by examples; h and E g′ of many networks."""
    one_key, many_key = jax.random.split(key)
    neuron, sums = initial_neurons(one_key, *case, 1), all_sums(*case)
    outputs = polynomial_network(neuron, sums.terms)

    def margins(key: RandomKey) -> tuple[Array, Array]:
        params = initial_neurons(key, *case, WIDTH)
        bound = maximum_margin(*case) * group_norm(params) ** (case[0] + 1)
        return least_margin(params) / bound, average_margin(params) / bound

    keys = jax.random.split(many_key, num_random)
    least, average = ensemble(margins, keys, at_once=AT_ONCE)
    right = jnp.take_along_axis(outputs, sums.total[:, None], axis=1)
    return {
        "by_transform": average_margin(neuron),
        "by_examples": weighted_margin(outputs, sums.total).mean(),
        "centred": (right - outputs).mean(),
        "random_least": least,
        "random_average": average,
    }


def _ascent(keys: Key[Array, " s"], case: Case, num_steps: int) -> tuple[np.ndarray, float, float]:
    """Ascent from all starts over γ*, and concentration and phases of the best neuron."""

    def one(key: RandomKey) -> tuple[Array, Array, Array]:
        neuron = ascended_neuron(key, *case, num_steps)
        spectra = neuron_spectra(neuron)
        return average_margin(neuron), spectra.concentration.min(), spectra.residual[0]

    values, powers, residuals = map(np.asarray, ensemble(one, keys, at_once=len(keys)))
    best = values.argmax()
    return values / maximum_margin(*case), powers[best], residuals[best]


def _weighted(result: Result, config: Config, sign: int) -> np.ndarray:
    """(1 ± 1/(p - 1)) (η(0) - E_δ η(δ)), as the proof writes the average margin."""
    return result.centred * (1 + sign / (np.array(config.moduli) - 1))


CLAIMS = (
    NEURON.claim(
        "A neuron's average margin is the sum over frequencies of products of transforms.",
        lambda r, c: identity(r.by_transform, r.by_examples, 1e-10),
        formula=r"\mathbb{E} g' = \frac{k!}{(p-1)p^k} \sum_{j \ne 0} \hat w(-j) \prod_i"
        r" \hat u_i(j)",
    ),
    *PROOF.erratum(
        printed=(
            "The average margin is 1 - 1/(p - 1) times the mean of η(0) - E_δ η(δ).",
            lambda r, c: identity(_weighted(r, c, -1), r.by_examples, 1e-10),
        ),
        corrected=(
            "The average margin is 1 + 1/(p - 1) = p/(p - 1) times that mean.",
            lambda r, c: identity(_weighted(r, c, 1), r.by_examples, 1e-10),
        ),
        quote="where the equation follows",
    ),
    NEURON.claim(
        "Ascent on one neuron never finds more than γ*.",
        lambda r, c: holds(1 - r.ascended, 1e-6),
        demand="source",
    ),
    NEURON.claim(
        "The bound is sharp: the best of the ascents reaches γ*, in every case.",
        lambda r, c: holds(r.ascended.max(axis=1) - 1, 1e-6),
        demand="lab: to 1e-6, what 400 steps of ascent leave",
    ),
    NEURON.claim(
        "The best neuron has one frequency in all its vectors.",
        lambda r, c: at_least(r.concentration.min(), 0.9999),
        demand="lab: 1 but for the steps that ascent has left",
    ),
    NEURON.claim(
        "The phases of the best neuron's inputs add up to that of its output.",
        lambda r, c: at_most(r.residual.max(), 1e-3),
        formula=r"\sum_i \theta_{u_i} = \theta_w",
        demand="lab: 0 but for the steps that ascent has left",
    ),
    DUALITY.claim(
        "No random network has a least margin above its average one, or that above γ*‖θ‖ᵏ⁺¹.",
        lambda r, c: holds(
            np.minimum(r.random_average - r.random_least, 1 - r.random_average), 1e-5
        ),
        formula=r"h \le \mathbb{E} g' \le \gamma^* \|\theta\|^{k+1}",
    ),
    DUALITY.control(
        "For random networks the bound is loose: their average margin is below half of it.",
        lambda r, c: at_most(r.random_average.max(), 0.5),
        demand="lab: seed 0 of the smoke preset has 0.21",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Margins of ascended neurons, and of random networks."""
    figure, (ascent, random) = panels("ascent on one neuron", "random networks")
    for row in result.ascended:
        ascent.plot(np.arange(1, len(row) + 1), np.sort(row), alpha=0.6)
    ascent.axhline(1.0, **THEORY)
    random.plot(result.random_average.ravel(), result.random_least.ravel(), ".", alpha=0.3)
    label_axes(ascent, "starts, sorted", "average margin / γ*")
    label_axes(random, "average margin / γ*‖θ‖ᵏ⁺¹", "least margin / γ*‖θ‖ᵏ⁺¹")
    return figure
