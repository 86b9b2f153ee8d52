"""The main bound of gradient feature learning, term by term, with all that it requires.

    error ≤ OPT + rB_a1 B_x1 √(2γ + √B_x2/(B_G |ℓ'(0)| n^⅓)) + ε

for width m, steps T and samples n above

    m   (rB_a1 B_x1 √(B_b/B_G))⁴/(pε⁴) + 1/√δ + log²(r/δ)/p
    T   (√r B_a2 B_b B_x1/(mp)^¼ + mb̃) (√(log m)/√(B_b B_G) + 1/(B_x1 (mp)^¼))/ε
    n   (mB_x B_a2² √B_b (mp)^½ log m/(εrB_a1 √B_G))³
        + (B_x/√B_x2 + log(Tm/pδ) + (1 + 1/B_G) √B_x2/|ℓ'(0)|)³

All constants that the source hides in O, Ω and Θ are taken to be 1, so these are orders of
magnitude and no guarantees: `main_bound` says which requirements fail, and whether the bound says
anything at all. `untuned_terms` are the same before step size and steps are chosen:

    width     2rB_a1 B_x1 √(B_b/B_G)/(mp)^¼       opening   rB_a1 B_x1 √(2γ)
    drift     η(√r B_a2 B_b Tη B_x1² + mb̃)(√(log m) B_x1 (mp)^¼/√(B_b B_G) + 1)
    regret    B_a2² B_b²/(ηTb̃² (mp)^½)

(The source's b̃ has √r B_a1 below, where the last term asks for √(rB_a1): only then it is as large
as the first.)

Source: shi · gfl-main-bound · Theorems 3.12, B.11, B.23; shi · gfl-net · hyper-parameters.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class TheoremConstants:
    """What a data law and the networks on its gradient features are bounded by.

    Args:
        num_neurons: r of the network g* on gradient features.
        entry_bound: B_a1 ≥ |aᵢ|.
        norm_bound: B_a2 ≥ ‖a‖₂.
        bias_bound: B_b ≥ |bᵢ|.
        mean_norm: B_x1 ≥ E‖x‖.
        mean_square: B_x2 ≥ E‖x‖².
        largest_norm: B_x ≥ ‖x‖.
        probability: p, with which a neuron finds a feature.
        opening: γ of the cone.
        gradient_norm: B_G, the least length of G.
        slope: |ℓ'(0)| of the loss.
    """

    num_neurons: int
    entry_bound: float
    norm_bound: float
    bias_bound: float
    mean_norm: float
    mean_square: float
    largest_norm: float
    probability: float
    opening: float
    gradient_norm: float
    slope: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}.")
        if self.probability > 1:
            raise ValueError(f"probability must be at most 1, got {self.probability}.")

    @property
    def scale(self) -> float:
        """rB_a1 B_x1, how much the output moves if all directions turn by one."""
        return self.num_neurons * self.entry_bound * self.mean_norm

    @property
    def bias(self) -> float:
        """b̃ = B_G^¼ B_a2 B_b^¾/√(rB_a1), the bias of the theorem."""
        balanced = self.gradient_norm**0.25 * self.norm_bound * self.bias_bound**0.75
        return balanced / math.sqrt(self.num_neurons * self.entry_bound)


@dataclass(frozen=True)
class Budget:
    """What is spent, and what is asked for.

    Args:
        dimension: d.
        width: m.
        num_steps: T.
        num_samples: n, in every step.
        accuracy: ε.
        failure: δ, the probability with which the bound may fail.
    """

    dimension: int
    width: int
    num_steps: int
    num_samples: int
    accuracy: float = 0.1
    failure: float = 0.05

    def __post_init__(self) -> None:
        for name in ("dimension", "num_steps", "num_samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.width < 2:
            raise ValueError(f"width must be at least 2, got {self.width}.")
        for name in ("accuracy", "failure"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be in (0, 1), got {getattr(self, name)}.")


class Requirement(NamedTuple):
    """Something that must be at least as large as what is needed."""

    name: str
    given: float
    needed: float

    @property
    def holds(self) -> bool:
        """Whether enough is given; never if a number is not known."""
        return self.given >= self.needed


class MainBound(NamedTuple):
    """The bound's terms, and the requirements that fail: with one of them, it bounds nothing."""

    optimum: float
    directions: float  # what the cones' openings cost
    accuracy: float
    requirements: tuple[Requirement, ...]

    @property
    def total(self) -> float:
        """OPT + directions + ε."""
        return self.optimum + self.directions + self.accuracy

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the requirements that fail."""
        return tuple(each.name for each in self.requirements if not each.holds)

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than the network that is zero, whose loss is 1."""
        return not self.total < 1

    def __str__(self) -> str:
        lines = [f"error ≤ {self.total:.3g}" + (", which says nothing" if self.vacuous else "")]
        for each in self.requirements:
            word = "holds" if each.holds else "FAILS"
            lines.append(f"{word}  {each.name}: {each.given:.3g} of {each.needed:.3g}")
        return "\n".join(lines)


