"""What the lemmas behind the theorem say about a run, measured.

    A.13    y g⁽¹⁾ < 1 for all but e^{−Θ(k)} of the samples: the first step is so small that in the
            second every sample still has a gradient. Measured at the theory's η⁽¹⁾, at 1e-3, and at
            300/m, which is 1 at the source's width (g is a sum over neurons, so that a smaller
            network needs a longer step to get as far)
    A.17    after the second step |a| = O(1/(km²)), ‖w‖ = O(σ̃/k), |b| = O(1/k²); measured over that
    A.21    the regret of online descent on the outer weights, which is a convex problem: from those
            of the second step, on its features, against those at the end

Orders are of gradients of the population. On n samples the outer weights after the second step are
gradients with an error of order 1/(k√n), which is far above 1/(km²) unless n is above m⁴.

Source: shi · ch2-bounds · Lemmas A.13, A.17, Theorem A.21.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.data import Dataset
from theorylab.typing import Scalar

from .bounds import ClassifierSizes, hinge_regret_margin
from .network import TruncatedNeurons, preactivations, smoothed_outputs, truncated_relu
from .stages import Emergence, Stage, step

_NUM_SAMPLES = 5000  # on which the audit is made
_BATCH = 20  # samples of a step of online descent
_MOST_STEPS = 50
_SMALL_RATE, _LARGE_RATE, _SOURCE_PAIRS = 1e-3, 1.0, 300


class LemmaAudit(NamedTuple):
    """What was measured of the lemmas."""

    beyond: Float[Array, "*seeds 3"]  # share with y g⁽¹⁾ > 1: η⁽¹⁾ of the theory, 1e-3, 300/m
    sizes: Float[Array, "*seeds 3"]  # largest |a|, ‖w‖, |b| after step 2, over the lemma's orders
    regret: Float[Array, "*seeds"]  # margin of Theorem A.21, at least 0


def beyond_margin(
    neurons: TruncatedNeurons, x: Float[Array, "n d"], y: Float[Array, "n 1"], noise: Scalar
) -> Float[Array, ""]:
    """The share of samples with y g(x; ξ) > 1, which have no gradient.

    Args:
        neurons: The network.
        x: Inputs.
        y: Labels ±1.
        noise: σ_ξ of the noise inside.

    Example:
        >>> one = TruncatedNeurons(jnp.ones((1, 1)), jnp.zeros(1), jnp.full(1, 2.0))
        >>> float(beyond_margin(one, jnp.array([[1.0], [0.0]]), jnp.ones((2, 1)), noise=0.1))
        0.5
    """
    return jnp.mean(y * smoothed_outputs(neurons, x, noise) > 1)


def audit(
    start: TruncatedNeurons,
    emerged: Emergence,
    last_outer: Float[Array, " neurons"],
    data: Dataset,
    first: Stage,
    orders: ClassifierSizes,
) -> LemmaAudit:
    """Hold a run to the lemmas.

    Args:
        start: Before the first step.
        emerged: The first two steps.
        last_outer: a at the end, the comparator of the regret.
        data: Samples that it was trained on; the first some are taken.
        first: The first stage.
        orders: Of the lemma, such as `classifier_sizes(5, 300, scale=5.0)`.

    Example:
        >>> import jax
        >>> from theorylab.data import dictionary_data, parity_mixture
        >>> from theorylab.features.emergence import classifier_sizes, emerge, emergence_stages
        >>> from theorylab.features.emergence import start_scales, unbiased_start
        >>> law = parity_mixture(num_patterns=20, num_relevant=3)
        >>> data = dictionary_data(jax.random.key(0), law, 200)
        >>> scales = start_scales(3, law.structure, law.scale())
        >>> start = unbiased_start(jax.random.key(1), 10, 20, scales)
        >>> first, second = emergence_stages(3, law.structure, law.scale(), num_pairs=10)
        >>> emerged = emerge(start, data, (first, second))
        >>> sizes = classifier_sizes(3, 10, scale=law.scale())
        >>> len(audit(start, emerged, start.outer, data, first, sizes)) > 0
        True
    """
    x, y = data.x[:_NUM_SAMPLES], data.y[:_NUM_SAMPLES]
    large = _LARGE_RATE * _SOURCE_PAIRS / (len(start.outer) / 2)
    beyond = [
        beyond_margin(
            step(start, emerged.first_gradient, first._replace(learning_rate=rate)),
            *(x, y, first.noise),
        )
        for rate in (first.learning_rate, _SMALL_RATE, large)
    ]
    second = emerged.second
    sizes = [
        jnp.abs(second.outer).max() / orders.outer,
        jnp.linalg.norm(second.weights, axis=1).max() / orders.weights,
        jnp.abs(second.biases).max() / orders.biases,
    ]
    signed = y * truncated_relu(preactivations(second, x))
    steps = min(len(signed) // _BATCH, _MOST_STEPS)
    batches = jnp.reshape(signed[: steps * _BATCH], (steps, _BATCH, -1))
    rate = 1 / jnp.mean(jnp.sum(signed**2, axis=1))
    regret = hinge_regret_margin(batches, second.outer, last_outer, rate)
    return LemmaAudit(jnp.stack(beyond), jnp.stack(sizes), regret)
