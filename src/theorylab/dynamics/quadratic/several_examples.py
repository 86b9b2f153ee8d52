"""Several examples on a line: the quadratic model catapults in each eigendirection by itself.

With one input (d = 1), a neuron of the two-layer ReLU network of width m sees either the positive
examples or the negative ones. So the tangent kernel of its quadratic model g has rank two,

    K = λ₊ q₊q₊ᵀ + λ₋ q₋q₋ᵀ,    q± = x± / √s±,    s± = Σ± xᵢ²,    λ± = s±/m Σ± (uₖ² + vₖ²),

where x± is x with zeros at the other sign, and Σ± goes over examples, or neurons, of that sign. The
directions q± never turn, and what is orthogonal to both is never learned. Along each, r = qᵀ(g − y)
and ȳ = qᵀy obey exactly the map of one example, with coupling c = s/m and output r + ȳ,

    r' = (1 − ηλ + cη² r(r + ȳ)) r,    λ' = λ + cη²r²λ − 4cη r(r + ȳ),

under gradient descent on ½ Σᵢ (gᵢ − yᵢ)². So direction ± catapults if and only if η > 2/λ±, and the
run diverges if η > 4/λ for one of them. The source's reduction (B.9)–(B.12) has p = x± in place of
q±, without normalisation: its u = η²/m ⟨g − y, p⟩² is cη²r² all the same, but its w, as printed,
lacks a factor ‖p‖² = s.

Source: zhu · nqm-multi · Thm 3.3.6, B.11, Eqs B.7–B.12, Fig. 3.3.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import Apply, RandomKey, Scalar

from . import gated, plane
from .gated import GatedWeights
from .plane import PlaneProblem, PlaneState, ReducedState

SIGNS = np.array([[1.0], [-1.0]])  # one example of each sign


class SignDirections(NamedTuple):
    """The two directions that the kernel has: positive examples first, then negative ones."""

    vectors: Float[Array, "2 n"]  # q, of length 1
    squares: Float[Array, " 2"]  # s = ‖p‖²


def two_gaussians(
    key: RandomKey, num_samples: int, distance: Scalar = 2.0
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Draw labels y = ±1 in turn, and x ~ N(distance · y, 1).

    Args:
        key: Of all randomness.
        num_samples: The number of examples n.
        distance: How far the means are from 0; 2 in the source.

    Returns:
        Inputs x and labels y.

    Example:
        >>> x, y = two_gaussians(jax.random.key(0), num_samples=4, distance=100.0)
        >>> y.tolist(), jnp.sign(x).tolist()
        ([1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0])
    """
    if num_samples < 2:
        raise ValueError(f"num_samples must be at least 2, got {num_samples}.")
    y = jnp.where(jnp.arange(num_samples) % 2 == 0, 1.0, -1.0)
    return distance * y + jax.random.normal(key, (num_samples,)), y


def directions(x: Float[Array, " n"]) -> SignDirections:
    """Split the examples by sign; a sign without examples has a direction 0 and s = 0.

    Example:
        >>> directions(jnp.array([3.0, -2.0, 4.0])).vectors.round(3).tolist()
        [[0.6..., 0.0, 0.8...], [0.0, -1.0, 0.0]]
    """
    parts = jnp.stack([jnp.maximum(x, 0), jnp.minimum(x, 0)])
    squares = jnp.sum(parts**2, axis=1)
    return SignDirections(parts / jnp.sqrt(jnp.where(squares > 0, squares, 1.0))[:, None], squares)


def kernel(
    weights: GatedWeights, initial: GatedWeights, x: Float[Array, " n"]
) -> Float[Array, "n n"]:
    """Compute the tangent kernel K of the quadratic model around `initial`.

    Example:
        >>> weights = GatedWeights(jnp.array([[2.0], [-1.0]]), jnp.array([3.0, 1.0]))
        >>> kernel(weights, weights, jnp.array([1.0, -1.0])).tolist()  # (u² + v²)/m for each sign
        [[6.5, 0.0], [0.0, 1.0]]
    """
    inputs = x[:, None]
    return gated.tangent_kernel(weights, gated.gates(initial, inputs), inputs)