class HyperParameters(NamedTuple):
    """Step sizes, steps and scales of the start, as the theorem chooses them."""

    bias: float  # b̃
    rate: float  # η
    num_steps: float  # T
    first_rate: float  # η⁽¹⁾
    output_scale: float  # σ_a


class Terms(NamedTuple):
    """The terms of the bound before step size and steps are chosen."""

    width: float
    opening: float
    drift: float
    regret: float


def main_bound(constants: TheoremConstants, budget: Budget, optimum: float) -> MainBound:
    """The bound with unit constants, and every requirement evaluated.

    Args:
        constants: Of the data law and of the networks on its features.
        budget: Width, steps, samples, and what is asked for.
        optimum: OPT, such as from `direction_optimum`, or that of an explicit network.

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> bound = main_bound(law, Budget(50, 100, 1000, 10**9), optimum=0.0)
        >>> bound.violated
        ('width m', 'steps T', 'samples n')
    """
    noise = math.sqrt(constants.mean_square) / (
        constants.gradient_norm * constants.slope * budget.num_samples ** (1 / 3)
    )
    return MainBound(
        optimum=optimum,
        directions=constants.scale * math.sqrt(2 * constants.opening + noise),
        accuracy=budget.accuracy,
        requirements=requirements(constants, budget),
    )


def requirements(constants: TheoremConstants, budget: Budget) -> tuple[Requirement, ...]:
    """What the bound requires of width, steps, samples and dimension, with unit constants.

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> [each.holds for each in requirements(law, Budget(50, 100, 1000, 10**9))]
        [False, False, False, True, True]
    """
    m, log_width = budget.width, math.log(budget.width)
    return (
        Requirement("width m", m, needed_width(constants, budget)),
        Requirement("steps T", budget.num_steps, _needed_steps(constants, budget)),
        Requirement("samples n", budget.num_samples, _needed_samples(constants, budget)),
        Requirement("dimension d", budget.dimension, log_width),
        Requirement("cone 1/γ", 1 / constants.opening, 1.0),
    )


def needed_width(constants: TheoremConstants, budget: Budget) -> float:
    """The width m that is required: of order r⁴/(pε⁴).

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> round(needed_width(law, Budget(50, 100, 1000, 10**9)))
        1280032
    """
    c, epsilon, delta = constants, budget.accuracy, budget.failure
    spread = c.scale * math.sqrt(c.bias_bound / c.gradient_norm)
    counted = math.log(c.num_neurons / delta) ** 2 / c.probability
    return (spread / epsilon) ** 4 / c.probability + 1 / math.sqrt(delta) + counted


