"""A looped linear transformer is gradient descent, one step for each loop.

    Z = [X  y]     Attn(Z) = (M ∘ (ZQZᵀ)) ZP,     Z ← Z − η Attn(Z),     output −(last row, 1…d)
        [qᵀ α]

where the mask M lets only the last row look, and only at the examples; Q = I, P = diag(I_d, 0). The
attention is zero but for its last row, [qᵀXᵀX + αyᵀX, 0]. So with q = −αθ the loop is

    θ ← θ − η(XᵀXθ − Xᵀy)          on ½‖y − Xθ‖²

and after T loops the output is αθ_T. For y = Xθ* it is a vector with ⟨output, θ*⟩ ≈ α. From θ₀ = 0
with η = 1/L, the squared error ‖θ_t − θ*‖² = Σ_i (1 − λ_i/L)^{2t} c_i² over eigenvalues λ_i of XᵀX,
c = Qᵀ(θ₀ − θ*), is at most (1 − 1/κ)^{2t}‖θ₀ − θ*‖² ≤ e^{−t/κ}‖θ₀ − θ*‖², κ = λ_max/λ_min; the
source proves the second, which loses a factor of 2 and more in the exponent. In logarithms the sum
has no floor of rounding; a run has one, at about 10⁻³¹.

(The source prints Q and P as d × d, and the sphere of θ* as 𝕊ᵈ.)

Source: shi · looped-tf · §8.2; shi · looped-gd · Lemma 8.13, Theorem 8.14; shi · looped-bound ·
Theorems 8.16, 8.25; shi · looped-vs-gatmiry · Theorem 8.17.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar


class LoopWeights(NamedTuple):
    """The two matrices of the looped transformer.

    Example:
        >>> LoopWeights(query_key=jnp.eye(3), projection=jnp.eye(3)).projection.shape  # d = 2
        (3, 3)
    """

    query_key: Float[Array, "e e"]  # Q, with e = d + 1
    projection: Float[Array, "e e"]  # P


def descent_weights(dimension: int) -> LoopWeights:
    """Q = I and P = diag(I_d, 0): the weights that descend.

    Example:
        >>> descent_weights(1).projection.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}.")
    identity = jnp.eye(dimension + 1)
    return LoopWeights(identity, identity.at[dimension, dimension].set(0.0))


def loop_prompt(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    value: Scalar,
    start: Float[Array, " d"] | None = None,
) -> Float[Array, "m e"]:
    """Z: the examples, then the row (q, α) that is to be worked out.

    Args:
        x: Inputs X.
        y: Labels.
        value: α, what the answer's product with θ* shall be.
        start: q at the beginning; 0 if none is given.

    Example:
        >>> loop_prompt(jnp.array([[1.0]]), jnp.array([2.0]), value=3.0).tolist()
        [[1.0, 2.0], [0.0, 3.0]]
    """
    if len(x) == 0:
        raise ValueError("a prompt must have at least one example, got none.")
    query = jnp.zeros(x.shape[1]) if start is None else start
    examples = jnp.concatenate([x, y[:, None]], axis=1)
    last = jnp.append(query, value)
    return jnp.concatenate([examples, last[None, :]])


