"""What fixed features cannot do: their best hinge loss on parities, against a proven lower bound.

Random, tangent and Fourier features are drawn before the parity is. All 2ᴰ inputs are listed, so
that correlations with every parity are exact, and the least hinge loss with weights of length B is
solved with a certificate from below. The bound holds because few features cannot correlate with
many parities. The same count bounds what gradients, or any averages, can tell about the set.

Where the source prints √(2NB), features gain in proportion to B. At its own sizes (k = 5, N = 600)
the theorem says nothing for B above 0.92. As kernels, features are bounded by their mean squared
length κ in place of their number N.

Source: shi · fixed-feature-bound · Theorems 2.2, A.22, A.23; Corollary 2.3;
shi · sq-bound · Theorem 2.4; shi · ch2-bounds · Theorem A.21.
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

from theorylab.claims import (
    Claim,
    Source,
    at_most,
    exponent_between,
    holds,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.data import SparseParity, parity_mixture
from theorylab.experiments.checks import refuse_negative
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.features.emergence import (
    best_hinge,
    concept,
    distinguished,
    drawn_features,
    hinge_regret_margin,
    kernel_lower_bound,
    largest_correlation,
    lower_bound,
    mixture_chances,
    num_parities,
    parity_coefficients,
    parity_found,
    parity_rows,
    printed_concept,
    sampling_oracle,
    stubborn_oracle,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\min_{\|w\| \leq B} \mathcal{L} \geq 1 - B\,\|\mathbb{E}[\chi_A \Psi]\|, \quad \sum_A \|\mathbb{E}[\chi_A \Psi]\|^2 \leq N"  # noqa: E501

FAIR = Source("shi", "fixed-feature-bound", "Theorem A.23")
MIXTURE = Source("shi", "fixed-feature-bound", "Theorems 2.2, A.22")
QUERIES = Source("shi", "sq-bound", "Theorems 2.4, A.25–A.27")
CONCEPT = Source("shi", "sq-bound", "A.6")
DATA = Source("shi", "dict-data", "§2.3, A.5")
KERNELS = Source("shi", "fixed-feature-bound", "Corollary 2.3")
REGRET = Source("shi", "ch2-bounds", "Theorem A.21")

FIXED = slice(3)  # kinds that were drawn before the set
KINDS = ("random", "tangent", "Fourier", "knows the set")
TOLERANCES = (0.05, 0.1, 0.2, 0.4)  # τ of queries
UNEQUAL = 0.3  # p_o at which the mixture's background covaries
_MOST_COMPARED = 400  # parities whose correlations are all taken


@dataclass(frozen=True)
class Config:
    """Fixed features on all inputs, and parities of k signs."""

    dimension: int = 14  # D; all 2ᴰ inputs are listed
    num_bits: int = 5  # k, odd
    num_neurons: int = 6  # h of the tangent features, even; N = h(D + 2) features of each kind
    norms: tuple[float, ...] = (0.02, 0.04, 0.5, 1.0, 2.0)  # B, growing; two short ones first
    num_solver_steps: int = 300
    num_descent_steps: int = 100  # of the online descent whose regret is checked
    num_seeds: int = 20  # features and sets, at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        if not 4 <= self.dimension <= 16:
            raise ValueError(f"dimension must be in [4, 16], got {self.dimension}.")
        if self.num_bits % 2 == 0 or not 3 <= self.num_bits <= self.dimension:
            raise ValueError(f"num_bits must be odd and from 3 to dimension, got {self.num_bits}.")
        if self.num_neurons % 2 or not 2 <= self.num_neurons <= 100:
            raise ValueError(f"num_neurons must be even and in [2, 100], got {self.num_neurons}.")
        growing = list(self.norms) == sorted(set(self.norms))
        if len(self.norms) < 3 or not growing or not 0 < self.norms[0] <= self.norms[-1] < 1e6:
            raise ValueError(f"norms must be three or more, positive, growing, got {self.norms}.")
        for name in ("num_solver_steps", "num_descent_steps", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} must be in [1, 10⁶], got {getattr(self, name)}.")

    @property
    def num_features(self) -> int:
        """N = h(D + 2), the parameters of h neurons."""
        return self.num_neurons * (self.dimension + 2)


PRESETS = {
    "smoke": Config(
        dimension=8,
        num_bits=3,
        num_neurons=2,
        norms=(0.02, 0.04, 0.5, 1.0),
        num_solver_steps=100,
        num_descent_steps=50,
        num_seeds=6,
    ),
    "paper": Config(dimension=16, num_neurons=12, num_solver_steps=2000, num_seeds=100),
}


class Measured(NamedTuple):
    """What one seed's features and set give: kinds (f), laws (2: fair, mixture), norms (b)."""

    energy: Float[Array, " f"]  # Σ_A ‖c_A‖² over all sets
    square: Float[Array, " f"]  # E‖Ψ‖²
    mean: Float[Array, " f"]  # of ‖c_A‖ over sets of k signs
    own: Float[Array, " f"]  # ‖c_A‖ of the set drawn
    loss: Float[Array, "f 2 b"]
    floor: Float[Array, "f 2 b"]
    told: Float[Array, " t"]  # parities that the most telling entry of a gradient tells
    found: Float[Array, "2 2"]  # whether the queries E[y zⱼ] find the set, by law and oracle
    regret: Float[Array, ""]


