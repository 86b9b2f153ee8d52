"""Losses that carry their normalisation, because every learning-rate threshold depends on it.

For outputs f and targets y of n samples with k outputs each,

    L(f, y) = s Σ ℓ(f, y)       s = 1/2, 1, 1/n, 1/(2n), 1/(nk), 1/(2nk)
                                    half_sum, sum, mean, half_mean, mean_entries, half_mean_entries

    squared        (f - y)²              zero_one    1[y f ≤ 0], or 1[argmax f ≠ argmax y]
    logistic       log(1 + exp(-y f))    cross_entropy    -Σₖ yₖ log softmax(f)ₖ
    exponential    exp(-y f)             hinge       max(1 - y f, 0)

Squared, logistic, exponential and hinge losses sum over samples and outputs (the last three take
y = ±1); cross-entropy and zero-one sum over samples. (The logistic loss is printed as
1/(1 + exp(-y f)) in the source, which would fall, not rise, with the error.)

Source: zhu · §0.1 · two loss conventions; arora · erm-core · §1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float, Real

from theorylab.typing import Apply, Inputs, Params, Scalar

Kind = Literal["squared", "logistic", "cross_entropy", "exponential", "hinge", "zero_one"]
Normalization = Literal["half_sum", "sum", "mean", "half_mean", "mean_entries", "half_mean_entries"]

# sup ℓ'' as a function of the outputs: exact for the squared loss, a bound for the others.
_CURVATURES = {"squared": 2.0, "logistic": 0.25, "cross_entropy": 0.5}
_PER_SAMPLE = ("cross_entropy", "zero_one")


@dataclass(frozen=True)
class Loss:
    """A loss and its normalisation: `loss(outputs, targets)` is a number.

    Args:
        kind: Which ℓ.
        normalization: Which s.

    Example:
        >>> loss = squared("mean")
        >>> float(loss(jnp.array([[1.0], [3.0]]), jnp.array([[0.0], [1.0]])))
        2.5
    """

    kind: Kind
    normalization: Normalization

    def __post_init__(self) -> None:
        _check("kind", self.kind, get_args(Kind))
        _check("normalization", self.normalization, get_args(Normalization))
        if self.kind in _PER_SAMPLE and self.normalization.endswith("mean_entries"):
            instead = self.normalization.removesuffix("_entries")
            raise ValueError(
                f"{self.kind} has one term per sample: use {instead}, not {self.normalization}."
            )

    def __call__(self, outputs: Array, targets: Array) -> Float[Array, ""]:
        """L(f, y) = s Σ ℓ(f, y), computed without overflow or cancellation.

        Args:
            outputs: The network's outputs f, (n, k).
            targets: The targets y, of the same shape.
        """
        if outputs.ndim != 2 or outputs.shape != targets.shape:
            raise ValueError(
                "outputs and targets must both have shape (n, k), "
                f"got {outputs.shape} and {targets.shape}."
            )
        return self.scale(*outputs.shape) * _TERMS[self.kind](outputs, targets).sum()

    def scale(self, num_samples: int, num_outputs: int = 1) -> float:
        """The factor s in front of the sum, which is also that of the gradient in the outputs."""
        _check_sizes(num_samples, num_outputs)
        n, k = num_samples, num_outputs
        scales = {"half_sum": 0.5, "sum": 1.0, "mean": 1 / n, "half_mean": 0.5 / n}
        scales |= {"mean_entries": 1 / (n * k), "half_mean_entries": 0.5 / (n * k)}
        return scales[self.normalization]

    def curvature(self, num_samples: int, num_outputs: int = 1) -> float:
        """The c with ∇²L ≈ c JᵀJ, where J is the Jacobian of the nk outputs in the parameters.

        c = s sup ℓ'': exact for the squared loss wherever the network is linear or fits, and an
        upper bound, c JᵀJ ⪰ s Jᵀ ℓ'' J, for the logistic loss and for cross-entropy.
        """
        if self.kind not in _CURVATURES:
            raise ValueError(f"{self.kind} loss has no bounded second derivative.")
        return self.scale(num_samples, num_outputs) * _CURVATURES[self.kind]

    def critical_learning_rate(
        self, top_ntk_eigenvalue: Scalar, num_samples: int, num_outputs: int = 1
    ) -> Scalar:
        """η_crit = 2 / (c λ_max(K)), above which descent of the linearised network diverges.

        Args:
            top_ntk_eigenvalue: The largest eigenvalue of the nk × nk tangent kernel K = JJᵀ.
            num_samples: The number of samples n (of the batch, for SGD).
            num_outputs: The number of outputs k.

        Example:
            >>> squared("half_sum").critical_learning_rate(4.0, num_samples=10)
            0.5
            >>> squared("mean").critical_learning_rate(4.0, num_samples=10)
            2.5
        """
        check_positive("top_ntk_eigenvalue", top_ntk_eigenvalue)
        if self.kind != "squared":
            raise ValueError(
                f"only the squared loss has a critical learning rate, not {self.kind}."
            )
        return 2 / (self.curvature(num_samples, num_outputs) * top_ntk_eigenvalue)


def squared(normalization: Normalization) -> Loss:
    """The squared loss s Σ (f - y)².

    Example:
        >>> float(squared("mean")(jnp.array([[1.0], [3.0]]), jnp.array([[0.0], [1.0]])))
        2.5
    """
    return Loss("squared", normalization)


def logistic(normalization: Normalization) -> Loss:
    """The logistic loss s Σ log(1 + exp(-y f)), y = ±1.

    Example:
        >>> round(float(logistic("mean")(jnp.zeros((2, 1)), jnp.ones((2, 1)))), 4)  # log 2
        0.6931
    """
    return Loss("logistic", normalization)


def cross_entropy(normalization: Normalization) -> Loss:
    """The cross-entropy -s Σ y log softmax(f), y a probability vector (one-hot, say).

    Example:
        >>> round(float(cross_entropy("mean")(jnp.zeros((3, 4)), jnp.eye(4)[:3])), 4)  # log 4
        1.3863
    """
    return Loss("cross_entropy", normalization)


def exponential(normalization: Normalization) -> Loss:
    """The exponential loss s Σ exp(-y f), y = ±1.

    Example:
        >>> float(exponential("sum")(jnp.zeros((2, 1)), jnp.ones((2, 1))))
        2.0
    """
    return Loss("exponential", normalization)


def hinge(normalization: Normalization) -> Loss:
    """The hinge loss s Σ max(1 - y f, 0), y = ±1.

    Example:
        >>> float(hinge("sum")(jnp.array([[0.5], [2.0]]), jnp.ones((2, 1))))
        0.5
    """
    return Loss("hinge", normalization)


def zero_one(normalization: Normalization) -> Loss:
    """The number (or share) of errors: of sign for one output, of argmax for several.

    Example:
        >>> float(zero_one("mean")(jnp.array([[0.5], [-2.0]]), jnp.ones((2, 1))))
        0.5
    """
    return Loss("zero_one", normalization)


def convert_learning_rate(
    learning_rate: Scalar, given: Loss, wanted: Loss, num_samples: int, num_outputs: int = 1
) -> Scalar:
    """η' = η s/s': descent on the wanted loss with η' is descent on the given loss with η.

    Args:
        learning_rate: The learning rate η for the given loss.
        given: The loss, with scale s, that the learning rate was meant for.
        wanted: The same loss in another normalisation, with scale s'.
        num_samples: The number of samples n.
        num_outputs: The number of outputs k.

    Example:
        >>> convert_learning_rate(1.0, squared("mean"), squared("half_sum"), num_samples=10)
        0.2
    """
    check_positive("learning_rate", learning_rate)
    if given.kind != wanted.kind:
        raise ValueError(f"losses must be of one kind, got {given.kind} and {wanted.kind}.")
    s, s_wanted = (loss.scale(num_samples, num_outputs) for loss in (given, wanted))
    return learning_rate * (s / s_wanted)


def empirical_risk(loss: Loss, apply: Apply) -> Callable[[Params, Inputs, Array], Float[Array, ""]]:
    """L̂(w; x, y) = loss(apply(w, x), y): what `sgd` takes, and `descend` on fixed x and y.

    Example:
        >>> risk = empirical_risk(squared("mean"), lambda w, x: x @ w)
        >>> float(risk(jnp.ones((2, 1)), jnp.ones((3, 2)), jnp.zeros((3, 1))))
        4.0
    """
    check_loss(loss)

    def risk(params: Params, x: Inputs, y: Array) -> Float[Array, ""]:
        return loss(apply(params, x), y)

    return risk


def _cross_entropy(outputs: Array, targets: Array) -> Array:
    return -(targets * jax.nn.log_softmax(outputs)).sum(axis=1)


def _errors(outputs: Array, targets: Array) -> Array:
    if outputs.shape[1] == 1:
        right = (outputs * targets)[:, 0] > 0
    else:
        right = outputs.argmax(axis=1) == targets.argmax(axis=1)
    # What is not a number is an error: a network that diverged must not score.
    wrong = ~right | jnp.isnan(outputs).any(axis=1)
    return wrong.astype(outputs.dtype)


_TERMS: dict[str, Callable[[Array, Array], Array]] = {
    "squared": lambda f, y: (f - y) ** 2,
    "logistic": lambda f, y: jnp.logaddexp(0.0, -y * f),
    "cross_entropy": _cross_entropy,
    "exponential": lambda f, y: jnp.exp(-y * f),
    "hinge": lambda f, y: jnp.maximum(1 - y * f, 0.0),
    "zero_one": _errors,
}


def check_positive(what: str, value: Real[ArrayLike, "..."]) -> None:
    """Raise unless all numbers are positive; traced ones have no value yet and pass.

    Example:
        >>> check_positive("learning_rate", 0.0)
        Traceback (most recent call last):
        ...
        ValueError: learning_rate must be positive, got 0.0.
    """
    # NumPy, because inside a compiled function even a known JAX number is compared in the trace.
    if not isinstance(value, Tracer) and not np.all(np.asarray(value) > 0):
        raise ValueError(f"{what} must be positive, got {value}.")


def check_loss(loss: Any) -> None:
    """Raise unless this is a loss with its normalisation.

    Example:
        >>> check_loss("squared")
        Traceback (most recent call last):
        ...
        TypeError: loss must be a Loss with its normalisation, such as squared("mean"), got ...
    """
    if not isinstance(loss, Loss):
        raise TypeError(
            f'loss must be a Loss with its normalisation, such as squared("mean"), got {loss!r}.'
        )


def _check(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}, got {value!r}.")


def _check_sizes(num_samples: int, num_outputs: int) -> None:
    if num_samples < 1 or num_outputs < 1:
        raise ValueError(
            f"a loss needs at least one sample and one output, got {num_samples} and {num_outputs}."
        )
