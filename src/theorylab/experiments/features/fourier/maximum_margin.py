"""A network of cosines adds with the largest margin that any network of its norm can have.

A network with one hidden layer and the activation zᵏ adds k numbers modulo p. Scaled to norm 1, its
least margin over all pᵏ sums is at most γ*, known in closed form. Neurons whose k + 1 vectors are
cosines of one frequency, with phases that add up, are best one by one: ascent from random starts
finds them, and nothing better. One explicit network of such neurons at all frequencies has the
margin γ* exactly, and every example is on the margin. Leave one frequency out, and it has not.

Source: shi · max-margin-value · Theorem 4.9; shi · max-margin-net · Lemmas C.16–C.20.
"""

import itertools
from dataclasses import dataclass
from math import factorial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, holds, identity
from theorylab.data import all_sums
from theorylab.data.modular import Sums, num_sums
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.fourier import (
    Neurons,
    ascended_neuron,
    average_margin,
    group_norm,
    initial_neurons,
    least_margin,
    margin,
    maximum_margin,
    maximum_margin_network,
    neuron_spectra,
    num_cosine_neurons,
    polynomial_network,
    weighted_margin,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\gamma^* = \frac{2\, k!}{(2k+2)^{(k+1)/2} (p-1)\, p^{(k-1)/2}}"

VALUE = Source("shi", "max-margin-value", "Theorem 4.9")
NEURON = Source("shi", "max-margin-value", "Lemmas 4.10, C.10–C.15")
PROOF = Source("shi", "max-margin-value", "proof of Lemma C.10")
NETWORK = Source("shi", "max-margin-net", "Lemmas C.16–C.18")
SKETCH = Source("shi", "max-margin-net", "C.7.2, C.7.3")
DUALITY = Source("shi", "margins", "Lemmas C.5, C.6")
STATIONARY = Source("shi", "margins", "Def. 4.5, Eq. C.1")


@dataclass(frozen=True)
class Config:
    """Explicit networks, and single neurons by ascent, for several numbers of terms and moduli."""

    num_terms: tuple[int, ...] = (2, 3, 3, 3, 4)  # k of the explicit networks
    moduli: tuple[int, ...] = (7, 5, 7, 11, 5)  # p of the explicit networks
    ascent_terms: tuple[int, ...] = (2, 3, 4, 5)  # k of the single neurons
    ascent_moduli: tuple[int, ...] = (5, 7, 11, 13)  # p of the single neurons, each with each k
    num_starts: int = 50  # of the ascent
    num_steps: int = 2000  # of the ascent
    num_random: int = 1000  # random networks that the bound is tested on
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        if len(self.num_terms) != len(self.moduli) or not self.num_terms:
            raise ValueError(
                "num_terms and moduli must be as many and not none, "
                f"got {self.num_terms} and {self.moduli}."
            )
        if not self.ascent_terms or not self.ascent_moduli:
            raise ValueError("ascent_terms and ascent_moduli must not be empty.")
        for name, most in (("ascent_terms", 20), ("ascent_moduli", 10_000)):
            # More would not end: powers of the modulus, and spectra of as many numbers.
            if not 2 <= min(getattr(self, name)) <= max(getattr(self, name)) <= most:
                raise ValueError(f"{name} must be from 2 to {most}, got {getattr(self, name)}.")
        for terms, modulus in (*self.cases, *self.ascents):
            maximum_margin(terms, modulus)  # refuses what has none
            num_sums(terms, modulus)
        refuse_below(self, 1, "num_starts", "num_steps", "num_random")

    @property
    def cases(self) -> list[tuple[int, int]]:
        """(k, p) of the explicit networks."""
        return list(zip(self.num_terms, self.moduli, strict=True))

    @property
    def ascents(self) -> list[tuple[int, int]]:
        """(k, p) of the single neurons."""
        return list(itertools.product(self.ascent_terms, self.ascent_moduli))


PRESETS = {
    "smoke": Config(
        num_terms=(2, 3),
        moduli=(7, 5),
        ascent_terms=(3,),
        ascent_moduli=(5,),
        num_starts=10,
        num_steps=400,
        num_random=50,
    ),
    "paper": Config(num_terms=(2, 3, 3, 4, 4, 5), moduli=(97, 31, 47, 11, 13, 7)),
}


class Result(NamedTuple):
    """What was measured: axes cases (c) of networks, cases (a) of ascent, starts (s)."""

    num_terms: Int[np.ndarray, " c"]
    moduli: Int[np.ndarray, " c"]
    attained: Float[np.ndarray, " c"]  # the explicit network's least margin over γ*
    largest: Float[np.ndarray, " c"]  # its largest margin over γ*
    wrong: Float[np.ndarray, "c 2"]  # its least and largest wrong output, over k! 2ᵏ⁻¹
    per_frequency: Int[np.ndarray, " c"]  # its neurons at one frequency
    products: Int[np.ndarray, "c 2"]  # of cosines and sines in the cosine of k, and k + 1, terms
    incomplete: Float[np.ndarray, " c"]  # least margin over γ* without the last frequency
    flipped: Float[np.ndarray, " c"]  # average margin over γ* with w turned to -w
    by_transform: Float[np.ndarray, " c"]  # E g′ of a random neuron, by Fourier transforms
    by_examples: Float[np.ndarray, " c"]  # and as the mean over all examples
    random_least: Float[np.ndarray, "c r"]  # h of random networks, over γ*‖θ‖ᵏ⁺¹
    random_average: Float[np.ndarray, "c r"]  # E g′ of the same
    ascent_terms: Int[np.ndarray, " a"]
    ascent_moduli: Int[np.ndarray, " a"]
    ascended: Float[np.ndarray, "a s"]  # E g′ after ascent over γ*
    concentration: Float[np.ndarray, " a"]  # least of the best neuron's vectors
    residual: Float[np.ndarray, " a"]  # of the best neuron's phases


def memory(config: Config) -> int:
    """Bytes of the hidden layer of the largest explicit network on all examples, some copies."""
    hidden = [num_sums(k, p) * num_cosine_neurons(k, p) for k, p in config.cases]
    return 8 * 6 * max(hidden)


def run(config: Config) -> Result:
    """Measure the explicit networks, random ones, and ascended neurons."""
    network_key, ascent_key = jax.random.split(jax.random.key(config.seed))
    networks, total = [], len(config.cases) + len(config.ascents)
    for place, (terms, modulus) in enumerate(config.cases):
        report(f"networks for {terms} terms modulo {modulus}", place / total)
        key = jax.random.fold_in(network_key, place)
        networks.append(_network(key, terms, modulus, config.num_random))
    neurons = []
    for place, (terms, modulus) in enumerate(config.ascents):
        report(f"ascent for {terms} terms modulo {modulus}", (len(networks) + place) / total)
        keys = jax.random.split(jax.random.fold_in(ascent_key, place), config.num_starts)
        neurons.append(_ascent(keys, terms, modulus, config.num_steps))
    explicit = {name: np.stack([case[name] for case in networks]) for name in networks[0]}
    best = {name: np.stack([case[name] for case in neurons]) for name in neurons[0]}
    return Result(
        num_terms=np.array(config.num_terms),
        moduli=np.array(config.moduli),
        ascent_terms=np.array([terms for terms, _ in config.ascents]),
        ascent_moduli=np.array([modulus for _, modulus in config.ascents]),
        **explicit,
        **best,
    )


@jax.jit
def _margins(params: Neurons, sums: Sums) -> dict[str, jax.Array]:
    """Margins of a network over all sums, and its wrong outputs."""
    outputs = polynomial_network(params, sums.terms)
    wrong = jnp.arange(outputs.shape[1])[None, :] != sums.total[:, None]
    margins = margin(outputs, sums.total)
    return {
        "norm": group_norm(params) ** (params.inputs.shape[0] + 1),
        "least": margins.min(),
        "largest": margins.max(),
        "wrong_least": jnp.where(wrong, outputs, jnp.inf).min(),
        "wrong_largest": jnp.where(wrong, outputs, -jnp.inf).max(),
        "average": weighted_margin(outputs, sums.total).mean(),
    }


def _network(
    key: RandomKey, num_terms: int, modulus: int, num_random: int
) -> dict[str, np.ndarray]:
    """What is measured about the networks of one case."""
    best, sums = maximum_margin(num_terms, modulus), all_sums(num_terms, modulus)
    params = maximum_margin_network(num_terms, modulus)
    width, unit = params.output.shape[1], factorial(num_terms) * 2 ** (num_terms - 1)
    per_frequency = width // ((modulus - 1) // 2)
    whole = jax.tree.map(float, _margins(params, sums))
    some = jax.tree.map(lambda weights: weights[..., :-per_frequency], params)
    part = jax.tree.map(float, _margins(some, sums))
    flipped = float(average_margin(params._replace(output=-params.output)))
    one_key, many_key = jax.random.split(key)
    neuron = initial_neurons(one_key, num_terms, modulus, 1)

    def random(key: RandomKey) -> tuple[Array, Array]:
        params = initial_neurons(key, num_terms, modulus, 4)
        bound = best * group_norm(params) ** (num_terms + 1)
        return least_margin(params) / bound, average_margin(params) / bound

    least, average = ensemble(random, jax.random.split(many_key, num_random), at_once=50)
    return {
        "attained": np.array(whole["least"] / whole["norm"] / best),
        "largest": np.array(whole["largest"] / whole["norm"] / best),
        "wrong": np.array([whole["wrong_least"], whole["wrong_largest"]]) / unit,
        "per_frequency": np.array(per_frequency),
        "products": np.array([_num_products(count) for count in (num_terms, num_terms + 1)]),
        "incomplete": np.array(part["least"] / part["norm"] / best),
        "flipped": np.array(flipped / whole["norm"] / best),
        "by_transform": np.array(average_margin(neuron)),
        "by_examples": np.array(_margins(neuron, sums)["average"]),
        "random_least": np.asarray(least),
        "random_average": np.asarray(average),
    }


def _num_products(num_terms: int) -> int:
    """How many products of cosines and sines make up cos(x₁ + … + x_k).

    At xᵢ = 0 and π/2 all products but one are 0, and that one is 1, so values are coefficients.
    """
    angles = np.array(list(itertools.product((0.0, np.pi / 2), repeat=num_terms)))
    return int((np.abs(np.cos(angles.sum(axis=1))) > 0.5).sum())


def _ascent(
    keys: Key[Array, " s"], num_terms: int, modulus: int, num_steps: int
) -> dict[str, np.ndarray]:
    """Ascent from all starts, and what the best neuron looks like."""

    def one(key: RandomKey) -> tuple[Array, Array, Array]:
        neuron = ascended_neuron(key, num_terms, modulus, num_steps)
        spectra = neuron_spectra(neuron)
        return average_margin(neuron), spectra.concentration.min(), spectra.residual[0]

    values, powers, residuals = map(np.asarray, ensemble(one, keys, at_once=len(keys)))
    best = values.argmax()
    return {
        "ascended": values / maximum_margin(num_terms, modulus),
        "concentration": powers[best],
        "residual": residuals[best],
    }


def _misprinted(result: Result) -> np.ndarray:
    """E g′ with 1 - 1/(p - 1) where 1 + 1/(p - 1) should be."""
    p = result.moduli
    return result.by_transform * (1 - 1 / (p - 1)) / (1 + 1 / (p - 1))


def _per_frequency(result: Result) -> np.ndarray:
    """Neurons at one frequency, of networks for three terms."""
    return result.per_frequency[result.num_terms == 3]


CLAIMS = (
    Claim(
        "The explicit network of cosines attains γ*, in every case.",
        judge=lambda r, c: identity(r.attained, np.ones_like(r.attained), 1e-12),
        source=VALUE,
        formula=r"h(\theta)/\|\theta\|^{k+1} = \gamma^*",
    ),
    Claim(
        "Every example is on the margin of the explicit network.",
        judge=lambda r, c: identity(r.largest, np.ones_like(r.largest), 1e-10),
        source=NETWORK,
    ),
    Claim(
        "A neuron's average margin is the sum over frequencies of products of transforms.",
        judge=lambda r, c: identity(r.by_transform, r.by_examples, 1e-10),
        source=NEURON,
        formula=r"\mathbb{E} g' = \frac{k!}{(p-1)p^k} \sum_{j \ne 0} \hat w(-j) \prod_i"
        r" \hat u_i(j)",
    ),
    Claim(
        "Ascent on one neuron never finds more than γ*.",
        judge=lambda r, c: holds(1 - r.ascended, 1e-6),
        source=NEURON,
    ),
    Claim(
        "The best of the ascents reaches γ*, in every case.",
        judge=lambda r, c: holds(r.ascended.max(axis=1) - 1, 1e-6),
        source=NEURON,
    ),
    Claim(
        "The best neuron has one frequency in all its vectors.",
        judge=lambda r, c: at_least(r.concentration.min(), 0.9999),
        source=NEURON,
    ),
    Claim(
        "The phases of the best neuron's inputs add up to that of its output.",
        judge=lambda r, c: at_most(r.residual.max(), 1e-3),
        source=NEURON,
        formula=r"\sum_i \theta_{u_i} = \theta_w",
    ),
    Claim(
        "No random network has a least margin above its average one, or that above γ*‖θ‖ᵏ⁺¹.",
        judge=lambda r, c: holds(
            np.minimum(r.random_average - r.random_least, 1 - r.random_average), 1e-5
        ),
        source=DUALITY,
        formula=r"h \le \mathbb{E} g' \le \gamma^* \|\theta\|^{k+1}",
    ),
    Claim(
        "The explicit network's wrong outputs are 0.",
        judge=lambda r, c: identity(r.wrong, np.zeros_like(r.wrong), 1e-9),
        source=SKETCH,
        kind="printed",
    ),
    Claim(
        "The explicit network's wrong outputs are -½, in units of k! 2ᵏ⁻¹.",
        judge=lambda r, c: identity(r.wrong, np.full_like(r.wrong, -0.5), 1e-9),
        source=SKETCH,
        kind="corrected",
        formula=r"\sum_{\zeta=1}^{(p-1)/2} \cos(2\pi\zeta r/p) = -\tfrac12",
    ),
    Claim(
        "For three terms, one frequency takes 56 neurons.",
        judge=lambda r, c: identity(_per_frequency(r), np.full_like(_per_frequency(r), 56), 1e-12),
        source=SKETCH,
        kind="printed",
    ),
    Claim(
        "For three terms, one frequency takes 32 neurons.",
        judge=lambda r, c: identity(_per_frequency(r), np.full_like(_per_frequency(r), 32), 1e-12),
        source=SKETCH,
        kind="corrected",
        formula=r"2^{2k-1} = 32",
    ),
    Claim(
        "The cosine of a sum of k terms is a sum of 2ᵏ products.",
        judge=lambda r, c: identity(r.products[:, 0], 2**r.num_terms, 1e-12),
        source=SKETCH,
        kind="printed",
    ),
    Claim(
        "It is one of 2ᵏ⁻¹ products; with the sum itself, k + 1 terms in all, of 2ᵏ.",
        judge=lambda r, c: identity(
            r.products, 2 ** (r.num_terms[:, None] + np.array([[-1, 0]])), 1e-12
        ),
        source=SKETCH,
        kind="corrected",
    ),
    Claim(
        "In the average margin stands 1 - 1/(p - 1).",
        judge=lambda r, c: identity(_misprinted(r), r.by_examples, 1e-10),
        source=PROOF,
        kind="printed",
    ),
    Claim(
        "In a stationary pair the network minimises the average margin.",
        judge=lambda r, c: at_most(np.max(r.attained - r.flipped), 0.0),
        source=STATIONARY,
        kind="printed",
    ),
    Claim(
        "In a stationary pair the network maximises the average margin: with -w it is the least.",
        judge=lambda r, c: holds(r.attained - r.flipped - 2, 1e-9),
        source=STATIONARY,
        kind="corrected",
    ),
    Claim(
        "Without one of its frequencies the explicit network has a smaller margin, in every case.",
        judge=lambda r, c: at_most(r.incomplete.max(), 1 - 1 / r.moduli.max()),
        source=VALUE,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Margins of the explicit networks, of ascended neurons, and of random networks."""
    figure, axes = panels("explicit networks", "ascent on one neuron", "random networks")
    names = [f"{k}, {p}" for k, p in zip(result.num_terms, result.moduli, strict=True)]
    places = np.arange(len(names))
    axes[0].plot(places, result.attained, "o", label="all frequencies")
    axes[0].plot(places, result.incomplete, "s", label="without the last")
    axes[0].set_xticks(places, names)
    axes[0].set_xlabel("k, p")
    for row in result.ascended:
        axes[1].plot(np.arange(1, len(row) + 1), np.sort(row), alpha=0.6)
    axes[1].set_xlabel("starts, sorted")
    axes[2].plot(result.random_average.ravel(), result.random_least.ravel(), ".", alpha=0.3)
    axes[2].set_xlabel("average margin / γ*‖θ‖ᵏ⁺¹")
    axes[2].set_ylabel("least margin / γ*‖θ‖ᵏ⁺¹")
    for axis in axes[:2]:
        axis.axhline(1.0, **THEORY, label="γ*")
        axis.set_ylabel("margin / γ*")
    axes[0].legend(frameon=False, fontsize=8)
    return figure