def outputs(apply: Apply, weights: GatedWeights, x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Compute f(x) = |x| f(±1), so that the cost of a network does not grow with the examples.

    Args:
        apply: The network without biases, or its quadratic model: homogeneous in the input.
        weights: Its weights.
        x: The examples.

    Example:
        >>> weights = GatedWeights(jnp.array([[2.0]]), jnp.array([3.0]))
        >>> outputs(gated.network, weights, jnp.array([1.0, 2.0, 3.0])).tolist()  # 3 relu(2x)
        [6.0, 12.0, 18.0]
    """
    positive, negative = apply(weights, jnp.asarray(SIGNS))[:, 0]
    return jnp.abs(x) * jnp.where(x >= 0, positive, negative)


def state(
    weights: GatedWeights, initial: GatedWeights, x: Float[Array, " n"]
) -> tuple[PlaneState, Float[Array, " n"]]:
    """Give outputs qᵀg and curvatures λ± = s±/m Σ± (uₖ² + vₖ²) of both directions, and g itself.

    Args:
        weights: The current weights (u, v).
        initial: The weights around which the model is quadratic.
        x: The examples.

    Example:
        >>> weights = GatedWeights(jnp.array([[2.0], [-1.0]]), jnp.array([3.0, 1.0]))
        >>> here, _ = state(weights, weights, jnp.array([1.0, -1.0]))
        >>> [round(float(value), 3) for value in here.curvature]  # the eigenvalues of `kernel`
        [6.5, 1.0]
    """
    g = outputs(gated.quadratic_model(initial), weights, x)
    (q, squares), (u, v) = directions(x), weights
    strength = gated.gates(initial, jnp.asarray(SIGNS)) @ (u[:, 0] ** 2 + v**2) / len(v)
    return PlaneState(q @ g, squares * strength), g


def projected(
    outputs: Float[Array, " n"], kernel: Float[Array, "n n"], x: Float[Array, " n"]
) -> PlaneState:
    """Project outputs and kernel of any model on both directions: qᵀg and qᵀKq.

    Example:
        >>> x = jnp.array([1.0, -1.0])
        >>> here = projected(jnp.array([4.0, 5.0]), jnp.diag(jnp.array([2.0, 3.0])), x)
        >>> here.output.tolist(), here.curvature.tolist()  # q₊ = (1, 0), q₋ = (0, −1)
        ([4.0, -5.0], [2.0, 3.0])
    """
    q = directions(x).vectors
    return PlaneState(q @ outputs, jnp.sum((q @ kernel) * q, axis=1))


def problem(
    x: Float[Array, " n"], y: Float[Array, " n"], width: int, learning_rate: Scalar
) -> PlaneProblem:
    """Pose the problem of one example in both directions; `plane.step` then takes both.

    Args:
        x: The examples.
        y: Their targets.
        width: The width m.
        learning_rate: The step size η, for the loss ½ Σᵢ (gᵢ − yᵢ)².

    Example:
        >>> x, y = jnp.array([2.0, -1.0]), jnp.array([1.0, -1.0])
        >>> posed = problem(x, y, width=4, learning_rate=0.1)
        >>> posed.target.tolist(), posed.coupling.tolist()  # qᵀy, s/m
        ([1.0, 1.0], [1.0, 0.25])
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}.")
    q, squares = directions(x)
    return PlaneProblem(q @ y, learning_rate, squares / width)


def reduced(
    state: PlaneState, x: Float[Array, " n"], y: Float[Array, " n"], width: int, rate: Scalar
) -> ReducedState:
    """Give u, v and w of both directions, in the source's terms: with p = x± and not of length 1.

        u = η²/m ⟨g − y, p⟩²,    v = ηλ,    w = η²/m ⟨g − y, p⟩ ⟨p, y⟩

    Args:
        state: Outputs qᵀg and curvatures of both directions.
        x: The examples.
        y: Their targets.
        width: The width m.
        rate: The step size η.

    Example:
        >>> x, y = jnp.array([2.0, -1.0]), jnp.array([1.0, -1.0])
        >>> here = reduced(PlaneState(jnp.zeros(2), jnp.ones(2)), x, y, width=4, rate=1.0)
        >>> here.loss.tolist(), here.curvature.tolist(), here.pull.tolist()
        ([1.0, 0.25], [1.0, 1.0], [-1.0, -0.25])
    """
    return plane.reduce(state, problem(x, y, width, rate))


def printed_reduced(
    state: PlaneState,
    outputs: Float[Array, " n"],
    x: Float[Array, " n"],
    y: Float[Array, " n"],
    width: int,
    rate: Scalar,
) -> ReducedState:
    """Give u, v and w as they are printed before (B.9): w = η²/m ⟨(g − y) ⊙ m±, y ⊙ m±⟩.

    Where p = x± is not of length 1, this lacks the factor ‖p‖², and has what is orthogonal to p.

    Args:
        state: Outputs qᵀg and curvatures of both directions.
        outputs: The outputs g.
        x: The examples.
        y: Their targets.
        width: The width m.
        rate: The step size η.

    Example:
        >>> x, y = jnp.array([2.0, -1.0]), jnp.array([1.0, -1.0])
        >>> here = PlaneState(jnp.zeros(2), jnp.ones(2))
        >>> printed_reduced(here, jnp.zeros(2), x, y, width=4, rate=1.0).pull.tolist()
        [-0.25, -0.25]
    """
    masks = jnp.stack([x >= 0, x < 0])
    pull = rate**2 / width * jnp.sum(masks * ((outputs - y) * y)[None, :], axis=1)
    return reduced(state, x, y, width, rate)._replace(pull=pull)


