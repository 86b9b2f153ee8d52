"""Dictionary data: inputs are sums of patterns, the label says how many of k relevant ones occur.

    x̃ = Mφ̃ + ζ,   φ̃ ∈ {0, 1}ᴰ,   y = +1 if Σ_{i∈A} φ̃ᵢ ∈ P, else −1
    x = (x̃ − E x̃)/σ̃,   σ̃² = Σⱼ Var φ̃ⱼ + d σ_ζ²,   so that E‖x‖² = 1

The columns of the dictionary M (d, D) are the patterns; ζ ~ N(0, σ_ζ² I) is noise. The relevant set
A is {1, …, k}: with a random dictionary every set is as good. A law of φ̃ is a table Pr[c, s] of a
hidden component c and of the number s of relevant patterns, which stand at random places of A;
patterns outside of A occur independently, with a probability that may depend on c.

    γ = E[yφ̃ᵢ] − E[y]E[φ̃ᵢ]   i ∈ A: the structure of the inputs    E[yφᵢ] = γ/σ̃ if E[y] = 0
    p_o = Pr[φ̃ⱼ = 1]          j ∉ A                                E|φⱼ| = 2p_o(1 − p_o)/σ̃

    parity mixture    p_o · (all fair coins) + (1 − p_o) · (A all 0 or all 1): γ = (1 − p_o)/2
    independent       coins with one probability in A, another outside; both ½: no structure

Theory wants the patterns outside of A independent of all others. The mixture has that at p_o = ½
only (where the source uses it): else its components have different coins, and patterns covary.
Working in the coordinates of the dictionary, M = I, loses nothing if its columns are orthonormal.

Source: shi · dict-data · §2.3, A.5, A.7; shi · general-dict · A.8.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import check_at_least

_MOST_PATTERNS = 2**20  # so that no size is huge
_MOST_RELEVANT = 1000  # binomial coefficients stay finite


@dataclass(frozen=True)
class CountLaw:
    """A law of patterns and labels: the label is a function of the count of relevant patterns.

    Args:
        num_patterns: The number of patterns D.
        positive: The counts P for which y = +1.
        table: Pr[c, s]: a row for every component c, a column for every count s = 0 … k.
        others: The probability of each pattern outside of A, in every component.

    Example:
        >>> law = CountLaw(num_patterns=4, positive=(2,), table=((0.5, 0.0, 0.5),), others=(0.5,))
        >>> law.num_relevant, law.class_probabilities, law.structure
        (2, (0.5, 0.5), 0.5)
    """

    num_patterns: int
    positive: tuple[int, ...]
    table: tuple[tuple[float, ...], ...]
    others: tuple[float, ...]

    def __post_init__(self) -> None:
        if len({len(row) for row in self.table}) != 1 or len(self.table) != len(self.others):
            raise ValueError("table must have rows of one length, one for each of others.")
        k = self.num_relevant
        if not 1 <= k <= self.num_patterns <= _MOST_PATTERNS:
            raise ValueError(
                f"num_patterns must be in [num_relevant = {k}, {_MOST_PATTERNS}] "
                f"and num_relevant at least 1, got {self.num_patterns}."
            )
        if not all(0 <= count <= k for count in self.positive):
            raise ValueError(f"positive counts must be in [0, {k}], got {self.positive}.")
        if not all(0 <= chance <= 1 for chance in self.others):
            raise ValueError(f"probabilities must be in [0, 1], got {self.others}.")
        # A comparison with NaN is false, so what must hold is asked for.
        entries = [entry for row in self.table for entry in row]
        if not all(entry >= 0 for entry in entries) or not abs(sum(entries) - 1) <= 1e-9:
            raise ValueError(f"table must have probabilities that sum to 1, got {self.table}.")

    @property
    def num_relevant(self) -> int:
        """The number k of relevant patterns."""
        return len(self.table[0]) - 1

    @property
    def labels(self) -> Float[np.ndarray, " counts"]:
        """The label ±1 of every count s = 0 … k."""
        return np.where(np.isin(np.arange(self.num_relevant + 1), self.positive), 1.0, -1.0)

    @property
    def counts(self) -> Float[np.ndarray, " counts"]:
        """Pr[s]."""
        return np.asarray(self.table).sum(axis=0)

    @property
    def class_probabilities(self) -> tuple[float, float]:
        """Pr[y = −1] and Pr[y = +1]."""
        positive = float(self.counts[self.labels > 0].sum())
        return 1 - positive, positive

    @property
    def class_means(self) -> tuple[float, float]:
        """E[φ̃ᵢ | y = −1] and E[φ̃ᵢ | y = +1] of a relevant pattern; NaN if y is never so."""
        shares = np.arange(self.num_relevant + 1) / self.num_relevant
        negative, positive = (
            (self.counts * shares)[self.labels == label].sum() for label in (-1, 1)
        )
        minus, plus = self.class_probabilities
        return float(np.divide(negative, minus)), float(np.divide(positive, plus))

    @property
    def structure(self) -> float:
        """γ = E[yφ̃ᵢ] − E[y]E[φ̃ᵢ] of a relevant pattern."""
        shares = np.arange(self.num_relevant + 1) / self.num_relevant
        mean = self.counts @ self.labels
        return float(self.counts @ (self.labels * shares) - mean * (self.counts @ shares))

    @property
    def balanced_structure(self) -> float:
        """γ = (E[φ̃ᵢ | +1] − E[φ̃ᵢ | −1])/2, which classes of weight 1/(2 Pr[y]) see."""
        negative, positive = self.class_means
        return (positive - negative) / 2

    @property
    def mean(self) -> Float[np.ndarray, " patterns"]:
        """E φ̃."""
        k = self.num_relevant
        relevant = float(self.counts @ np.arange(k + 1)) / k
        other = float(np.asarray(self.table).sum(axis=1) @ np.asarray(self.others))
        return np.repeat([relevant, other], [k, self.num_patterns - k])

    @property
    def other_covariance(self) -> float:
        """Cov(φ̃ᵢ, φ̃ⱼ) of two patterns outside of A: 0 if all components have one coin."""
        weights, others = np.asarray(self.table).sum(axis=1), np.asarray(self.others)
        return float(weights @ others**2 - (weights @ others) ** 2)

    def scale(self, dimension: int = 0, noise: float = 0.0) -> float:
        """σ̃ = √(Σⱼ Var φ̃ⱼ + d σ_ζ²).

        Args:
            dimension: The dimension d of the inputs, if there is noise.
            noise: The standard deviation σ_ζ of the noise of each.
        """
        return _scale(self.mean, dimension, noise)

    def resampled(self, negative_fraction: float) -> "CountLaw":
        """The law with another share of the class −1; within a class it is as it was."""
        minus, plus = self.class_probabilities
        if not 0 < negative_fraction < 1 or not 0 < minus < 1:
            raise ValueError(
                "negative_fraction must be in (0, 1), and both classes must occur, "
                f"got {negative_fraction} and Pr[y = −1] = {minus}."
            )
        shares = negative_fraction, 1 - negative_fraction
        factors = np.where(self.labels < 0, shares[0] / minus, shares[1] / plus)
        table = np.asarray(self.table) * factors
        return replace(self, table=tuple(map(tuple, table.tolist())))

    def sample(
        self, key: RandomKey, num_samples: int
    ) -> tuple[Float[Array, "n patterns"], Float[Array, " n"]]:
        """Draw patterns φ̃ and labels y."""
        check_at_least("num_samples", num_samples, 1)
        n, k, total = num_samples, self.num_relevant, self.num_patterns
        of_row, of_place, of_other = jax.random.split(key, 3)
        ends = jnp.asarray(np.cumsum(np.ravel(self.table))[:-1])
        row = jnp.searchsorted(ends, jax.random.uniform(of_row, (n,)), side="right")
        component, count = row // (k + 1), row % (k + 1)
        # The count's patterns stand at the places of the smallest of k uniform numbers.
        order = jax.random.uniform(of_place, (n, k))
        rank = (order[:, :, None] > order[:, None, :]).sum(axis=2)
        chance = jnp.asarray(self.others)[component]
        others = jax.random.uniform(of_other, (n, total - k)) < chance[:, None]
        patterns = jnp.concatenate([rank < count[:, None], others], axis=1)
        return patterns.astype(float), jnp.asarray(self.labels)[count]


@dataclass(frozen=True)
class ListedLaw:
    """A law of patterns and labels without counts: y says from which list the relevant ones come.

    The relevant patterns are one of the vectors of two lists, all equally likely; the others are
    fair coins.

    Args:
        num_patterns: The number of patterns D.
        negative: The vectors of y = −1, rows of 0 and 1.
        positive: The vectors of y = +1.
    """

    num_patterns: int
    negative: tuple[tuple[int, ...], ...]
    positive: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.negative + self.positive}
        if len(lengths) != 1 or not self.negative or not self.positive:
            raise ValueError("lists must not be empty, and have vectors of one length.")
        if not 1 <= self.num_relevant <= self.num_patterns <= _MOST_PATTERNS:
            raise ValueError(
                f"num_patterns must be in [num_relevant = {self.num_relevant}, {_MOST_PATTERNS}], "
                f"got {self.num_patterns}."
            )

    @property
    def num_relevant(self) -> int:
        """The number k of relevant patterns."""
        return len(self.negative[0])

    @property
    def mean(self) -> Float[np.ndarray, " patterns"]:
        """E φ̃."""
        relevant = np.mean(self.negative + self.positive, axis=0)
        return np.concatenate([relevant, np.full(self.num_patterns - self.num_relevant, 0.5)])

    @property
    def structure(self) -> Float[np.ndarray, " relevant"]:
        """γᵢ = E[yφ̃ᵢ] − E[y]E[φ̃ᵢ] of every relevant pattern."""
        labels = np.repeat([-1.0, 1.0], [len(self.negative), len(self.positive)])
        vectors = np.array(self.negative + self.positive, float)
        return (labels - labels.mean()) @ vectors / len(labels)

    def scale(self, dimension: int = 0, noise: float = 0.0) -> float:
        """σ̃ = √(Σⱼ Var φ̃ⱼ + d σ_ζ²), see `CountLaw`."""
        return _scale(self.mean, dimension, noise)

    def sample(
        self, key: RandomKey, num_samples: int
    ) -> tuple[Float[Array, "n patterns"], Float[Array, " n"]]:
        """Draw patterns φ̃ and labels y."""
        check_at_least("num_samples", num_samples, 1)
        of_row, of_other = jax.random.split(key)
        vectors = jnp.asarray(self.negative + self.positive, dtype=float)
        row = jax.random.randint(of_row, (num_samples,), 0, len(vectors))
        size = (num_samples, self.num_patterns - self.num_relevant)
        others = jax.random.bernoulli(of_other, 0.5, size).astype(float)
        patterns = jnp.concatenate([vectors[row], others], axis=1)
        return patterns, jnp.where(row < len(self.negative), -1.0, 1.0)


PatternLaw = CountLaw | ListedLaw


def parity_counts(num_relevant: int) -> tuple[int, ...]:
    """P of the parity: the odd counts, so that y = Π (2φ̃ᵢ − 1) if k is odd.

    Example:
        >>> parity_counts(5)
        (1, 3, 5)
    """
    return tuple(range(1, num_relevant + 1, 2))


def threshold_counts(num_relevant: int) -> tuple[int, ...]:
    """P of the majority: counts above k/2.

    Example:
        >>> threshold_counts(5)
        (3, 4, 5)
    """
    return tuple(range(num_relevant // 2 + 1, num_relevant + 1))


def parity_mixture(
    num_patterns: int, num_relevant: int, other_probability: float = 0.5
) -> CountLaw:
    """Parity with structure: p_o · (all fair coins) + (1 − p_o) · (A all 0 or all 1).

    Args:
        num_patterns: The number of patterns D.
        num_relevant: The number k of relevant ones, odd.
        other_probability: p_o, of a pattern outside of A; at most ⅔, or the mixture has none.

    Example:
        >>> law = parity_mixture(100, 5)
        >>> law.structure, law.class_probabilities
        (0.25, (0.5, 0.5))
    """
    p, k = other_probability, num_relevant
    check_at_least("num_relevant", k, 1)
    if k % 2 == 0:
        raise ValueError(f"num_relevant must be odd, so that all and none differ in y, got {k}.")
    if not 0 < p <= 2 / 3:
        raise ValueError(f"other_probability must be in (0, 2/3], got {p}.")
    fair = [p * weight for weight in _binomial(k, 0.5)]
    ends = [(1 - p) / 2] + [0.0] * (k - 1) + [(1 - p) / 2]
    others = (0.5, p / (2 - 2 * p))
    return CountLaw(num_patterns, parity_counts(k), (tuple(fair), tuple(ends)), others)


def independent_patterns(
    num_patterns: int,
    num_relevant: int,
    positive: Collection[int],
    relevant_probability: float = 0.5,
    other_probability: float = 0.5,
) -> CountLaw:
    """All patterns independent; fair coins everywhere have no structure to learn a parity from.

    Args:
        num_patterns: The number of patterns D.
        num_relevant: The number k of relevant ones.
        positive: The counts P of y = +1, such as `parity_counts(5)` or `range(20, 31)`.
        relevant_probability: Of a pattern in A.
        other_probability: p_o, of a pattern outside.

    Example:
        >>> law = independent_patterns(100, 30, range(20, 31), relevant_probability=2 / 3)
        >>> round(law.class_probabilities[1], 3)
        0.585
    """
    check_at_least("num_relevant", num_relevant, 1)
    if num_relevant > num_patterns:
        raise ValueError(
            f"num_relevant must be at most num_patterns = {num_patterns}, got {num_relevant}."
        )
    if not 0 <= relevant_probability <= 1:
        raise ValueError(f"probabilities must be in [0, 1], got {relevant_probability}.")
    table = (_binomial(num_relevant, relevant_probability),)
    return CountLaw(num_patterns, tuple(positive), table, (other_probability,))


def listed_patterns(
    key: RandomKey, num_patterns: int, num_relevant: int, num_each: int
) -> ListedLaw:
    """Draw two lists of random vectors of fair coins, one for each label.

    Example:
        >>> law = listed_patterns(jax.random.key(0), num_patterns=10, num_relevant=3, num_each=4)
        >>> len(law.positive), law.num_relevant
        (4, 3)
    """
    check_at_least("num_relevant", num_relevant, 1)
    check_at_least("num_each", num_each, 1)
    drawn = jax.random.bernoulli(key, 0.5, (2, num_each * num_relevant)).astype(int)
    rows = np.asarray(drawn).reshape(2, num_each, num_relevant).tolist()
    negative, positive = (tuple(map(tuple, part)) for part in rows)
    return ListedLaw(num_patterns, negative, positive)


def orthonormal_dictionary(
    key: RandomKey, dimension: int, num_patterns: int
) -> Float[Array, "d patterns"]:
    """A random dictionary with orthonormal columns, uniform among all.

    Example:
        >>> columns = orthonormal_dictionary(jax.random.key(0), dimension=8, num_patterns=3)
        >>> jnp.allclose(columns.T @ columns, jnp.eye(3), atol=1e-5).item()
        True
    """
    check_at_least("dimension", dimension, num_patterns)
    entries = jax.random.normal(key, (dimension, num_patterns))
    columns, triangle = jnp.linalg.qr(entries)
    return columns * jnp.sign(jnp.diag(triangle))[None, :]


def incoherent_dictionary(
    key: RandomKey, dimension: int, num_patterns: int
) -> Float[Array, "d patterns"]:
    """Random columns of length 1, whose `incoherence` is about √(2 log D²) and not 0.

    Example:
        >>> columns = incoherent_dictionary(jax.random.key(0), dimension=8, num_patterns=20)
        >>> jnp.allclose(jnp.linalg.norm(columns, axis=0), 1.0).item()
        True
    """
    check_at_least("dimension", dimension, 1)
    entries = jax.random.normal(key, (dimension, num_patterns))
    return entries / jnp.linalg.norm(entries, axis=0, keepdims=True)


def incoherence(dictionary: Float[Array, "d patterns"]) -> Float[Array, ""]:
    """μ = √d maxᵢⱼ |⟨Mᵢ, Mⱼ⟩| of two different columns.

    Example:
        >>> float(incoherence(jnp.eye(3)))
        0.0
    """
    products = jnp.abs(dictionary.T @ dictionary)
    off_diagonal = products * (1 - jnp.eye(len(products)))
    return jnp.sqrt(dictionary.shape[0]) * off_diagonal.max()


def dictionary_data(
    key: RandomKey,
    law: PatternLaw,
    num_samples: int,
    dictionary: Float[Array, "d patterns"] | None = None,
    noise: float = 0.0,
) -> Dataset:
    """Draw inputs x = (M(φ̃ − Eφ̃) + ζ)/σ̃ and labels ±1.

    Args:
        key: Draws patterns and noise.
        law: The law of the patterns, such as `parity_mixture(100, 5)`.
        num_samples: The number of samples n.
        dictionary: M; by default the identity.
        noise: The standard deviation σ_ζ of ζ.

    Example:
        >>> print(dictionary_data(jax.random.key(0), parity_mixture(20, 3), 5))
        5 samples (20,) ─► (1,): 3 relevant of 20 patterns, E‖x‖² = 1, y = ±1. Source: synthetic.
    """
    if not 0 <= noise < float("inf"):
        raise ValueError(f"noise must be at least 0 and finite, got {noise}.")
    if dictionary is not None and dictionary.shape[1] != law.num_patterns:
        raise ValueError(
            f"dictionary must have {law.num_patterns} columns, got {dictionary.shape[1]}."
        )
    of_patterns, of_noise = jax.random.split(key)
    patterns, labels = law.sample(of_patterns, num_samples)
    x = patterns - jnp.asarray(law.mean)[None, :]
    if dictionary is not None:
        x = x @ dictionary.T
    if noise:
        x = x + noise * jax.random.normal(of_noise, x.shape)
    words = f"{law.num_relevant} relevant of {law.num_patterns} patterns, E‖x‖² = 1, y = ±1"
    x = x / law.scale(x.shape[1], noise)
    return Dataset(x, labels[:, None], words, source="synthetic")


def _binomial(trials: int, chance: float) -> tuple[float, ...]:
    """Pr[s successes], s = 0 … k."""
    check_at_least("num_relevant", trials, 1)
    if trials > _MOST_RELEVANT:
        raise ValueError(f"num_relevant must be at most {_MOST_RELEVANT}, got {trials}.")
    return tuple(
        math.comb(trials, s) * chance**s * (1 - chance) ** (trials - s) for s in range(trials + 1)
    )


def _scale(mean: Float[np.ndarray, " patterns"], dimension: int, noise: float) -> float:
    """√(Σⱼ Var φ̃ⱼ + d σ_ζ²), of patterns that are 0 or 1."""
    return math.sqrt(float((mean * (1 - mean)).sum()) + dimension * noise**2)