class Result(NamedTuple):
    """What was measured; axes seeds (s), and those of `Measured`."""

    norms: Float[np.ndarray, " b"]
    theorem: Float[np.ndarray, "2 b"]
    counted: Float[np.ndarray, "2 b"]
    kernel: Float[np.ndarray, "f 2 b"]  # the counted bound with κ = E‖Ψ‖² in place of N
    allowed: float  # √(N/C(D, k)), the bound on the mean of ‖c_A‖
    energy: Float[np.ndarray, "s f"]
    square: Float[np.ndarray, "s f"]
    mean: Float[np.ndarray, "s f"]
    own: Float[np.ndarray, "s f"]
    loss: Float[np.ndarray, "s f 2 b"]
    floor: Float[np.ndarray, "s f 2 b"]
    tolerances: Float[np.ndarray, " t"]
    told: Float[np.ndarray, "s t"]
    found: Float[np.ndarray, "s 2 2"]
    regret: Float[np.ndarray, " s"]
    correlation: float  # the largest of two different parities
    covariance: Float[np.ndarray, "2"]  # of the mixture's background, at p_o = 0.3 and ½
    agreement: Float[np.ndarray, "2"]  # of the concept with ∏ z, as printed and corrected


def memory(config: Config) -> int:
    """Bytes of features and coefficients, of two seeds at once, and of some parities."""
    points = 2**config.dimension
    return 8 * points * (2 * 4 * len(KINDS) * config.num_features + 2 * _MOST_COMPARED)


def run(config: Config) -> Result:
    """Draw features, then sets; correlate, solve, and ask."""
    report("solving for the best weights", 0.1)
    x = SparseParity(config.dimension, config.num_bits).points()[0]
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    measured = ensemble(partial(_measured, x=x, config=config), keys)
    total = num_parities(config.dimension, config.num_bits)
    sizes = config.dimension, config.num_bits, config.num_features
    bounds = [[lower_bound(*sizes, norm, p) for norm in config.norms] for p in (1.0, 0.5)]
    kappas = np.asarray(measured.square).mean(axis=0)[FIXED]
    of_kernel = partial(kernel_lower_bound, config.dimension, config.num_bits)
    report("listing parities", 0.9)
    subsets = combinations(range(config.dimension), config.num_bits)
    parities = np.asarray(x)[:, np.array(list(islice(subsets, _MOST_COMPARED)))].prod(axis=2)
    concepts = printed_concept(x > 0), concept(x > 0, jnp.arange(config.num_bits))
    laws = [parity_mixture(config.dimension, config.num_bits, p) for p in (UNEQUAL, 0.5)]
    return Result(
        norms=np.array(config.norms),
        theorem=np.array([[bound.theorem for bound in row] for row in bounds]),
        counted=np.array([[bound.counted for bound in row] for row in bounds]),
        kernel=np.array(
            [[[of_kernel(b, k, p) for b in config.norms] for p in (1.0, 0.5)] for k in kappas]
        ),
        allowed=float(np.sqrt(config.num_features / total)),
        tolerances=np.array(TOLERANCES),
        correlation=float(largest_correlation(jnp.asarray(parities))),
        covariance=np.array([law.other_covariance for law in laws]),
        agreement=np.array([(np.asarray(values) == parities[:, 0]).mean() for values in concepts]),
        **{name: np.asarray(values) for name, values in measured._asdict().items()},
    )