def last_row_mask(num_rows: int) -> Float[Array, "m m"]:
    """M: the last row looks at all others, and nothing else looks anywhere.

    Example:
        >>> last_row_mask(3).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    return jnp.zeros((num_rows, num_rows)).at[-1, :-1].set(1.0)


def masked_attention(
    weights: LoopWeights, rows: Float[Array, "m e"], mask: Float[Array, "m m"]
) -> Float[Array, "m e"]:
    """(M ∘ (ZQZᵀ)) ZP.

    Example:
        >>> prompt = loop_prompt(jnp.array([[2.0]]), jnp.array([4.0]), value=1.0)
        >>> masked_attention(descent_weights(1), prompt, last_row_mask(2)).tolist()  # αyᵀX = 8
        [[0.0, 0.0], [8.0, 0.0]]
    """
    scores = mask * (rows @ weights.query_key @ rows.T)
    return scores @ rows @ weights.projection


class LoopRun(NamedTuple):
    """Where the loops end, and what they give on the way."""

    rows: Float[Array, "m e"]  # Z after the last loop
    outputs: Float[Array, "t d"]  # −q after every loop


def loop(
    weights: LoopWeights,
    prompt: Float[Array, "m e"],
    learning_rates: Float[Array, " t"],
    mask: Float[Array, "m m"] | None = None,
) -> LoopRun:
    """Loop Z ← Z − η Attn(Z), once for every learning rate.

    Args:
        weights: Q and P; `descent_weights` descend.
        prompt: Z before the first loop, of `loop_prompt`.
        learning_rates: η of every loop.
        mask: M; `last_row_mask` if none is given.

    Example:
        >>> prompt = loop_prompt(jnp.ones((1, 1)), jnp.ones(1), value=2.0)
        >>> loop(descent_weights(1), prompt, jnp.array([0.5, 0.5])).outputs[:, 0].tolist()
        [1.0, 1.5]
    """
    chosen = last_row_mask(len(prompt)) if mask is None else mask

    def once(rows: Float[Array, "m e"], rate: Float[Array, ""]) -> tuple[Array, Array]:
        rows = rows - rate * masked_attention(weights, rows, chosen)
        return rows, -rows[-1, :-1]

    return LoopRun(*jax.lax.scan(once, prompt, learning_rates))


def least_squares_descent(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    learning_rates: Float[Array, " t"],
    start: Float[Array, " d"] | None = None,
) -> Float[Array, "t d"]:
    """θ after every step of gradient descent on ½‖y − Xθ‖², from 0 or from `start`.

    Example:
        >>> x, y = jnp.ones((1, 1)), jnp.ones(1)
        >>> least_squares_descent(x, y, jnp.array([0.5, 0.5])).tolist()
        [[0.5], [0.75]]
    """
    theta = jnp.zeros(x.shape[1]) if start is None else start

    def step(theta: Float[Array, " d"], rate: Float[Array, ""]) -> tuple[Array, Array]:
        theta = theta - rate * (x.T @ (x @ theta - y))
        return theta, theta

    return jax.lax.scan(step, theta, learning_rates)[1]


def log_squared_errors(
    eigenvalues: Float[Array, " d"],
    coefficients: Float[Array, " d"],
    learning_rate: Scalar,
    steps: Float[Array, " t"],
) -> Float[Array, " t"]:
    """The logarithm of Σ_i (1 − ηλ_i)^{2t} c_i², without under- or overflow at any t.

    Args:
        eigenvalues: λ of XᵀX.
        coefficients: c = Qᵀ(θ₀ − θ*).
        learning_rate: η.
        steps: t.

    Example:
        >>> values, coefficients = jnp.array([0.5, 1.0]), jnp.array([0.6, 0.8])
        >>> errors = log_squared_errors(values, coefficients, 1.0, jnp.array([0.0, 1.0]))
        >>> jnp.exp(errors).round(6).tolist()  # 1, then 0.6²·0.5²
        [1.0, 0.09]
    """
    decay = jnp.log(jnp.abs(1 - learning_rate * eigenvalues))
    # 0 · (−∞) at t = 0, where the largest eigenvalue is gone after one step.
    powers = jnp.where(steps[:, None] == 0, 0.0, 2 * steps[:, None] * decay[None, :])
    return jax.nn.logsumexp(powers + 2 * jnp.log(jnp.abs(coefficients))[None, :], axis=1)


def loose_log_bound(condition: Scalar, steps: Float[Array, " t"]) -> Float[Array, " t"]:
    """−t/κ: the source's bound of log(‖θ_t − θ*‖²/‖θ₀ − θ*‖²).

    Example:
        >>> loose_log_bound(2.0, jnp.array([4.0])).tolist()
        [-2.0]
    """
    return -steps / condition


def tight_log_bound(condition: Scalar, steps: Float[Array, " t"]) -> Float[Array, " t"]:
    """2t log(1 − 1/κ): attained where θ* lies along the least eigenvalue.

    Example:
        >>> tight_log_bound(2.0, jnp.array([4.0])).round(4).tolist()  # 8 log ½, below −4/2
        [-5.5452]
    """
    return 2 * steps * jnp.log1p(-1 / jnp.asarray(condition))


def exponential_bound(num_loops: Scalar, num_examples: Scalar, dimension: Scalar) -> Scalar:
    """8Td²·2^{2T}/√n, an earlier bound of the error of looped transformers (Gatmiry et al.).

    It is proved only where 8Td²/√n ≤ 2^{−2T}: from `exponential_examples` examples on.

    Example:
        >>> exponential_bound(num_loops=1, num_examples=16384, dimension=2)
        1.0
    """
    return 8 * num_loops * dimension**2 * 2 ** (2 * num_loops) / num_examples**0.5


def exponential_examples(num_loops: Scalar, dimension: Scalar) -> Scalar:
    """64T²d⁴·2^{4T}, how many examples the earlier bound needs.

    Example:
        >>> exponential_examples(num_loops=1, dimension=2)
        16384
    """
    return 64 * num_loops**2 * dimension**4 * 2 ** (4 * num_loops)
