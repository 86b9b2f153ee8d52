"""Piecewise-linear training: follow the linearised network, and linearise again from time to time.

With the gradients of the outputs as the columns of Z₀, H₀ = Z₀ᵀZ₀ and outputs u₀ at parameters θ₀,
gradient flow of ½ Σ (f − y)² of the linearised network has moved the parameters, after a time t, to

    θ_t = θ₀ + Z₀ H₀⁻¹ (I − e^{−tH₀}) (y − u₀).

Never linearised again it is training by a constant kernel; the more often, the nearer it comes to
gradient flow of the network itself, with an error proportional to the time between. With learning
rate η, time is η times the number of steps.

Samples may lie with several workers. Each gives the columns of Z and the residuals of its own
samples, `columns`, and never the samples; whoever has all columns makes the step, which is the same
as if the samples lay in one place.

Source: golikov · ntk-linearized-federated · 2.6.1, Eqs 2.101–2.105.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params, Scalar


class WorkerSamples(NamedTuple):
    """What one worker has: inputs, and targets of shape (n, k).

    Example: two workers, with two samples and one.
        >>> first = WorkerSamples(x=jnp.ones((2, 1)), y=jnp.zeros((2, 1)))
        >>> second = WorkerSamples(x=jnp.ones((1, 1)), y=jnp.zeros((1, 1)))
        >>> [len(worker.y) for worker in (first, second)]
        [2, 1]
    """

    x: Float[Array, "n ..."]
    y: Float[Array, "n k"]


class Columns(NamedTuple):
    """What one worker gives away: columns of Z, one for each output of each sample, and y − u.

    Example:
        >>> given = Columns(gradients=jnp.array([[2.0]]), residuals=jnp.array([4.0]))
        >>> linear_step(jnp.array([1.0]), [given], time=100.0).round(4).tolist()  # 1 + 4/2
        [3.0]
    """

    gradients: Float[Array, "c p"]  # the columns, lying
    residuals: Float[Array, " c"]


def columns(apply: Apply, params: Params, samples: WorkerSamples) -> Columns:
    """The columns of Z and the residuals of one worker's samples.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: θ₀.
        samples: What the worker has.

    Example:
        >>> samples = WorkerSamples(x=jnp.array([[2.0]]), y=jnp.array([[6.0]]))
        >>> given = columns(lambda w, x: x * w, jnp.ones((1, 1)), samples)
        >>> given.gradients.tolist(), given.residuals.tolist()
        ([[2.0]], [4.0])
    """
    outputs = jax.eval_shape(apply, params, samples.x)
    if outputs.shape != samples.y.shape:
        raise ValueError(
            f"targets must have the shape {outputs.shape} of the outputs, got {samples.y.shape}."
        )
    flat, unravel = ravel_pytree(params)

    def residuals(flat: Float[Array, " p"]) -> Float[Array, " c"]:
        return (samples.y - apply(unravel(flat), samples.x)).ravel()

    return Columns(-jax.jacrev(residuals)(flat), residuals(flat))


def linear_step(params: Params, given: Sequence[Columns], time: Scalar) -> Params:
    """θ₀ + Z₀ H₀⁻¹ (I − e^{−tH₀}) (y − u₀), from the columns of all workers.

    Directions in which H₀ is 0 do not move.

    Args:
        params: θ₀.
        given: What each worker gives.
        time: t, at least 0.

    Example: after a long time the line y = 3x is fitted.
        >>> line, start = lambda w, x: x * w, jnp.ones((1, 1))
        >>> given = columns(line, start, WorkerSamples(x=jnp.array([[2.0]]), y=jnp.array([[6.0]])))
        >>> [round(float(linear_step(start, [given], time)[0, 0]), 4) for time in (0.0, 100.0)]
        [1.0, 3.0]
    """
    if not given:
        raise ValueError("given must hold the columns of at least one worker, got none.")
    flat, unravel = ravel_pytree(params)
    gradients = jnp.concatenate([part.gradients for part in given])
    residuals = jnp.concatenate([part.residuals for part in given])
    values, vectors = jnp.linalg.eigh(gradients @ gradients.T)
    # (1 − e^{−λt})/λ, which is t at λ = 0; rounding may make λ negative.
    positive = jnp.where(values > 0, values, 1.0)
    gains = jnp.where(values > 0, -jnp.expm1(-positive * time) / positive, time)
    return unravel(flat + (vectors @ (gains * (vectors.T @ residuals))) @ gradients)


def relinearized_flow(
    apply: Apply,
    params: Params,
    workers: Sequence[WorkerSamples],
    durations: Float[Array, " t"],
    measure: Callable[[Params], Any] = lambda params: params,
) -> Any:
    """Train piece by piece: each piece follows the network linearised where the piece begins.

    Args:
        apply: The network.
        params: Its parameters at time 0.
        workers: The samples of each worker; one worker is central training.
        durations: How long each piece lasts, at least 0.
        measure: What to record at the end of each piece; the parameters by default.

    Returns:
        The records, with the pieces as the leading axis.

    Example: w² = 4 from w = 1, linearised again and again.
        >>> square = lambda w, x: w**2 * x
        >>> worker = WorkerSamples(x=jnp.ones((1, 1)), y=jnp.array([[4.0]]))
        >>> durations = jnp.array([0.05, 1.0, 1.0, 1.0])
        >>> path = relinearized_flow(square, jnp.array(1.0), [worker], durations)
        >>> [round(float(w), 2) for w in path]
        [1.27, 2.21, 2.01, 2.0]
    """
    if durations.ndim != 1 or len(durations) == 0:
        raise ValueError(f"durations must be a list of times, got shape {durations.shape}.")

    def piece(params: Params, time: Float[Array, ""]) -> tuple[Params, Any]:
        given = [columns(apply, params, samples) for samples in workers]
        moved = linear_step(params, given, time)
        return moved, measure(moved)

    return jax.lax.scan(piece, params, durations)[1]