def hyper_parameters(
    constants: TheoremConstants, budget: Budget, weight_scale: float = 1.0
) -> HyperParameters:
    """The step sizes, steps and scales that the theorem chooses for width m, with unit constants.

    Args:
        constants: Of the data law and of the networks on its features.
        budget: Of which width, dimension and accuracy are used.
        weight_scale: σ_w, which a case sets by its ratio b̃/σ_w.

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> chosen = hyper_parameters(law, Budget(50, 100, 1000, 10**9))
        >>> round(chosen.bias, 3), round(chosen.num_steps)
        (0.832, 2865)
    """
    c, root = constants, _root(constants, budget)
    bias = c.bias
    carried = math.sqrt(c.num_neurons) * c.norm_bound * c.bias_bound * c.mean_norm / root
    rate = budget.accuracy / ((carried + budget.width * bias) * _growth(constants, budget))
    reach = c.mean_norm * weight_scale * math.sqrt(budget.dimension) + bias
    first = min(rate, rate * bias) / (c.slope * reach)
    wide = c.slope * first * c.mean_norm * math.sqrt(c.gradient_norm * c.bias_bound)
    return HyperParameters(bias, rate, 1 / (rate * c.mean_norm * root), first, bias * root / wide)


def untuned_terms(
    constants: TheoremConstants, budget: Budget, rate: float, bias: float | None = None
) -> Terms:
    """The terms of the bound for any step size η and bias b̃, with unit constants.

    Args:
        constants: Of the data law and of the networks on its features.
        budget: Of which width and steps are used.
        rate: η.
        bias: b̃; by default the theorem's.

    Example:
        >>> law = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 1e-4, 0.5)
        >>> terms = untuned_terms(law, Budget(50, 100, 1000, 10**9), rate=1e-4)
        >>> round(terms.width, 3), round(terms.opening, 3)
        (2.127, 0.028)
    """
    c, root, steps = constants, _root(constants, budget), budget.num_steps
    b = c.bias if bias is None else bias
    moved = math.sqrt(c.num_neurons) * c.norm_bound * c.bias_bound * steps * rate * c.mean_norm**2
    return Terms(
        width=2 * c.scale * math.sqrt(c.bias_bound / c.gradient_norm) / root,
        opening=c.scale * math.sqrt(2 * c.opening),
        drift=rate * (moved + budget.width * b) * _growth(constants, budget),
        regret=(c.norm_bound * c.bias_bound / (b * root)) ** 2 / (rate * steps),
    )


def _needed_steps(constants: TheoremConstants, budget: Budget) -> float:
    c, root, m = constants, _root(constants, budget), budget.width
    carried = math.sqrt(c.num_neurons) * c.norm_bound * c.bias_bound * c.mean_norm / root
    slow = math.sqrt(math.log(m) / (c.bias_bound * c.gradient_norm)) + 1 / (c.mean_norm * root)
    return (carried + m * c.bias) * slow / budget.accuracy


def _needed_samples(constants: TheoremConstants, budget: Budget) -> float:
    c, m, epsilon = constants, budget.width, budget.accuracy
    grown = m * c.largest_norm * c.norm_bound**2 * math.sqrt(c.bias_bound * m * c.probability)
    shared = epsilon * c.num_neurons * c.entry_bound * math.sqrt(c.gradient_norm)
    trials = math.log(budget.num_steps) + math.log(m / (c.probability * budget.failure))
    root = math.sqrt(c.mean_square)
    rest = c.largest_norm / root + trials + (1 + 1 / c.gradient_norm) * root / c.slope
    return (grown * math.log(m) / shared) ** 3 + rest**3


def _root(constants: TheoremConstants, budget: Budget) -> float:
    """(mp)^¼."""
    return (budget.width * constants.probability) ** 0.25


def _growth(constants: TheoremConstants, budget: Budget) -> float:
    """√(log m) B_x1 (mp)^¼/√(B_b B_G) + 1."""
    c = constants
    wide = math.sqrt(math.log(budget.width)) * c.mean_norm * _root(constants, budget)
    return wide / math.sqrt(c.bias_bound * c.gradient_norm) + 1
