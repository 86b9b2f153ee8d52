"""Averages over samples cannot tell parities of fair signs apart, and can if inputs have structure.

A gradient is an average, a statistical query, answered to a tolerance τ. All 2ᴰ inputs are listed,
so that correlations are exact: parities are uncorrelated, so that one query tells at most 1/τ² of
them from the others; the sign of the sum of all parities tells about a third as many. Two oracles
answer D queries E[y zⱼ], by sampling and with the least that helps: on fair signs they do not find
the set, on the mixture with structure they do.

Source: shi · sq-bound · Theorems 2.4, A.25–A.27, A.6; shi · dict-data · §2.3, A.5.
"""

from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import (
    between,
    holds,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.data import parity_mixture
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels
from theorylab.features.emergence.lower_bounds import (
    mixture_chances,
    parity_coefficients,
    parity_rows,
)
from theorylab.features.emergence.queries import (
    concept,
    distinguished,
    largest_correlation,
    parity_found,
    printed_concept,
    sampling_oracle,
    stubborn_oracle,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._listed_inputs import ListedInputs, draw

PRECISION = "float64"
FORMULA = r"\#\{A : |\langle \chi_A, q \rangle| > \tau\} \leq 1/\tau^2"

QUERIES = Source("shi", "sq-bound", "Theorems 2.4, A.25–A.27")
CONCEPT = Source("shi", "sq-bound", "A.6")
DATA = Source("shi", "dict-data", "§2.3, A.5")

TANGENT = 1  # place among the features
TOLERANCES = np.array([0.05, 0.1, 0.2, 0.4])  # τ of queries
MOST_COMPARED = 400  # parities whose correlations are all taken


@dataclass(frozen=True)
class Config(ListedInputs):
    """Queries about all inputs, and parities of k signs."""


PRESETS = {
    "smoke": Config(dimension=8, num_bits=3, num_neurons=2, num_seeds=6),
    "paper": Config(dimension=16, num_neurons=12, num_seeds=100),
}


class Result(NamedTuple):
    """What was measured: seeds (s), tolerances (t); laws and oracles (2 each)."""

    told: Float[Measured, "s t"]  # parities that the most telling entry of a gradient tells
    found: Float[Measured, "s 2 2"]  # whether the queries E[y zⱼ] find the set
    sharp: float  # what the sign of the sum of all parities tells, as a part of 1/τ²
    correlation: float  # the largest of two different parities
    agreement: Float[Measured, "2"]  # of the concept with ∏ z, as printed and corrected


def memory(config: Config) -> int:
    """Bytes of features and coefficients of two seeds at once, and of some parities."""
    return 8 * 2**config.dimension * (2 * 4 * 3 * config.num_features + 2 * MOST_COMPARED)


def run(config: Config) -> Result:
    """Draw features, then sets; ask; and correlate parities."""
    report("asking", 0.1)
    x = config.inputs
    told, found = ensemble(partial(_answers, x=x, config=config), config.keys)
    report("listing parities", 0.9)
    subsets = combinations(range(config.dimension), config.num_bits)
    parities = np.asarray(x)[:, np.array(list(islice(subsets, MOST_COMPARED)))].prod(axis=2)
    concepts = printed_concept(x > 0), concept(x > 0, jnp.arange(config.num_bits))
    return Result(
        told=told,
        found=found,
        sharp=float(_told_at_once(config)),
        correlation=float(largest_correlation(jnp.asarray(parities))),
        agreement=np.array([(np.asarray(values) == parities[:, 0]).mean() for values in concepts]),
    )


def _answers(
    key: RandomKey, x: Float[Array, "n d"], config: Config
) -> tuple[Float[Array, " t"], Float[Array, "2 2"]]:
    """What one draw of features tells about parities, and whether the oracles give the set away."""
    drawn = draw(key, x, config)
    coefficients = parity_coefficients(drawn.features[TANGENT])
    rows = parity_rows(config.dimension, config.num_bits)
    telling = [distinguished(coefficients[rows], float(tau)).max() for tau in TOLERANCES]

    def found(chances: Float[Array, " n"]) -> Float[Array, "2"]:
        queries, tolerance = drawn.labels[:, None] * x, float(TOLERANCES[0])
        sampled = sampling_oracle(drawn.query_key, tolerance, chances)(queries)
        # The stubborn one means over rows alike: each counts as often as it is likely.
        weighted = len(x) * chances[:, None] * queries
        stubborn = stubborn_oracle(jnp.zeros(x.shape[1]), tolerance)(weighted)
        both = [parity_found(answers, drawn.relevant) for answers in (sampled, stubborn)]
        return jnp.stack(both).astype(float)

    chances = jnp.stack([mixture_chances(x, drawn.relevant, p) for p in (1.0, 0.5)])
    return jnp.stack(telling).astype(float), jax.lax.map(found, chances)


def _told_at_once(config: Config) -> Float[Array, ""]:
    """C(D, k) c², where c is the correlation of the sign of the sum of all parities with each."""
    rows = parity_rows(config.dimension, config.num_bits)
    chosen = jnp.zeros((2**config.dimension, 1)).at[rows].set(1.0)
    query = jnp.sign(jnp.round(2.0**config.dimension * parity_coefficients(chosen)))
    return (parity_coefficients(query)[rows] ** 2).sum()


def _covariance(config: Config, other_probability: float) -> float:
    """Covariance of two patterns outside of the set, in the mixture."""
    law = parity_mixture(config.dimension, config.num_bits, other_probability)
    return law.other_covariance


CLAIMS = (
    QUERIES.claim(
        "Different parities are uncorrelated, exactly.",
        lambda r, c: identity(r.correlation, 0.0, 0.0),
        quote="This then implies that the g_A's are uncorrelated",
    ),
    QUERIES.found(
        "No entry of the first gradient tells more than 1/τ² parities from the others.",
        lambda r, c: holds(TOLERANCES**-2 - r.told),
        demand="derived: squared correlations with all parities sum to at most 1",
    ),
    QUERIES.control(
        "A bound of 1/(10τ²) would fail: the sign of the sum of all parities tells more of them.",
        lambda r, c: between(r.sharp, 0.1, 1.0),
        demand="derived: its correlations are equal, and their squares sum to (E|s|)²/E[s²], where "
        "s is the sum; 0.41 for three of 8 signs",
    ),
    QUERIES.found(
        "On fair signs D queries about the inputs' signs do not find the set, of either oracle.",
        lambda r, c: median_at_most(r.found[:, 0].max(axis=1), 0.0),
    ),
    QUERIES.control(
        "On the mixture with structure the same D queries do.",
        lambda r, c: median_at_least(r.found[:, 1].min(axis=1), 1.0),
    ),
    *CONCEPT.erratum(
        printed=(
            "The concept 1[Σⱼ (1 − φ̃ⱼ) odd] is the product of the relevant signs.",
            lambda r, c: identity(r.agreement[0], 1.0, 1e-12),
        ),
        corrected=(
            "Summed over the set, even, and in ±1, it is.",
            lambda r, c: identity(r.agreement[1], 1.0, 1e-12),
        ),
        quote="Let C be the class of functions … is odd … for different",
    ),
    *DATA.erratum(
        printed=(
            "The mixture fulfils (A2) for every p_o: with p_o = 0.3 patterns outside of the set "
            "are independent.",
            lambda r, c: identity(_covariance(c, 0.3), 0.0, 1e-12),
        ),
        corrected=(
            "Patterns outside of the set are independent in the mixture with p_o = ½.",
            lambda r, c: identity(_covariance(c, 0.5), 0.0, 1e-12),
        ),
        quote="It can be verified that such distributions are included in",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """What one query tells, over its tolerance."""
    figure, (axis,) = panels("parities told by one query")
    axis.loglog(TOLERANCES, np.maximum(result.told, 0.5).T, "o", color=COLOURS[1])
    axis.plot(TOLERANCES, TOLERANCES**-2, label="1/τ²", **THEORY)
    axis.legend(fontsize=7)
    label_axes(axis, "tolerance τ")
    return figure
