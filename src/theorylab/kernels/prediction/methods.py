"""What training does to one mode of the kernel, in closed form, at any time or step.

In the mode with eigenvalue s, the residual f − y obeys one linear recursion, and so does the
coefficient α with f = f₀ + sα. After time t, from f − y = 1 and α = 0:

                      residual h_t (decay)                     coefficient g_t (gain), y − f₀ = 1
    gradient flow     e^(−ts)                                  (1 − e^(−ts))/s
    descent           (1 − ηs)ᵗ                                (1 − (1 − ηs)ᵗ)/s
    heavy ball        h ← (1 + β − ηs) h − β h₋                g ← (1 + β − ηs) g − β g₋ + η
    Nesterov          gradients at the look-ahead: see `theorylab.training.nesterov`

At s = 0 the gain has the limit t (ηt for descent), which expm1 and powers of small matrices reach
without a division. Learning rates are those of the loss ½Σ(f − y)², "half_sum".

Source: golikov · kernel-flow · 1.8–1.11, 2.96–2.99; arora · momentum · §2.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, Real

from theorylab.typing import Scalar

from .modes import rounding

Times = Sequence[float | int] | Real[np.ndarray, " t"] | Real[Array, " t"]


@runtime_checkable
class Method(Protocol):
    """How the network is trained: what becomes of every mode.

    Example: any class with `decay` and `gain` is a method of training.
        >>> isinstance(Flow(), Method), isinstance(Descent(learning_rate=0.5), Method)
        (True, True)
    """

    def decay(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """h_t(s): what is left of the residual."""
        ...

    def gain(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """g_t(s): the coefficient, with sg = 1 − h."""
        ...


@dataclass(frozen=True)
class Flow:
    """Gradient flow, df/dt = −s (f − y); time ∞ is allowed and gives the pseudo-inverse.

    Example:
        >>> gain = Flow().gain(jnp.array([0.0, 2.0]), [0.5, jnp.inf])
        >>> np.asarray(gain, float).round(4).tolist()
        [[0.5, 0.3161], [0.0, 0.5]]
    """

    def decay(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """e^(−ts); at time ∞, 1 in the modes that are 0 to rounding and never move."""
        t, s = _times(times, eigenvalues), eigenvalues[None, :]
        never = jnp.isinf(t) & (s <= rounding(eigenvalues))
        return jnp.where(never, 1.0, jnp.exp(-jnp.where(never, 0.0, t) * s))

    def gain(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """(1 − e^(−ts))/s, and t at s = 0; at time ∞ the pseudo-inverse."""
        t, s = _times(times, eigenvalues), eigenvalues[None, :]
        never = jnp.isinf(t) & (s <= rounding(eigenvalues))
        t = jnp.where(never, 0.0, t)
        return jnp.where(s > 0, -jnp.expm1(-t * s) / jnp.where(s > 0, s, 1.0), t)


@dataclass(frozen=True)
class Descent:
    """Gradient descent, f ← f − ηs (f − y): stable where ηs < 2.

    Args:
        learning_rate: η.

    Example:
        >>> Descent(learning_rate=0.5).decay(jnp.array([1.0, 5.0]), [0, 1, 2]).tolist()
        [[1.0, 1.0], [0.5, -1.5], [0.25, 2.25]]
    """

    learning_rate: Scalar

    def __post_init__(self) -> None:
        _check_method(self.learning_rate)

    def decay(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """(1 − ηs)ᵗ."""
        steps = _steps(times)[:, None]
        q = 1 - self.learning_rate * eigenvalues[None, :]
        sign = jnp.where((steps % 2 == 1) & (q < 0), -1.0, 1.0)
        return sign * jnp.abs(q) ** steps.astype(q.dtype)

    def gain(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """(1 − (1 − ηs)ᵗ)/s, and ηt at s = 0."""
        steps, s = _steps(times)[:, None].astype(eigenvalues.dtype), eigenvalues[None, :]
        eta = self.learning_rate
        small = eta * s < 0.5  # where 1 − (1 − ηs)ᵗ would lose digits
        safe = jnp.where(s > 0, s, 1.0)
        slow = -jnp.expm1(steps * jnp.log1p(-jnp.where(small, eta * s, 0.0))) / safe
        fast = (1 - self.decay(eigenvalues, times)) / safe
        return jnp.where(s > 0, jnp.where(small, slow, fast), eta * steps)


@dataclass(frozen=True)
class HeavyBall:
    """The heavy ball, f ← f − ηs (f − y) + β (f − f₋), beginning at rest; stable to ηs < 2(1 + β).

    Args:
        learning_rate: η.
        momentum: β in [0, 1).

    Example:
        >>> HeavyBall(learning_rate=0.5, momentum=0.5).decay(jnp.array([1.0]), [0, 1, 2]).tolist()
        [[1.0], [0.5], [0.0]]
    """

    learning_rate: Scalar
    momentum: Scalar

    def __post_init__(self) -> None:
        _check_method(self.learning_rate, self.momentum)

    def decay(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """The exact powers of the 2 × 2 matrix of (h, h₋)."""
        return _after(self._step(eigenvalues, 0.0), [1.0, 1.0, 1.0], times)

    def gain(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """The same powers, with a push of η at every step."""
        return _after(self._step(eigenvalues, self.learning_rate), [0.0, 0.0, 1.0], times)

    def _step(self, eigenvalues: Float[Array, " n"], push: Scalar) -> Float[Array, "n 3 3"]:
        eta, beta = self.learning_rate, self.momentum
        rows = [[1 + beta - eta * eigenvalues, -beta, push], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
        return _matrices(rows, eigenvalues)


@dataclass(frozen=True)
class Nesterov:
    """Nesterov's method: u ← −s(f − y) + βu, f ← f − ηs(f − y) + ηβu, f at the look-ahead.

    Stable to ηs < 2(1 + β)/(1 + 2β).

    Args:
        learning_rate: η.
        momentum: β in [0, 1).

    Example:
        >>> Nesterov(learning_rate=0.5, momentum=0.5).decay(jnp.array([1.0]), [0, 1, 2]).tolist()
        [[1.0], [0.25], [-0.0625]]
    """

    learning_rate: Scalar
    momentum: Scalar

    def __post_init__(self) -> None:
        _check_method(self.learning_rate, self.momentum)

    def decay(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """The exact powers of the 2 × 2 matrix of (h, u)."""
        return _after(self._step(eigenvalues, 0.0), [1.0, 0.0, 1.0], times)

    def gain(self, eigenvalues: Float[Array, " n"], times: Times) -> Float[Array, "t n"]:
        """The same powers, with a push of 1 in u at every step."""
        return _after(self._step(eigenvalues, 1.0), [0.0, 0.0, 1.0], times)

    def _step(self, eigenvalues: Float[Array, " n"], push: float) -> Float[Array, "n 3 3"]:
        eta, beta, s = self.learning_rate, self.momentum, eigenvalues
        # u ← push − s f + βu, then f ← f + η (push − s f + βu), both with the f before.
        first = [1 - eta * (1 + beta) * s, eta * beta**2, eta * (1 + beta) * push]
        return _matrices([first, [-s, beta, push], [0.0, 0.0, 1.0]], eigenvalues)


def _matrices(rows: list, eigenvalues: Float[Array, " n"]) -> Float[Array, "n 3 3"]:
    """One 3 × 3 matrix for each eigenvalue."""
    one = jnp.ones_like(eigenvalues)
    return jnp.stack([jnp.stack([one * entry for entry in row], axis=-1) for row in rows], axis=-2)


def _after(step: Float[Array, "n 3 3"], start: list[float], times: Times) -> Float[Array, "t n"]:
    """The first entry of (stepᵗ start), by repeated squaring, for every t."""
    steps = _steps(times)
    state = jnp.broadcast_to(jnp.asarray(start, step.dtype), (len(steps), *step.shape[:2]))

    def square(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple, None]:
        power, state, left = carry
        moved = jnp.einsum("nij,tnj->tni", power, state)
        state = jnp.where((left % 2 == 1)[:, None, None], moved, state)
        return (power @ power, state, left // 2), None

    largest = 31 if isinstance(steps, Tracer) else int(steps.max())
    carry, _ = jax.lax.scan(square, (step, state, steps), length=largest.bit_length())
    return carry[1][..., 0]


def _times(times: Times, eigenvalues: Float[Array, " n"]) -> Float[Array, "t 1"]:
    """Times as a column; an error unless all are at least 0."""
    values = jnp.asarray(times, eigenvalues.dtype)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"times must be a non-empty list of numbers, got shape {values.shape}.")
    if not isinstance(values, Tracer) and not np.all(np.asarray(values) >= 0):
        raise ValueError(f"times must not be negative, got {np.asarray(values).tolist()}.")
    return values[:, None]


def _steps(times: Times) -> Int[Array, " t"]:
    """Numbers of steps; an error unless all are integers and at least 0."""
    values = jnp.asarray(times)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"steps must be a non-empty list of integers, got shape {values.shape}.")
    if not jnp.issubdtype(values.dtype, jnp.integer):
        raise ValueError(f"steps must be integers, got {np.asarray(values).tolist()}.")
    if not isinstance(values, Tracer) and np.asarray(values).min() < 0:
        raise ValueError(f"steps must not be negative, got {np.asarray(values).tolist()}.")
    return values


def _check_method(learning_rate: Scalar, momentum: Scalar = 0.0) -> None:
    if not isinstance(learning_rate, Tracer) and not 0 < np.asarray(learning_rate) < np.inf:
        raise ValueError(f"learning_rate must be positive, got {learning_rate}.")
    if not isinstance(momentum, Tracer) and not 0 <= np.asarray(momentum) < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}.")
