"""A network of cosines adds with the largest margin that any network of its norm can have.

A network with one hidden layer and the activation zᵏ adds k numbers modulo p. Scaled to norm 1, its
least margin over all pᵏ sums is at most γ*, known in closed form. One explicit network of neurons
whose k + 1 vectors are cosines of one frequency, at all frequencies, has the margin γ* exactly, and
every example is on the margin. Leave one frequency out, and it has not. (`average_margin` has the
neurons one by one.)

Source: shi · max-margin-value · Theorem 4.9; shi · max-margin-net · Lemmas C.16–C.20.
"""

import itertools
from dataclasses import dataclass
from math import factorial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import at_most, holds, identity
from theorylab.data.modular import Sums, all_sums, num_sums
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.fourier.margins import average_margin, margin
from theorylab.features.fourier.maximum_margin import (
    maximum_margin,
    maximum_margin_network,
    num_cosine_neurons,
)
from theorylab.features.fourier.polynomial import PolynomialNeurons, group_norm, polynomial_network
from theorylab.fields import Checked, Count, Odd, Several
from theorylab.progress import report
from theorylab.typing import Measured

from ._sums import Case, by_case, paired

PRECISION = "float64"
FORMULA = r"\gamma^* = \frac{2\, k!}{(2k+2)^{(k+1)/2} (p-1)\, p^{(k-1)/2}}"

VALUE = Source("shi", "max-margin-value", "Theorem 4.9")
NETWORK = Source("shi", "max-margin-net", "Lemmas C.16–C.18")
PROOFS = Source("shi", "max-margin-net", "C.7.2, C.7.3")
SKETCH = Source("shi", "max-margin-net", "proof sketch of Lemma 4.11")
STATIONARY = Source("shi", "margins", "Def. 4.5, Eq. C.1")


@dataclass(frozen=True)
class Config(Checked):
    """Explicit networks for several numbers of terms and moduli."""

    num_terms: Several[Count] = (2, 3, 3, 3, 4)  # k, one for each case
    moduli: Several[Odd] = (7, 5, 7, 11, 5)  # p, one for each case

    def __post_init__(self) -> None:
        super().__post_init__()
        for case in self.cases:
            maximum_margin(*case)  # refuses what has none

    @property
    def cases(self) -> list[Case]:
        """(k, p) of every case."""
        return paired(self.num_terms, self.moduli)


PRESETS = {
    "smoke": Config(num_terms=(2, 3), moduli=(7, 5)),
    "paper": Config(num_terms=(2, 3, 3, 4, 4, 5), moduli=(97, 31, 47, 11, 13, 7)),
}


class Result(NamedTuple):
    """What was measured, in every case (c)."""

    attained: Float[Measured, "*c"]  # the explicit network's least margin over γ*
    largest: Float[Measured, "*c"]  # its largest margin over γ*
    wrong: Float[Measured, "*c 2"]  # its least and largest wrong output, over k! 2ᵏ⁻¹
    per_frequency: Int[Measured, "*c"]  # its neurons at one frequency
    incomplete: Float[Measured, "*c"]  # least margin over γ* without the last frequency
    flipped: Float[Measured, "*c"]  # average margin over γ* with −w in place of w
    products: Int[Measured, "*c 2"]  # of cosines and sines in the cosine of k, and k + 1, terms


def memory(config: Config) -> int:
    """Bytes of the hidden layer of the largest explicit network on all examples, some copies."""
    hidden = [num_sums(k, p) * num_cosine_neurons(k, p) for k, p in config.cases]
    return 8 * 6 * max(hidden)


def run(config: Config) -> Result:
    """Measure the explicit network of every case."""
    found = []
    for place, case in enumerate(config.cases):
        report(f"network for {case[0]} terms modulo {case[1]}", place / len(config.cases))
        found.append(_explicit(*case))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


@jax.jit
def _outputs(params: PolynomialNeurons, sums: Sums) -> tuple[Array, Array]:
    """Margins of the network scaled to norm 1, and its least and largest wrong output."""
    outputs = polynomial_network(params, sums.terms)
    wrong = jnp.arange(outputs.shape[1])[None, :] != sums.total[:, None]
    lowest, highest = (jnp.where(wrong, outputs, end) for end in (jnp.inf, -jnp.inf))
    norm = group_norm(params) ** (params.inputs.shape[0] + 1)
    return margin(outputs, sums.total) / norm, jnp.stack([lowest.min(), highest.max()])


