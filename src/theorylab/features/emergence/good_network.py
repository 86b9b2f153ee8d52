"""A network that is right about every label that counts patterns, written down neuron by neuron.

    δ_{s,a,b}(z) = a r(z − s + b) − 2a r(z − s) + a r(z − s − b),   r(z) = max(z, 0)

is a bump: ab at s, 0 outside of [s − b, s + b]. With w = σ̃ Σ_{j∈A} Mⱼ the projection ⟨w, x⟩ is the
count s minus its mean μ, so that one bump for every count, of height ±1, gives the label:

    g* = Σ_{p∈P} δ_{p−μ,2,½} − Σ_{p∉P} δ_{p−μ,2,½},    or with δ_{p−μ+¼,4,½}

where the second choice is taken if the first has a bias nearer to 0 than ⅛. Weights and biases are
divided by 4k, and the outer weights multiplied, so that every neuron stays below 1, where truncated
and plain ReLU agree. Then

    3(k + 1) neurons,   |a| ≤ 32k,   1/(32k) ≤ |b| ≤ ½.

The robust network has bumps of twice the height (and 8k for 4k): its margin y g* stays at least 1
if noise moves the count by at most ¼ (⅛ with the second choice). The source prints |a| ≤ 64k for
it; this holds for the first choice, the second has 128k.

Source: shi · good-network · Lemmas 2.5, A.1, A.2, A.29.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.data import CountLaw

from .network import TruncatedNeurons

_LEAST_BIAS = 1 / 8


def bump(
    z: Float[Array, "*shape"], centre: float, slope: float, radius: float
) -> Float[Array, "*shape"]:
    """δ_{s,a,b}(z): a tent of slope a over [s − b, s + b].

    Example:
        >>> bump(jnp.array([0.0, 1.0, 1.25, 2.0]), centre=1.0, slope=2.0, radius=0.5).tolist()
        [0.0, 1.0, 0.5, 0.0]
    """

    def ramp(z: Array) -> Array:
        return jnp.maximum(z, 0.0)

    s, a, b = centre, slope, radius
    return a * ramp(z - s + b) - 2 * a * ramp(z - s) + a * ramp(z - s - b)


def good_network(
    law: CountLaw,
    dictionary: Float[Array, "d patterns"] | None = None,
    scale: float | None = None,
    robust: bool = False,
) -> TruncatedNeurons:
    """The neurons of g*, which is y on every input without noise.

    Args:
        law: The law of the data; the label of every count.
        dictionary: M; by default the identity, inputs in its coordinates.
        scale: σ̃ by which inputs were divided; by default that of the law without noise.
        robust: Whether bumps have twice the height, so that noise in the count does little.

    Example:
        >>> from jax.random import key
        >>> from theorylab.data import dictionary_data, parity_mixture
        >>> from theorylab.features.emergence import outputs
        >>> law = parity_mixture(num_patterns=8, num_relevant=3)
        >>> data = dictionary_data(key(0), law, 50)
        >>> bool(jnp.allclose(outputs(good_network(law), data.x), data.y))
        True
    """
    k, labels = law.num_relevant, law.labels
    columns = jnp.eye(law.num_patterns) if dictionary is None else dictionary
    mean, counts = float(law.mean[:k].sum()), np.arange(k + 1)
    factor = 2 if robust else 1
    slope, shift = 2 * factor, 0.0
    corners = np.array([0.5, 0.0, -0.5])
    biases = mean - counts[:, None] + corners[None, :]  # three for every count
    if np.abs(biases).min() < _LEAST_BIAS:
        slope, shift = 4 * factor, 0.25
    biases = np.ravel(biases - shift)
    heights = np.ravel(labels[:, None] * slope * np.array([1.0, -2.0, 1.0])[None, :])
    size = 4 * factor * k
    sigma = law.scale() if scale is None else scale
    weights = sigma * columns[:, :k].sum(axis=1) / size
    return TruncatedNeurons(
        jnp.tile(weights[None, :], (len(biases), 1)),
        jnp.asarray(biases / size, columns.dtype),
        jnp.asarray(heights * size, columns.dtype),
    )
