"""SGD watched at every step: the loss on all data by eigenspace, ‖K‖, and η_crit of the batch.

What a step does is known before it: it raises the loss if η > η_crit(batch), the critical learning
rate of the batch that it uses, and what it raises lies in the top eigenspace of the tangent kernel
K of all data. After such a spike ‖K‖ is smaller, so that η_crit is larger.

Source: zhu · sgd-match-rate · Fig. 4.6; zhu · sgd-ntk-drop · Fig. 4.7.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from theorylab.answers import Answer
from theorylab.training import Batches, Loss, Trajectory, empirical_risk, probed_sgd
from theorylab.training.losses import check_positive
from theorylab.training.sgd import Batch, Examples
from theorylab.typing import Apply, Measured, Params, RandomKey, Scalar

from .critical import critical_learning_rate
from .decomposition import decompose


class WatchedSteps(Answer, axes=("step",)):
    """What is seen before a step; over a run with the steps as the leading axis.

    Args:
        loss: L on all data.
        top: Its part L_≤s in the s top eigenvectors of K, for every s.
        kernel_norm: ‖K‖ on all data.
        critical: η_crit of the step's batch.
        learning_rate: η of the step.

    Example: which of two steps are above the critical learning rate.
        >>> import numpy as np
        >>> ones, critical = np.ones(2), np.array([0.4, 0.6])
        >>> steps = WatchedSteps(ones, ones[:, None], ones, critical, learning_rate=0.5 * ones)
        >>> (steps.learning_rate > steps.critical).tolist()
        [True, False]
    """

    loss: Float[Measured, "*t"]
    top: Float[Measured, "*t sizes"]
    kernel_norm: Float[Measured, "*t"]
    critical: Float[Measured, "*t"]
    learning_rate: Float[Measured, "*t"]


def watch_sgd(
    apply: Apply,
    params: Params,
    data: Examples,
    loss: Loss,
    learning_rate: Scalar | optax.Schedule,
    batch_size: int,
    num_steps: int,
    key: RandomKey,
    sizes: Sequence[int] = (1, 5),
) -> Trajectory:
    """Train by SGD without replacement; the records are `WatchedSteps`, one before every step.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w₀, any pytree of arrays.
        data: Inputs x and targets y.
        loss: The squared loss in its normalisation.
        learning_rate: η, or an optax schedule: step ─► η.
        batch_size: The number of examples in a batch; n makes it gradient descent.
        num_steps: The number of steps.
        key: The order of the examples.
        sizes: The numbers s of top eigenvectors in which the loss is decomposed.

    Example:
        >>> import jax
        >>> from theorylab.data import Dataset
        >>> from theorylab.training import squared
        >>> data = Dataset(jnp.array([[1.0], [3.0]]), jnp.zeros((2, 1)), "two points", "made up")
        >>> line, start, key = lambda w, x: x * w, jnp.ones((1, 1)), jax.random.key(0)
        >>> run = watch_sgd(line, start, data, squared("mean"), 0.1, 2, 2, key, sizes=(1,))
        >>> [round(float(value), 4) for value in run.records.loss], run.records.top.shape
        ([5.0, 0.0], (2, 1))
    """
    if not callable(learning_rate):
        check_positive("learning_rate", learning_rate)
    schedule = learning_rate if callable(learning_rate) else optax.constant_schedule(learning_rate)

    def probe(params: Params, batch: Batch, step: Int[Array, ""]) -> WatchedSteps:
        parts = decompose(apply, params, data, loss, sizes)
        critical = critical_learning_rate(apply, params, batch, loss)
        rate = jnp.asarray(schedule(step), parts.loss.dtype)
        return WatchedSteps(parts.loss, parts.top, parts.kernel_norm, critical, rate)

    return probed_sgd(
        empirical_risk(loss, apply),
        params,
        data,
        optax.sgd(schedule),
        Batches(batch_size),
        num_steps,
        probe,
        key,
    )
