"""Fixed features have a hinge loss on parities that a proven lower bound keeps high.

Random, tangent and Fourier features are drawn before the parity is. All 2ᴰ inputs are listed, so
that correlations with every parity are exact, and the least hinge loss with weights of length B is
solved with a certificate from below. The bound holds because few features cannot correlate with
many parities.

Where the source prints √(2NB), features gain in proportion to B. At its own sizes (k = 5, N = 600)
the theorem says nothing for B above 0.92. As kernels, features are bounded by their mean squared
length κ in place of their number N.

Source: shi · fixed-feature-bound · Theorems 2.2, A.22, A.23; Corollary 2.3; shi · ch2-bounds ·
Theorem A.21.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import at_most, exponent_between, holds, identity, median_at_most
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.features.emergence.bounds import hinge_regret_margin
from theorylab.features.emergence.lower_bounds import (
    best_hinge,
    kernel_lower_bound,
    lower_bound,
    mixture_chances,
    num_parities,
    parity_coefficients,
    parity_rows,
)
from theorylab.fields import Count, Increasing, Positive
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._listed_inputs import ListedInputs, draw

PRECISION = "float64"
FORMULA = r"\min_{\|w\| \leq B} \mathcal{L} \geq 1 - B\,\|\mathbb{E}[\chi_A \Psi]\|, \quad \sum_A \|\mathbb{E}[\chi_A \Psi]\|^2 \leq N"  # noqa: E501

FAIR = Source("shi", "fixed-feature-bound", "Theorem A.23")
MIXTURE = Source("shi", "fixed-feature-bound", "Theorems 2.2, A.22")
KERNELS = Source("shi", "fixed-feature-bound", "Corollary 2.3")
REGRET = Source("shi", "ch2-bounds", "Theorem A.21")

KINDS = ("random", "tangent", "Fourier", "knows the set")
FIXED = slice(3)  # kinds that were drawn before the set
TANGENT, KNOWING = 1, 3  # places among them
LAWS = (1.0, 0.5)  # probability of fair signs: fair signs alone, and the mixture with structure


@dataclass(frozen=True)
class Config(ListedInputs):
    """The least hinge loss of fixed features on parities of k signs."""

    norms: Increasing[Positive] = (0.02, 0.04, 0.5, 1.0, 2.0)  # B; two short ones first
    num_solver_steps: Count = 300
    num_descent_steps: Count = 100  # of the online descent whose regret is checked

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.norms) < 3 or self.norms[-1] >= 1e6:
            raise ValueError(f"norms must be three or more below 10⁶, got {self.norms}.")


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


class Result(NamedTuple):
    """What was measured: seeds (s), kinds (f), laws (2: fair, mixture), norms (b)."""

    energy: Float[Measured, "*s f"]  # Σ_A ‖c_A‖² over all sets
    square: Float[Measured, "*s f"]  # E‖Ψ‖²
    mean: Float[Measured, "*s f"]  # of ‖c_A‖ over sets of k signs
    own: Float[Measured, "*s f"]  # ‖c_A‖ of the set drawn
    loss: Float[Measured, "*s f 2 b"]
    floor: Float[Measured, "*s f 2 b"]
    regret: Float[Measured, "*s"]


def memory(config: Config) -> int:
    """Bytes of features, coefficients and the solver's candidates, of two seeds at once."""
    numbers = 2**config.dimension * len(KINDS) * config.num_features
    descent = config.num_descent_steps * 8 * config.num_features
    return 8 * 2 * (4 * numbers + 4 * descent)


def run(config: Config) -> Result:
    """Draw features, then sets; correlate, and solve."""
    report("solving for the best weights", 0.1)
    return ensemble(partial(_measured, x=config.inputs, config=config), config.keys)


def _measured(key: RandomKey, x: Float[Array, "n d"], config: Config) -> Result:
    """One draw of features and of a set."""
    drawn = draw(key, x, config)
    fixed, labels = drawn.features, drawn.labels
    knowing = jnp.zeros_like(fixed[0]).at[:, 0].set(labels)
    features = jnp.concatenate([fixed, knowing[None]])
    lengths = jnp.linalg.norm(jax.vmap(parity_coefficients)(features), axis=2)
    own = jnp.sum(2 ** (config.dimension - 1 - drawn.relevant))
    chances = jnp.stack([mixture_chances(x, drawn.relevant, p) for p in LAWS])
    solve = partial(best_hinge, labels=labels, num_steps=config.num_solver_steps)
    by_norm = jax.vmap(lambda f, c, b: solve(f, chances=c, norm_bound=b), (None, None, 0))
    by_law = jax.vmap(by_norm, (None, 0, None))
    solved = jax.vmap(by_law, (0, None, None))(features, chances, jnp.array(config.norms))
    best = solved.weights[0, 0, -1]
    start_key, batch_key = jax.random.split(drawn.descent_key)
    start = jax.random.normal(start_key, best.shape) / config.num_features**0.5
    batches = jax.random.randint(batch_key, (config.num_descent_steps, 8), 0, len(x))
    return Result(
        energy=(lengths**2).sum(axis=1),
        square=(features**2).sum(axis=2).mean(axis=1),
        mean=lengths[:, parity_rows(config.dimension, config.num_bits)].mean(axis=1),
        own=lengths[:, own],
        loss=solved.loss,
        floor=solved.floor,
        regret=hinge_regret_margin((labels[:, None] * fixed[0])[batches], start, best, 0.1),
    )


