"""Linear self-attention: full, reduced to one matrix, of low rank, and with several heads.

    E = [x₁ … x_N x_q]          f(E) = E + W^PV E · EᵀW^KQ E / ρ
        [y₁ … y_N  0 ]

The prediction is the last entry of f(E). Where W^PV has only its last entry u, and W^KQ only its
block U of the inputs, it is ŷ = (1/ρ) yᵀX · uU · x_q: one matrix A = uU says it all. With keys and
queries of width r, A = KᵀQ has rank r, the size of the model. With several heads and a ReLU,
ŷ = Σᵢ aᵢ ReLU(yᵀX W⁽ⁱ⁾x_q / ρ). The scale ρ is the number of examples in the prompt: N in
pre-training, M at evaluation.

Source: shi · lsa · §5.3; shi · icl-parity · §5.5.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

from .prompts import Prompts


class LinearAttention(NamedTuple):
    """The two matrices of linear self-attention.

    Example:
        >>> LinearAttention(output=jnp.eye(3), key_query=jnp.eye(3)).output.shape  # d = 2
        (3, 3)
    """

    output: Float[Array, "e e"]  # W^PV, with e = d + 1
    key_query: Float[Array, "e e"]  # W^KQ


class Factors(NamedTuple):
    """Keys and queries of width r, whose product A = KᵀQ has rank r."""

    keys: Float[Array, "r d"]
    queries: Float[Array, "r d"]

    @property
    def matrix(self) -> Float[Array, "d d"]:
        """A = KᵀQ."""
        return self.keys.T @ self.queries


def prompt_matrix(
    x: Float[Array, "n d"], y: Float[Array, " n"], query: Float[Array, " d"]
) -> Float[Array, "e m"]:
    """E: examples and query as columns, labels below them, 0 below the query.

    Example:
        >>> x, y = jnp.array([[1.0], [2.0]]), jnp.array([3.0, 4.0])
        >>> prompt_matrix(x, y, query=jnp.array([5.0])).tolist()
        [[1.0, 2.0, 5.0], [3.0, 4.0, 0.0]]
    """
    if len(x) == 0:
        raise ValueError("a prompt must have at least one example, got none.")
    inputs = jnp.concatenate([x, query[None, :]])
    labels = jnp.append(y, 0.0)
    return jnp.concatenate([inputs, labels[:, None]], axis=1).T


def attend(
    params: LinearAttention, prompt: Float[Array, "e m"], scale: Scalar
) -> Float[Array, "e m"]:
    """f(E) = E + W^PV E · EᵀW^KQ E / ρ.

    Args:
        params: The two matrices.
        prompt: E, of `prompt_matrix`.
        scale: ρ, the number of examples in the prompt.

    Example:
        >>> prompt = prompt_matrix(jnp.ones((4, 1)), jnp.ones(4), jnp.ones(1))
        >>> params = LinearAttention(jnp.diag(jnp.array([0.0, 1.0])), jnp.diag(jnp.array([1.0, 0])))
        >>> float(attend(params, prompt, scale=4)[-1, -1])
        1.0
    """
    scores = prompt.T @ params.key_query @ prompt
    return prompt + params.output @ prompt @ scores / scale


def full_attention(matrix: Float[Array, "d d"]) -> LinearAttention:
    """Full attention that predicts what the one matrix A does: u = 1, U = A, all else 0.

    Example:
        >>> prompt = prompt_matrix(jnp.ones((4, 1)), jnp.ones(4), jnp.ones(1))
        >>> float(attend(full_attention(jnp.array([[0.5]])), prompt, scale=4)[-1, -1])
        0.5
    """
    d = len(matrix)
    output = jnp.zeros((d + 1, d + 1)).at[d, d].set(1.0)
    return LinearAttention(output, jnp.zeros((d + 1, d + 1)).at[:d, :d].set(matrix))


def summaries(prompts: Prompts) -> Float[Array, "b d"]:
    """What attention reads of the examples: Xᵀy over their number, for every prompt.

    Example:
        >>> x, y, query = jnp.ones((1, 4, 2)), jnp.ones((1, 4)), jnp.ones((1, 2))
        >>> prompts = Prompts(x, y, query, target=jnp.ones(1))
        >>> summaries(prompts).tolist()
        [[1.0, 1.0]]
    """
    return jnp.einsum("bnd,bn->bd", prompts.x, prompts.y) / prompts.x.shape[1]


def predictions(matrix: Float[Array, "d d"], prompts: Prompts) -> Float[Array, " b"]:
    """The reduced form: ŷ = (1/M) yᵀX A x_q of every prompt.

    Example:
        >>> x, y, query = jnp.ones((1, 4, 2)), jnp.ones((1, 4)), jnp.ones((1, 2))
        >>> prompts = Prompts(x, y, query, target=jnp.ones(1))
        >>> predictions(0.5 * jnp.eye(2), prompts).tolist()
        [1.0]
    """
    return jnp.einsum("bd,de,be->b", summaries(prompts), matrix, prompts.query)


def head_predictions(
    outputs: Float[Array, " m"], matrices: Float[Array, "m d d"], prompts: Prompts
) -> Float[Array, " b"]:
    """Several heads: ŷ = Σᵢ aᵢ ReLU((1/M) yᵀX W⁽ⁱ⁾ x_q) of every prompt.

    Example:
        >>> x, y, query = jnp.ones((1, 4, 2)), jnp.ones((1, 4)), jnp.ones((1, 2))
        >>> prompts = Prompts(x, y, query, target=jnp.ones(1))
        >>> heads = jnp.stack([jnp.eye(2), -jnp.eye(2)])
        >>> head_predictions(jnp.array([1.0, 5.0]), heads, prompts).tolist()  # ReLU cuts the second
        [2.0]
    """
    read = jnp.einsum("bd,mde,be->bm", summaries(prompts), matrices, prompts.query)
    return jax.nn.relu(read) @ outputs


def initial_factors(key: RandomKey, rank: int, dimension: int, scale: Scalar = 0.1) -> Factors:
    """Gaussian keys and queries of this standard deviation.

    Example:
        >>> initial_factors(jax.random.key(0), rank=2, dimension=5).matrix.shape
        (5, 5)
    """
    if not 1 <= rank <= dimension:
        raise ValueError(f"rank must be between 1 and the dimension {dimension}, got {rank}.")
    entries = scale * jax.random.normal(key, (2 * rank, dimension))
    return Factors(entries[:rank], entries[rank:])
