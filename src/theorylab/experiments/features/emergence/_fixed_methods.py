"""Fixed features that a network is compared with: its tangent model, random features, probes.

What only trains outer weights sees the same hidden layer in every step: it is computed once for
every sample, not once for every batch.

The first step's weights are 1e-10 of the biases' size, so that a probe of them sees constants. A
probe has no freedom of scale; `normalized` gives the weights the length of those after the second
step, by one constant, and leaves their directions.

Source: shi · exp-parity-six · Table A.1; shi · emergence-meters · A.7.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.data import Dataset
from theorylab.features.emergence.meters import normalized
from theorylab.features.emergence.network import (
    TruncatedNeurons,
    first_half,
    preactivations,
    truncated_relu,
)
from theorylab.features.emergence.stages import Emergence
from theorylab.features.fixed import (
    Features,
    accuracy,
    best_rate,
    class_accuracies,
    fit_features,
    weighted_hinge,
)
from theorylab.training import Batches
from theorylab.typing import RandomKey

from ._tasks import DictionaryTask, Setting, Theory

# In units of 1/E‖ψ‖²: at the stated size random features are best at 3 or 10, probes from 100 on.
PROBE_RATES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


class Scores(NamedTuple):
    """Accuracy and balanced accuracy: of tests at recorded steps, of training data at the end."""

    test: Float[Array, "*seeds t 2"]
    train: Float[Array, "*seeds 2"]


def fit_tangents(key: RandomKey, task: DictionaryTask, theory: Theory, setting: Setting) -> Scores:
    """Train the tangent model of the start; one neuron of every pair has all its features."""
    features = tangent_model(first_half(task.start))
    return _fitted(features, key, task, theory, setting, setting.tangent_rates)


def tangent_model(neurons: TruncatedNeurons) -> Features:
    """What `tangent_features` gives for these neurons, written out, which takes a fifth less time.

    f(x) = Σᵢ θ^a_i σ(zᵢ) + aᵢ σ′(zᵢ)(⟨θ^w_i, x⟩ + θ^b_i), with z the neurons' preactivations.
    """

    def apply(theta: TruncatedNeurons, x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
        z = preactivations(neurons, x)
        slopes = jnp.where((z > 0) & (z < 1), neurons.outer[None, :], 0.0)
        along = jnp.einsum("nm,nm->n", slopes, preactivations(theta, x))
        return (along + truncated_relu(z) @ theta.outer)[:, None]

    return Features(apply, jax.tree.map(jnp.zeros_like, neurons))


def fit_outer(
    key: RandomKey,
    neurons: TruncatedNeurons,
    task: DictionaryTask,
    theory: Theory,
    setting: Setting,
) -> Scores:
    """Train outer weights only: random features, or a probe of neurons after some steps."""

    def hidden(data: Dataset) -> Dataset:
        return replace(data, x=truncated_relu(preactivations(neurons, data.x)))

    seen = task._replace(train=hidden(task.train), test=hidden(task.test))
    linear = Features(lambda outer, x: (x @ outer)[:, None], jnp.zeros_like(neurons.outer))
    return _fitted(linear, key, seen, theory, setting, PROBE_RATES)


def fit_variants(
    key: RandomKey,
    emerged: Emergence,
    task: DictionaryTask,
    theory: Theory,
    setting: Setting,
    wanted: Bool[Array, " variants"],
) -> Scores:
    """Train outer weights on the first of four first layers, the leading axis; NaN if not wanted.

    Of the start, of the first step, of the first step normalised, and of the second.
    """
    first, second = emerged.first, emerged.second
    constant = normalized(first.weights, second.weights)
    rescaled = first._replace(weights=constant * first.weights)
    variants = (task.start, first, rescaled, second)[: len(wanted)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *variants)

    def one(given: tuple[TruncatedNeurons, Bool[Array, ""]]) -> Scores:
        neurons, is_wanted = given
        return only_if(is_wanted, lambda: fit_outer(key, neurons, task, theory, setting))

    return jax.lax.map(one, (stacked, wanted))


def only_if(wanted: Bool[Array, ""], fit: Callable[[], Scores]) -> Scores:
    """What a fit gives, or NaN in its place, at no cost."""
    shapes = jax.eval_shape(fit)
    nothing = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)
    return jax.lax.cond(wanted, fit, lambda: nothing)


def _fitted(
    features: Features,
    key: RandomKey,
    task: DictionaryTask,
    theory: Theory,
    setting: Setting,
    rates: tuple[float, ...],
) -> Scores:
    batch, risk = batches(setting), weighted_hinge(theory.class_weights)
    fitted = fit_features(
        features, task.train, task.test, risk, batch, setting.steps, key, rates, scores
    )
    chosen = best_rate(fitted, fitted.test[:, -1, 1])
    return Scores(chosen.test, chosen.train)


def batches(setting: Setting) -> Batches:
    return Batches(setting.batch_size, replace=True)


def scores(found: Array, targets: Array) -> Float[Array, "2"]:
    return jnp.stack([accuracy(found, targets), class_accuracies(found, targets).mean()])


def balanced(scored: Scores) -> Float[Array, "*seeds"]:
    """Test accuracy at the end, both classes counting equally."""
    return scored.test[..., -1, 1]
