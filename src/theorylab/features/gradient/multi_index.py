"""Multi-index models in one step: the first gradient is the target's Hessian times the weights.

Algorithm 7 first regresses a linear function out of the target, y = g*(x) − ρ − ⟨β, x⟩, and takes
one step on the square loss ½(f − y)² from a network with zero output, which forgets its start:

    w⁽¹⁾ = η⁽¹⁾ a⁽⁰⁾ G(w⁽⁰⁾),   G(w) = E[y x 1[⟨w, x⟩ > 0]],   x ~ N(0, I_d)

With ŵ = w/‖w‖ and H = E ∇²g*, to leading order √(2π) G = Hŵ: the step moves all neurons into the
span of the directions on which g* depends, if H has full rank there. For y = ½(⟨x, Hx⟩ − tr H),
exactly

    √(2π) G(w) = Hŵ − ½ ⟨ŵ, Hŵ⟩ ŵ

The mean over n samples adds noise of variance ½E[y²]/n in every direction, so the share of ‖w⁽¹⁾‖²
in the span is about

    1/(1 + πd²/(n tr H²)),

a function of n/d². Then biases are drawn anew, b ~ N(0, 1), and the output layer is trained alone;
the predictor adds ρ + ⟨β, x⟩ back. A target without curvature, such as He₃, is not found.

Source: shi · case-multi-index · B.5.7, Algorithm 7, Lemma B.68.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

from .gradient_features import finite_gradients
from .network import FiniteLaw, ReluNetwork


class Regressed(NamedTuple):
    """What is left of a target, and the linear function that was taken out."""

    residual: Float[Array, " n"]
    mean: Float[Array, ""]  # ρ
    slope: Float[Array, " d"]  # β


def regress_out(law: FiniteLaw) -> Regressed:
    """Y = g* − ρ − ⟨β, x⟩ with ρ = mean of g*, β = mean of g* x, as x has covariance I.

    Args:
        law: The samples, with the target as y.
    """
    rho = law.probabilities @ law.y
    beta = (law.probabilities * law.y) @ law.x
    return Regressed(law.y - rho - law.x @ beta, rho, beta)


def index_start(key: RandomKey, width: int, dimension: int) -> ReluNetwork:
    """Algorithm 7's start with 4m neurons: a = ±1, w ~ N(0, I/d), b = 0, symmetrised.

    Args:
        key: Draws the first m neurons.
        width: m.
        dimension: d.
    """
    for name, value in (("width", width), ("dimension", dimension)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    output_key, weight_key = jax.random.split(key)
    a = jax.random.rademacher(output_key, (width,)).astype(float)
    w = jax.random.normal(weight_key, (width, dimension)) / math.sqrt(dimension)
    a, w = jnp.concatenate([a, -a, -a, a]), jnp.concatenate([w, -w, w, -w])
    return ReluNetwork(a, w, jnp.zeros(4 * width, w.dtype))


def index_step(start: ReluNetwork, law: FiniteLaw, learning_rate: Scalar) -> ReluNetwork:
    """w⁽¹⁾ = η⁽¹⁾ a⁽⁰⁾ G(w⁽⁰⁾), on samples from which a linear function was regressed out.

    Args:
        start: From `index_start`.
        law: The samples, with the residual as y.
        learning_rate: η⁽¹⁾; λ⁽¹⁾ = 1/η⁽¹⁾.
    """
    gradients = finite_gradients(law, start.weights, start.biases)
    return start._replace(weights=learning_rate * start.outputs[:, None] * gradients)


def quadratic_gradients(
    hessian: Float[Array, "d d"], weights: Float[Array, "m d"]
) -> Float[Array, "m d"]:
    """G(w) of y = ½(⟨x, Hx⟩ − tr H): (Hŵ − ½ ⟨ŵ, Hŵ⟩ ŵ)/√(2π).

    Args:
        hessian: H.
        weights: w, one row for each neuron.
    """
    unit = weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
    moved = unit @ hessian
    along = (unit * moved).sum(axis=1, keepdims=True)
    return (moved - along * unit / 2) / math.sqrt(2 * math.pi)


def span_share(weights: Float[Array, "m d"], directions: Float[Array, "r d"]) -> Float[Array, ""]:
    """The mean over neurons of the share of ‖w‖² in the span of orthonormal directions.

    Example:
        >>> float(span_share(jnp.array([[1.0, -1.0]]), jnp.array([[1.0, 0.0]])))
        0.5
    """
    inside = ((weights @ directions.T) ** 2).sum(axis=1)
    return (inside / (weights**2).sum(axis=1)).mean()


def limit_share(num_samples: Scalar, dimension: Scalar, curvature: Scalar = 2.0) -> Scalar:
    """1/(1 + πd²/(n tr H²)), the share of ‖w⁽¹⁾‖² in the span to leading order.

    Args:
        num_samples: n.
        dimension: d.
        curvature: tr H²; 2 for a purely quadratic target with E g*² = 1.

    Example:
        >>> round(limit_share(20 * 64**2, 64), 3)
        0.927
    """
    return 1 / (1 + math.pi * dimension**2 / (num_samples * curvature))