def _explicit(num_terms: int, modulus: int) -> Result:
    """What is measured about the network of one case."""
    best, sums = maximum_margin(num_terms, modulus), all_sums(num_terms, modulus)
    params = maximum_margin_network(num_terms, modulus)
    per_frequency = params.output.shape[1] // ((modulus - 1) // 2)
    some = jax.tree.map(lambda weights: weights[..., :-per_frequency], params)
    margins, wrong = _outputs(params, sums)
    flipped = average_margin(params._replace(output=-params.output))
    return Result(
        attained=margins.min() / best,
        largest=margins.max() / best,
        wrong=wrong / (factorial(num_terms) * 2 ** (num_terms - 1)),
        per_frequency=np.array(per_frequency),
        incomplete=_outputs(some, sums)[0].min() / best,
        flipped=flipped / group_norm(params) ** (num_terms + 1) / best,
        products=np.array([_num_products(count) for count in (num_terms, num_terms + 1)]),
    )


def _num_products(num_terms: int) -> int:
    """How many products of cosines and sines make up cos(x₁ + … + x_k).

    At xᵢ = 0 and π/2 all products but one are 0, and that one is 1, so values are coefficients.
    """
    angles = np.array(list(itertools.product((0.0, np.pi / 2), repeat=num_terms)))
    return int((np.abs(np.cos(angles.sum(axis=1))) > 0.5).sum())


def _of_three(result: Result, config: Config) -> np.ndarray:
    """Neurons at one frequency, of networks for three terms."""
    return result.per_frequency[np.array(config.num_terms) == 3]


def _powers(config: Config, *shifts: int) -> np.ndarray:
    """2ᵏ⁺ˢ for every case and shift s, (c, shifts)."""
    return 2 ** (np.array(config.num_terms)[:, None] + np.array([shifts]))


CLAIMS = (
    VALUE.claim(
        "The explicit network of cosines attains γ*, in every case.",
        lambda r, c: identity(r.attained, np.ones_like(r.attained), 1e-12),
        formula=r"h(\theta)/\|\theta\|^{k+1} = \gamma^*",
    ),
    NETWORK.claim(
        "Every example is on the margin of the explicit network.",
        lambda r, c: identity(r.largest, np.ones_like(r.largest), 1e-10),
        quote="every data point lies exactly on the margin",
    ),
    *PROOFS.erratum(
        printed=(
            "The explicit network's wrong outputs are 0.",
            lambda r, c: identity(r.wrong, np.zeros_like(r.wrong), 1e-9),
        ),
        corrected=(
            "The explicit network's wrong outputs are -½, in units of k! 2ᵏ⁻¹.",
            lambda r, c: identity(r.wrong, np.full_like(r.wrong, -0.5), 1e-9),
        ),
        formula=r"\sum_{\zeta=1}^{(p-1)/2} \cos(2\pi\zeta r/p) = -\tfrac12",
        quote="the network will calculate the following function … 0 & otherwise",
    ),
    *PROOFS.erratum(
        printed=(
            "For three terms, one frequency takes 56 neurons.",
            lambda r, c: identity(_of_three(r, c), np.full_like(_of_three(r, c), 56), 1e-12),
        ),
        corrected=(
            "For three terms, one frequency takes 32 neurons.",
            lambda r, c: identity(_of_three(r, c), np.full_like(_of_three(r, c), 32), 1e-12),
        ),
        formula=r"2^{2k-1} = 32",
        quote="When we include such 56 neurons for all frequencies",
        regime="3 in num_terms",
    ),
    *SKETCH.erratum(
        printed=(
            "The cosine of a sum of k terms is a sum of 2ᵏ products.",
            lambda r, c: identity(r.products[:, :1], _powers(c, 0), 1e-12),
        ),
        corrected=(
            "It is one of 2ᵏ⁻¹ products; with the sum itself, k + 1 terms in all, of 2ᵏ.",
            lambda r, c: identity(r.products, _powers(c, -1, 0), 1e-12),
        ),
        quote="We have 2^k terms in the above equation",
    ),
    *STATIONARY.erratum(
        printed=(
            "In a stationary pair the network minimises the average margin.",
            lambda r, c: at_most(np.max(r.attained - r.flipped), 0.0),
        ),
        corrected=(
            "In a stationary pair the network maximises the average margin: with -w it is least.",
            lambda r, c: holds(r.attained - r.flipped - 2, 1e-9),
        ),
        quote="We define a stationary pair … when satisfying",
    ),
    VALUE.control(
        "Without one of its frequencies the explicit network has a smaller margin, in every case.",
        lambda r, c: at_most(r.incomplete.max(), 1 - 1 / max(c.moduli)),
        demand="lab: 1 - 1/p; leaving one of (p - 1)/2 frequencies out measured 0.69 at p = 7",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Margins of the explicit networks."""
    figure, (axis,) = panels("least margin / γ*")
    axis.axhline(1.0, **THEORY)
    named = {"all frequencies": result.attained, "without the last": result.incomplete}
    by_case(axis, config.cases, named)
    return figure
