"""Fixed features have a hinge loss on parities that a proven lower bound keeps high.

Random, tangent and Fourier features are drawn before the parity is. All 2ᴰ inputs are listed, so
that correlations with every parity are exact, and the least hinge loss with weights of length B is
solved with a certificate from below. The bound holds because few features cannot correlate with
many parities.

The theorem is for k ≤ D/16, where inputs are too many to be listed. Here k is above D/16, and its
bound holds all the same, by a wide margin: what is proven by counting parities needs no such
condition. Features gain in proportion to the length B of the weights; the source prints √(2NB) for
√(2N) B, and both are true where it applies. As kernels, features are bounded by their mean squared
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
from theorylab.claims.judges import at_least, at_most, holds, identity, median_at_most
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
KNOWING = 3  # place of the last one
BOUNDS = ("printed", "counted")
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


def bounds(config: Config) -> Float[np.ndarray, "2 2 b"]:
    """Lower bounds as printed, and by counting parities; for both laws and all norms."""
    sizes = config.dimension, config.num_bits, config.num_features
    both = [[lower_bound(*sizes, b, p) for b in config.norms] for p in LAWS]
    return np.array([[[getattr(b, name) for b in law] for law in both] for name in BOUNDS])


def _kernel_bound(result: Result, config: Config) -> Float[np.ndarray, "3 2 b"]:
    """The counted bound with κ = E‖Ψ‖² in place of N."""
    bound = partial(kernel_lower_bound, config.dimension, config.num_bits)
    kappas = result.square.mean(axis=0)[FIXED]
    return np.array([[[bound(b, k, p) for b in config.norms] for p in LAWS] for k in kappas])


SMALL = 2  # the first norms, at which no input is beyond the hinge


def _gained(result: Result, config: Config) -> np.ndarray:
    """The largest gain over the loss 1, on fair signs, over what the printed bound allows."""
    return (1 - result.loss[:, FIXED, 0]).max(axis=(0, 1)) / (1 - bounds(config)[0, 0])


CLAIMS = (
    MIXTURE.found(
        "The printed bound holds with k above D/16, too, where it is not claimed: on fair signs "
        "and on the mixture, for every set drawn.",
        lambda r, c: holds(r.loss[:, FIXED] - bounds(c)[0]),
        formula=r"\mathcal{L} \geq p_o (1 - \sqrt{2NB} / 2^k)",
        demand="source",
    ),
    MIXTURE.found(
        "There it is loose: features gain at most half of what it allows.",
        lambda r, c: at_most(_gained(r, c).max(), 0.5),
        demand="lab: the smoke preset at seed 0 has 0.18",
    ),
    MIXTURE.control(
        "A bound a hundred times as strong would fail: some features gain more than that.",
        lambda r, c: at_least(_gained(r, c).max(), 0.01),
        demand="lab: 0.18 of what the bound allows for k = 3, and 0.016 for k = 5 (seed 0)",
    ),
    FAIR.check(
        "Squared correlations with all parities sum to the features' mean squared length.",
        lambda r, c: identity(r.energy, r.square, 1e-10),
    ),
    FAIR.found(
        "Averaged over parities of k signs, features correlate by at most √(N/C(D, k)).",
        lambda r, c: holds(
            np.sqrt(c.num_features / num_parities(c.dimension, c.num_bits)) - r.mean[:, FIXED]
        ),
        demand="derived: Parseval's identity, divided by the number of parities",
    ),
    FAIR.found(
        "Averaged over sets, losses stay above the sharper bound that counts parities.",
        lambda r, c: holds(r.floor[:, FIXED].mean(axis=0) - bounds(c)[1]),
        formula=r"p_o (1 - B \sqrt{N / \tbinom{D}{k}})",
        demand="derived: Parseval's identity, divided by the number of parities",
    ),
    KERNELS.found(
        "As kernels they stay above the bound with κ = E‖Ψ‖² in place of N.",
        lambda r, c: holds(r.floor[:, FIXED].mean(axis=0) - _kernel_bound(r, c)),
        formula=r"p_o (1 - L \sqrt{\kappa / \tbinom{D}{k}})",
        demand="derived: eigenvalues of the kernel sum to κ; the corollary has polynomials only",
    ),
    FAIR.check(
        "Short weights gain the length of the correlation: the loss is 1 − B‖E[χΨ]‖ exactly.",
        lambda r, c: identity(
            r.loss[:, FIXED, 0, :SMALL],
            1 - np.array(c.norms[:SMALL]) * r.own[:, FIXED, None],
            1e-9,
        ),
    ),
    FAIR.check(
        "The least losses are known to 0.02 from both sides.",
        lambda r, c: at_most((r.loss - r.floor)[:, FIXED].max(), 0.02),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    MIXTURE.control(
        "A single feature that knows the set has no loss at B = 1, below every bound.",
        lambda r, c: median_at_most(
            r.loss[:, KNOWING, 0, np.array(c.norms) >= 1].min(axis=1), 0.01
        ),
        quote="a small linear model on a small dimensional feature map allowing 0 loss",
        demand="lab: 0.01 for a solver that takes finitely many steps",
    ),
    REGRET.claim(
        "Online descent on convex losses never violates the regret inequality.",
        lambda r, c: holds(r.regret),
        demand="source",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Least losses and bounds over norms, for both laws."""
    figure, axes = panels("fair signs", "mixture with structure")
    for law, axis in enumerate(axes):
        curves(axis, config.norms, {name: result.loss[:, i, law] for i, name in enumerate(KINDS)})
        for name, style, bound in zip(BOUNDS, ("--", ":"), bounds(config), strict=True):
            axis.plot(config.norms, bound[law], style, color=THEORY["color"], label=name)
        axis.set_ylim(-0.05, 1.05)
        axis.legend(fontsize=7)
        label_axes(axis, "length B of the weights", "least hinge loss", logarithmic="x")
    return figure
