"""Multi-index models in one step: the first gradient is the target's Hessian times the weights.

Algorithm 7 first regresses a linear function out of the target, y = g*(x) − ρ − ⟨β, x⟩, and takes
one step on the square loss ½(f − y)² from a network with zero output, which forgets its start:

    w⁽¹⁾ = η⁽¹⁾ a⁽⁰⁾ G(w⁽⁰⁾),   G(w) = E[y x 1[⟨w, x⟩ > 0]],   x ~ N(0, I_d)

With ŵ = w/‖w‖ and H = E ∇²g*, to leading order √(2π) G = Hŵ: the step moves all neurons into the
span of the directions on which g* depends, if H has full rank there. For y = ½(⟨x, Hx⟩ − tr H),
exactly

    √(2π) G(w) = Hŵ − ½ ⟨ŵ, Hŵ⟩ ŵ

The mean over n samples adds noise. As β, too, is a mean over them, what is left of an entry outside
the span is the mean of ½ y xⱼ sign⟨w, x⟩, of variance ¼E[y²]/n. The signal is ‖Hŵ‖² = S tr H²/d, so
the share of ‖w⁽¹⁾‖² in the span is, for large d and a quadratic target, whose E[y²] is ½ tr H²,

    E[S/(S + c)],    c = πd²/4n,    S = Σ λᵢ²zᵢ²/Σ λᵢ²,    z ~ N(0, I_r),  λ the eigenvalues of H,

a function of n/d². Then biases are drawn anew, b ~ N(0, 1), and the output layer is trained alone;
the predictor adds ρ + ⟨β, x⟩ back. A target without curvature, such as He₃, is not found.

Source: shi · case-multi-index · B.5.7, Algorithm 7, Lemma B.68.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import integrate

from theorylab.typing import RandomKey, Scalar

from .gradient_features import finite_gradients
from .network import FiniteLaw, ReluNetwork, symmetrized


class Regressed(NamedTuple):
    """What is left of a target, and the linear function that was taken out."""

    residual: Float[Array, " n"]
    mean: Float[Array, ""]  # ρ
    slope: Float[Array, " d"]  # β


def regress_out(law: FiniteLaw) -> Regressed:
    """Y = g* − ρ − ⟨β, x⟩ with ρ = mean of g*, β = mean of g* x, as x has covariance I.

    Args:
        law: The samples, with the target as y.

    Example:
        >>> x = jnp.array([[1.0], [-1.0]])
        >>> left = regress_out(FiniteLaw(x, 3.0 + 2.0 * x[:, 0], jnp.array([0.5, 0.5])))
        >>> left.residual.tolist(), float(left.mean), left.slope.tolist()
        ([0.0, 0.0], 3.0, [2.0])
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

    Example:
        >>> start = index_start(jax.random.key(0), width=2, dimension=3)
        >>> start.weights.shape, bool(jnp.abs(start(jnp.ones((1, 3)))).max() < 1e-9)
        ((8, 3), True)
    """
    for name, value in (("width", width), ("dimension", dimension)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    output_key, weight_key = jax.random.split(key)
    a = jax.random.rademacher(output_key, (width,)).astype(float)
    w = jax.random.normal(weight_key, (width, dimension)) / math.sqrt(dimension)
    return symmetrized(ReluNetwork(a, w, jnp.zeros(width, w.dtype)))


def index_step(start: ReluNetwork, law: FiniteLaw, learning_rate: Scalar) -> ReluNetwork:
    """w⁽¹⁾ = η⁽¹⁾ a⁽⁰⁾ G(w⁽⁰⁾), on samples from which a linear function was regressed out.

    Args:
        start: From `index_start`.
        law: The samples, with the residual as y.
        learning_rate: η⁽¹⁾; λ⁽¹⁾ = 1/η⁽¹⁾.

    Example:
        >>> from theorylab.data import quadratic_index
        >>> start = index_start(jax.random.key(0), width=4, dimension=4)
        >>> data = quadratic_index(4, 1).sample(jax.random.key(1), 4000)
        >>> law = FiniteLaw(data.x, data.y[:, 0], jnp.full(4000, 1 / 4000))
        >>> moved = index_step(start, law, learning_rate=1.0)
        >>> bool(span_share(moved.weights, jnp.eye(4)[:1]) > 0.6)
        True
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

    Example:
        >>> found = quadratic_gradients(jnp.diag(jnp.array([1.0, 0.0])), jnp.eye(2))
        >>> [[round(value, 4) for value in row] for row in found.tolist()]
        [[0.1995, 0.0], [0.0, 0.0]]
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


def limit_share(
    num_samples: float | int, dimension: float | int, curvatures: tuple[float, ...] = (1.0, 1.0)
) -> float:
    """E[S/(S + c)], c = πd²/4n: the mean share of ‖w⁽¹⁾‖² in the span, for large d.

    With 1/(S + c) = ∫ e^(−u(S + c)) du over u > 0, and the Laplace transform of a weighted sum of
    squares, it is 1 − c ∫ e^(−cu) Πᵢ (1 + 2uλᵢ²/Σλ²)^(−½) du. For two equal curvatures that is
    1 − c eᶜ E₁(c).

    Args:
        num_samples: n.
        dimension: d.
        curvatures: λ, the eigenvalues of H that are not 0; only their ratios matter.

    Example:
        >>> round(limit_share(20 * 64**2, 64), 3)
        0.89
    """
    if not (num_samples > 0 and dimension > 0 and curvatures and all(curvatures)):
        raise ValueError(
            "num_samples and dimension must be positive and curvatures not 0, got "
            f"{num_samples}, {dimension} and {curvatures}."
        )
    noise = math.pi * dimension**2 / (4 * num_samples)
    parts = np.square(curvatures) / np.sum(np.square(curvatures))

    def integrand(v: float) -> float:  # v = cu
        return math.exp(-v - np.log1p(2 * v / noise * parts).sum() / 2)

    return 1 - integrate.quad(integrand, 0, math.inf)[0]


def descend_square_loss(
    hidden: Float[Array, "n m"],
    y: Float[Array, " n"],
    outputs: Float[Array, " m"],
    num_steps: Scalar,
) -> Float[Array, " m"]:
    """The output layer after T steps of size 1/L on ½ mean (⟨a, h⟩ − y)², all at once.

    In the eigenbasis of the features' second moment every step multiplies an error by 1 − λ/L.

    Args:
        hidden: h, one row for each sample.
        y: What is learned.
        outputs: a⁽⁰⁾.
        num_steps: T.

    Example:
        >>> hidden, y = jnp.eye(2), jnp.array([1.0, -1.0])
        >>> descend_square_loss(hidden, y, jnp.zeros(2), num_steps=100).round(3).tolist()
        [1.0, -1.0]
    """
    values, basis = jnp.linalg.eigh(hidden.T @ hidden / len(y))
    values = jnp.maximum(values, 0)
    error = basis.T @ (hidden.T @ (y - hidden @ outputs) / len(y))
    left = jnp.exp(num_steps * jnp.log1p(-values / (1.000001 * values[-1])))
    # (1 − leftᵀ)/λ is the number of steps over L where λ is 0.
    reached = num_steps / values[-1]
    gain = jnp.where(values > 0, (1 - left) / jnp.maximum(values, 1e-30), reached)
    return outputs + basis @ (jnp.minimum(gain, reached) * error)