def _measured(key: RandomKey, x: Float[Array, "n d"], config: Config) -> Measured:
    """One draw of features and of a set."""
    feature_key, set_key, query_key, descent_key = jax.random.split(key, 4)
    fixed = drawn_features(feature_key, x, config.num_neurons)
    relevant = jax.random.permutation(set_key, config.dimension)[: config.num_bits]
    labels = x[:, relevant].prod(axis=1)
    knowing = jnp.zeros_like(fixed[0]).at[:, 0].set(labels)
    features = jnp.concatenate([fixed, knowing[None]])
    coefficients = jax.vmap(parity_coefficients)(features)
    lengths = jnp.linalg.norm(coefficients, axis=2)
    rows = parity_rows(config.dimension, config.num_bits)
    own = jnp.sum(2 ** (config.dimension - 1 - relevant))
    chances = jnp.stack([mixture_chances(x, relevant, p) for p in (1.0, 0.5)])
    solve = partial(best_hinge, labels=labels, num_steps=config.num_solver_steps)
    by_norm = jax.vmap(lambda f, c, b: solve(f, chances=c, norm_bound=b), (None, None, 0))
    by_law = jax.vmap(by_norm, (None, 0, None))
    solved = jax.vmap(by_law, (0, None, None))(features, chances, jnp.array(config.norms))

    def found(chances: Float[Array, " n"]) -> Float[Array, "2"]:
        queries = labels[:, None] * x
        sampled = sampling_oracle(query_key, TOLERANCES[0], chances)(queries)
        # The stubborn one means over rows alike: each counts as often as it is likely.
        weighted = len(x) * chances[:, None] * queries
        stubborn = stubborn_oracle(jnp.zeros(x.shape[1]), TOLERANCES[0])(weighted)
        both = [parity_found(answers, relevant) for answers in (sampled, stubborn)]
        return jnp.stack(both).astype(float)

    best = solved.weights[0, 0, -1]
    start_key, batch_key = jax.random.split(descent_key)
    start = jax.random.normal(start_key, best.shape) / config.num_features**0.5
    batches = jax.random.randint(batch_key, (config.num_descent_steps, 8), 0, len(x))
    telling = [distinguished(coefficients[1][rows], tolerance) for tolerance in TOLERANCES]
    return Measured(
        energy=(lengths**2).sum(axis=1),
        square=(features**2).sum(axis=2).mean(axis=1),
        mean=lengths[:, rows].mean(axis=1),
        own=lengths[:, own],
        loss=solved.loss,
        floor=solved.floor,
        told=jnp.stack([counts.max() for counts in telling]).astype(float),
        found=jax.lax.map(found, chances),
        regret=hinge_regret_margin((labels[:, None] * fixed[0])[batches], start, best, 0.1),
    )


_SMALL = 2  # the first norms, at which no input is beyond the hinge


def _gain(result: Result) -> np.ndarray:
    """What short weights on tangent features gain over the loss 1, with structure."""
    return 1 - result.loss[:, 1, 1, :_SMALL]