def theorem(config: Config) -> Float[np.ndarray, "2 b"]:
    """The theorem's lower bound, for both laws and all norms."""
    sizes = config.dimension, config.num_bits, config.num_features
    return np.array([[lower_bound(*sizes, b, p).theorem for b in config.norms] for p in LAWS])


def counted(config: Config) -> Float[np.ndarray, "2 b"]:
    """The sharper one that counts parities."""
    sizes = config.dimension, config.num_bits, config.num_features
    return np.array([[lower_bound(*sizes, b, p).counted for b in config.norms] for p in LAWS])


def _kernel_bound(result: Result, config: Config) -> Float[np.ndarray, "3 2 b"]:
    """The counted bound with κ = E‖Ψ‖² in place of N."""
    bound = partial(kernel_lower_bound, config.dimension, config.num_bits)
    kappas = result.square.mean(axis=0)[FIXED]
    return np.array([[[bound(b, k, p) for b in config.norms] for p in LAWS] for k in kappas])


SMALL = 2  # the first norms, at which no input is beyond the hinge


def _gain(result: Result) -> np.ndarray:
    """What short weights on tangent features gain over the loss 1, with structure."""
    return 1 - result.loss[:, TANGENT, 1, :SMALL]


CLAIMS = (
    FAIR.claim(
        "Squared correlations with all parities sum to the features' mean squared length.",
        lambda r, c: identity(r.energy, r.square, 1e-10),
    ),
    FAIR.claim(
        "Averaged over parities of k signs, features correlate by at most √(N/C(D, k)).",
        lambda r, c: holds(
            np.sqrt(c.num_features / num_parities(c.dimension, c.num_bits)) - r.mean[:, FIXED]
        ),
    ),
    FAIR.claim(
        "On fair signs no fixed features come below the theorem's bound, for any set drawn.",
        lambda r, c: holds(r.loss[:, FIXED, 0] - theorem(c)[0]),
        formula=r"\mathcal{L} \geq 1 - \sqrt{2N} B / 2^k",
    ),
    MIXTURE.claim(
        "On the mixture with structure they do not come below half of it.",
        lambda r, c: holds(r.loss[:, FIXED, 1] - theorem(c)[1]),
    ),
    MIXTURE.claim(
        "Averaged over sets they stay above the sharper bound that counts parities.",
        lambda r, c: holds(r.floor[:, FIXED].mean(axis=0) - counted(c)),
    ),
    KERNELS.claim(
        "As kernels they stay above the bound with κ = E‖Ψ‖² in place of N.",
        lambda r, c: holds(r.floor[:, FIXED].mean(axis=0) - _kernel_bound(r, c)),
        formula=r"p_o (1 - L \sqrt{\kappa / \tbinom{D}{k}})",
    ),
    FAIR.claim(
        "Short weights gain the length of the correlation: the loss is 1 − B‖E[χΨ]‖ exactly.",
        lambda r, c: identity(
            r.loss[:, FIXED, 0, :SMALL],
            1 - np.array(c.norms[:SMALL]) * r.own[:, FIXED, None],
            1e-9,
        ),
    ),
    FAIR.control(
        "The least losses are known to 0.02 from both sides.",
        lambda r, c: at_most((r.loss - r.floor)[:, FIXED].max(), 0.02),
    ),
    *MIXTURE.erratum(
        printed=(
            "What features can gain grows like the square root of B, as √(2NB).",
            lambda r, c: exponent_between(np.array(c.norms[:SMALL]), _gain(r), 0.45, 0.55),
        ),
        corrected=(
            "What features can gain grows in proportion to B.",
            lambda r, c: exponent_between(np.array(c.norms[:SMALL]), _gain(r), 0.99, 1.01),
        ),
        formula=r"\sqrt{2N}\,B",
    ),
    FAIR.control(
        "A single feature that knows the set has no loss at B = 1, below every bound.",
        lambda r, c: median_at_most(
            r.loss[:, KNOWING, 0, np.array(c.norms) >= 1].min(axis=1), 0.01
        ),
    ),
    REGRET.claim(
        "Online descent on convex losses never violates the regret inequality.",
        lambda r, c: holds(r.regret),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Least losses and bounds over norms, for both laws."""
    figure, axes = panels("fair signs", "mixture with structure")
    for law, axis in enumerate(axes):
        curves(axis, config.norms, {name: result.loss[:, i, law] for i, name in enumerate(KINDS)})
        axis.plot(config.norms, theorem(config)[law], label="theorem", **THEORY)
        axis.plot(config.norms, counted(config)[law], ":", color="#222222", label="counted")
        axis.set_ylim(-0.05, 1.05)
        axis.legend(fontsize=7)
        label_axes(axis, "length B of the weights", "least hinge loss", logarithmic="x")
    return figure