def reduced_error(here: ReducedState, after: ReducedState) -> Float[Array, ""]:
    """Give the largest error of one step of (B.9)–(B.10), over the largest u and v of the run.

    Args:
        here: u, v and w at every step but the last, (t, 2) each.
        after: u and v one step later.

    Example:
        >>> zeros, ones = jnp.zeros((3, 2)), jnp.ones((3, 2))
        >>> float(reduced_error(ReducedState(zeros, ones, zeros), ReducedState(zeros, ones, zeros)))
        0.0
    """
    predicted = plane.reduced_step(here)

    def error(seen: Array, expected: Array) -> Float[Array, ""]:
        scale = jnp.abs(seen).max(axis=0, keepdims=True)
        return jnp.max(jnp.abs(seen - expected) / jnp.where(scale > 0, scale, 1.0))

    loss = error(jnp.asarray(after.loss), jnp.asarray(predicted.loss))
    return jnp.maximum(loss, error(jnp.asarray(after.curvature), jnp.asarray(predicted.curvature)))


def matrix_step(
    outputs: Float[Array, " n"],
    kernel: Float[Array, "n n"],
    x: Float[Array, " n"],
    y: Float[Array, " n"],
    width: int,
    learning_rate: Scalar,
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Take one step of outputs and kernel as (B.7)–(B.8) print it, exact with p = x±.

    Args:
        outputs: The outputs g.
        kernel: The kernel K.
        x: The examples.
        y: Their targets.
        width: The width m.
        learning_rate: The step size η.

    Example:
        >>> g, kernel = jnp.array([2.0]), jnp.array([[3.0]])  # one example: the map of `plane`
        >>> after = matrix_step(g, kernel, jnp.ones(1), jnp.zeros(1), width=4, learning_rate=1.0)
        >>> float(after[0][0]), float(after[1][0, 0])
        (-2.0, 2.0)
    """
    g, r, eta, m = outputs, outputs - y, learning_rate, width
    bent, curved = jnp.zeros_like(kernel), jnp.zeros_like(kernel)
    for mask in (x >= 0, x < 0):
        p = jnp.where(mask, x, 0.0)
        own = jnp.where(mask, r, 0.0)
        bent = bent + (own @ jnp.where(mask, g, 0.0)) * jnp.outer(p, p)  # Q
        curved = curved + (own @ kernel @ own) * jnp.outer(p, p)  # K_p
    after = r - eta * kernel @ r + eta**2 / m * bent @ r
    return y + after, kernel + eta**2 / m * curved - 4 * eta / m * bent


def projected_losses(
    outputs: Float[Array, " n"], x: Float[Array, " n"], y: Float[Array, " n"]
) -> Float[Array, " 3"]:
    """Split ½‖g − y‖² into both directions' ½(qᵀ(g − y))² and what is orthogonal to them.

    Example:
        >>> x, y = jnp.array([3.0, 4.0, -1.0]), jnp.zeros(3)
        >>> parts = projected_losses(jnp.array([-4.0, 3.0, 2.0]), x, y)
        >>> [round(float(part), 3) for part in parts]  # of ½‖(−4, 3, 2)‖² = 14.5
        [0.0, 2.0, 12.5]
    """
    q, r = directions(x).vectors, outputs - y
    along = q @ r
    rest = r - along @ q  # and not ½‖r‖² less the others, which cancels at the peak of a catapult
    return jnp.concatenate([along, jnp.linalg.norm(rest)[None]]) ** 2 / 2


def largest_eigenvalue_bounds(x: Float[Array, " n"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Bound λ_max(K) of wide networks initially: M/2 and 3M/2, M = max(s₊, s₋) (Prop. B.11.2).

    Example:
        >>> [float(bound) for bound in largest_eigenvalue_bounds(jnp.array([2.0, -1.0]))]  # M = 4
        [2.0, 6.0]
    """
    largest = directions(x).squares.max()
    return largest / 2, 3 * largest / 2


def map_error(seen: PlaneState, predicted: PlaneState, problem: PlaneProblem) -> Float[Array, ""]:
    """Give the largest error of r and λ over a run, relative to the running maximum of each.

    Args:
        seen: Outputs and curvatures along both directions, (t, 2) each.
        predicted: The same by a map.
        problem: Whose targets are subtracted from the outputs.

    Example:
        >>> one = jnp.ones((3, 2))
        >>> problem = PlaneProblem(jnp.zeros(2), learning_rate=0.1, coupling=0.1)
        >>> float(map_error(PlaneState(one, one), PlaneState(one, 1.5 * one), problem))
        0.5
    """

    def relative(a: Float[Array, "t 2"], b: Float[Array, "t 2"]) -> Float[Array, ""]:
        return jnp.max(jnp.abs(a - b) / jax.lax.cummax(jnp.abs(a), axis=0))

    target = jnp.asarray(problem.target)[None]
    residual, expected = (jnp.asarray(each.output) - target for each in (seen, predicted))
    curvature = relative(jnp.asarray(seen.curvature), jnp.asarray(predicted.curvature))
    return jnp.maximum(relative(residual, expected), curvature)