CLAIMS = (
    Claim(
        "Squared correlations with all parities sum to the features' mean squared length.",
        judge=lambda r, c: identity(r.energy, r.square, 1e-10),
        source=FAIR,
    ),
    Claim(
        "Averaged over parities of k signs, features correlate by at most √(N/C(D, k)).",
        judge=lambda r, c: holds(r.allowed - r.mean[:, FIXED]),
        source=FAIR,
    ),
    Claim(
        "On fair signs no fixed features come below the theorem's bound, for any set drawn.",
        judge=lambda r, c: holds(r.loss[:, FIXED, 0] - r.theorem[0]),
        source=FAIR,
        formula=r"\mathcal{L} \geq 1 - \sqrt{2N} B / 2^k",
    ),
    Claim(
        "On the mixture with structure they do not come below half of it.",
        judge=lambda r, c: holds(r.loss[:, FIXED, 1] - r.theorem[1]),
        source=MIXTURE,
    ),
    Claim(
        "Averaged over sets they stay above the sharper bound that counts parities.",
        judge=lambda r, c: holds(r.floor[:, FIXED].mean(axis=0) - r.counted),
        source=MIXTURE,
    ),
    Claim(
        "As kernels they stay above the bound with κ = E‖Ψ‖² in place of N.",
        judge=lambda r, c: holds(r.floor[:, FIXED].mean(axis=0) - r.kernel),
        source=KERNELS,
        formula=r"p_o (1 - L \sqrt{\kappa / \tbinom{D}{k}})",
    ),
    Claim(
        "Short weights gain the length of the correlation: the loss is 1 − B‖E[χΨ]‖ exactly.",
        judge=lambda r, c: identity(
            r.loss[:, FIXED, 0, :_SMALL],
            1 - r.norms[:_SMALL] * r.own[:, FIXED, None],
            1e-9,
        ),
        source=FAIR,
    ),
    Claim(
        "The least losses are known to 0.02 from both sides.",
        judge=lambda r, c: at_most((r.loss - r.floor)[:, FIXED].max(), 0.02),
        source=FAIR,
        kind="control",
    ),
    Claim(
        "What features can gain grows like the square root of B.",
        judge=lambda r, c: exponent_between(r.norms[:_SMALL], _gain(r), 0.45, 0.55),
        source=MIXTURE,
        kind="printed",
        formula=r"\sqrt{2NB}",
    ),
    Claim(
        "What features can gain grows in proportion to B.",
        judge=lambda r, c: exponent_between(r.norms[:_SMALL], _gain(r), 0.99, 1.01),
        source=MIXTURE,
        kind="corrected",
        formula=r"\sqrt{2N}\,B",
    ),
    Claim(
        "Patterns outside of the set are independent in the mixture with p_o = 0.3.",
        judge=lambda r, c: identity(r.covariance[0], 0.0, 1e-12),
        source=DATA,
        kind="printed",
    ),
    Claim(
        "Patterns outside of the set are independent in the mixture with p_o = ½.",
        judge=lambda r, c: identity(r.covariance[1], 0.0, 1e-12),
        source=DATA,
        kind="corrected",
    ),
    Claim(
        "A single feature that knows the set has no loss at B = 1, below every bound.",
        judge=lambda r, c: median_at_most(r.loss[:, 3, 0, r.norms >= 1].min(axis=1), 0.01),
        source=FAIR,
        kind="control",
    ),
    Claim(
        "Different parities are uncorrelated, exactly.",
        judge=lambda r, c: identity(r.correlation, 0.0, 0.0),
        source=QUERIES,
    ),
    Claim(
        "No entry of the first gradient tells more than 1/τ² parities from the others.",
        judge=lambda r, c: holds(r.tolerances**-2 - r.told),
        source=QUERIES,
    ),
    Claim(
        "On fair signs D queries about the inputs' signs do not find the set, of either oracle.",
        judge=lambda r, c: median_at_most(r.found[:, 0].max(axis=1), 0.0),
        source=QUERIES,
    ),
    Claim(
        "On the mixture with structure the same D queries do.",
        judge=lambda r, c: median_at_least(r.found[:, 1].min(axis=1), 1.0),
        source=QUERIES,
        kind="control",
    ),
    Claim(
        "The concept 1[Σⱼ (1 − φ̃ⱼ) odd] is the product of the relevant signs.",
        judge=lambda r, c: identity(r.agreement[0], 1.0, 1e-12),
        source=CONCEPT,
        kind="printed",
    ),
    Claim(
        "Summed over the set, even, and in ±1, it is.",
        judge=lambda r, c: identity(r.agreement[1], 1.0, 1e-12),
        source=CONCEPT,
        kind="corrected",
    ),
    Claim(
        "Online descent on convex losses never violates the regret inequality.",
        judge=lambda r, c: holds(r.regret),
        source=REGRET,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses and bounds over norms, correlations, and what queries tell."""
    figure, axes = panels("fair signs", "mixture with structure", "parities told by one query")
    for law in range(2):
        for kind, name in enumerate(KINDS):
            losses = result.loss[:, kind, law]
            axes[law].semilogx(result.norms, losses.T, color=COLOURS[kind], alpha=0.25)
            axes[law].plot(result.norms, losses.mean(axis=0), color=COLOURS[kind], label=name)
        axes[law].plot(result.norms, result.theorem[law], label="theorem", **THEORY)
        axes[law].plot(result.norms, result.counted[law], ":", color="#222222", label="counted")
        axes[law].set(xlabel="length B of the weights", ylim=(-0.05, 1.05))
    axes[0].set_ylabel("least hinge loss")
    axes[0].legend(fontsize=7)
    axes[2].loglog(result.tolerances, np.maximum(result.told, 0.5).T, "o", color=COLOURS[1])
    axes[2].plot(result.tolerances, result.tolerances**-2, label="1/τ²", **THEORY)
    axes[2].set_xlabel("tolerance τ")
    axes[2].legend(fontsize=7)
    return figure
