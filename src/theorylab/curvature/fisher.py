"""Fisher matrices as operators: outer products of gradients, sample by sample.

For a loss L = s Σᵢ ℓ(f(xᵢ), yᵢ), with gᵢ = ∂ℓ/∂f at sample i and Jᵢ the Jacobian of f(xᵢ),

    empirical      v ─► s Σᵢ Jᵢᵀ gᵢ gᵢᵀ Jᵢ v           y the labels of the data
    Monte Carlo    the same                             y drawn from the network's own prediction

The network predicts the law p(y|x) ∝ exp(−ℓ): Gaussian of variance ½ for (f − y)², classes for the
cross-entropy, signs for the logistic loss. In the mean over such labels the Fisher matrix is the
Gauss–Newton matrix; with the data's own labels it is not, and vanishes where the network fits.

Source: Kunstner, Balles & Hennig (2019), Limitations of the empirical Fisher approximation.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.training import Loss
from theorylab.training.losses import check_loss
from theorylab.typing import Apply, Inputs, Params, RandomKey

from .operators import Operator, jacobian


def empirical_fisher(
    apply: Apply,
    loss: Loss,
    params: Params,
    x: Inputs,
    y: Float[Array, "n k"],
) -> Operator:
    """Give v ─► s Σᵢ ∇ℓᵢ ∇ℓᵢᵀ v.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        loss: L, with its normalisation s.
        params: w, any pytree.
        x: The inputs.
        y: The labels.

    Example:
        >>> from theorylab.training import squared
        >>> x, y, w = jnp.ones((2, 1)), jnp.zeros((2, 1)), jnp.ones((1, 1))
        >>> fisher = empirical_fisher(lambda w, x: x @ w, squared("mean"), w, x, y)
        >>> fisher(jnp.ones((1, 1))).tolist()  # the mean of (2 (f − y) x)²
        [[4.0]]
    """
    check_loss(loss)
    both = jacobian(lambda w: apply(w, x), params)
    outputs = apply(params, x)
    s = loss.scale(*outputs.shape)
    slopes = jax.grad(loss)(outputs, y) / s

    def product(vector: Params) -> Params:
        along = jnp.sum(slopes * both.forward(vector), axis=1, keepdims=True)
        return both.transpose(s * slopes * along)

    return product


def monte_carlo_fisher(
    apply: Apply, loss: Loss, params: Params, x: Inputs, key: RandomKey
) -> Operator:
    """Give the Fisher matrix with one label per sample, drawn from the network's prediction.

    Its mean over keys is the Gauss–Newton operator.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        loss: L: squared, cross-entropy or logistic, with its normalisation s.
        params: w, any pytree.
        x: The inputs.
        key: Draws the labels.

    Example:
        >>> from theorylab.training import squared
        >>> x, w = jnp.ones((500, 1)), jnp.ones((1, 1))
        >>> args = (lambda w, x: x @ w, squared("mean"), w, x)
        >>> fisher = monte_carlo_fisher(*args, jax.random.key(0))
        >>> bool(abs(fisher(jnp.ones((1, 1)))[0, 0] - 2) < 0.6)  # 2: the Gauss–Newton matrix
        True
    """
    check_loss(loss)
    return empirical_fisher(apply, loss, params, x, _predicted(loss, apply(params, x), key))


def _predicted(loss: Loss, outputs: Float[Array, "n k"], key: RandomKey) -> Float[Array, "n k"]:
    """Labels from the law ∝ exp(−ℓ)."""
    match loss.kind:
        case "squared":
            noise = jax.random.normal(key, outputs.shape, outputs.dtype)
            return outputs + math.sqrt(0.5) * noise
        case "cross_entropy":
            classes = jax.random.categorical(key, outputs)
            return jax.nn.one_hot(classes, outputs.shape[1], dtype=outputs.dtype)
        case "logistic":
            positive = jax.random.bernoulli(key, jax.nn.sigmoid(outputs))
            return jnp.where(positive, 1.0, -1.0).astype(outputs.dtype)
        case kind:
            raise ValueError(f"{kind} loss is not the logarithm of a law.")
