"""The polynomial network: one hidden layer with the activation zᵏ, on k numbers modulo p.

    f(θ, a) = Σᵢ (uᵢ₁(a₁) + … + uᵢₖ(a_k))ᵏ wᵢ ∈ ℝᵖ,   uᵢⱼ, wᵢ ∈ ℝᵖ,   i = 1 … m

It is homogeneous, f(αθ, a) = αᵏ⁺¹ f(θ, a), so its margins are measured against the norm

    ‖θ‖ = (Σᵢ ‖θᵢ‖ᵏ⁺¹)^{1/(k+1)},   ‖θᵢ‖² = Σⱼ ‖uᵢⱼ‖² + ‖wᵢ‖²,

the (k+1)-norm of the Euclidean lengths of its neurons. Rows are gathered, not multiplied by one-hot
vectors: an example costs 2mp operations. (The source has θ ∈ ℝ^{(k+1)×p}, without the m neurons.)

Source: shi · poly-net · Eq. 4.2.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.data.modular import check_numbers
from theorylab.typing import RandomKey, Scalar


class PolynomialNeurons(NamedTuple):
    """The weights θ of a polynomial network; a column is a neuron.

    Args:
        inputs: u, the weights of every input number at every place.
        output: w, the weights of every output.
    """

    inputs: Float[Array, "k p m"]
    output: Float[Array, "p m"]


def initial_neurons(key: RandomKey, num_terms: int, modulus: int, width: int) -> PolynomialNeurons:
    """Independent weights of N(0, 1/p), so that vectors have length about 1.

    Args:
        key: Draws them.
        num_terms: The number of places k.
        modulus: p.
        width: The number of neurons m.

    Example:
        >>> initial_neurons(jax.random.key(0), num_terms=2, modulus=5, width=3).inputs.shape
        (2, 5, 3)
    """
    for name, value in (("num_terms", num_terms), ("modulus", modulus), ("width", width)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    shape = (num_terms + 1, modulus, width)
    drawn = jax.random.normal(key, (math.prod(shape),)).reshape(shape) / math.sqrt(modulus)
    return PolynomialNeurons(drawn[:-1], drawn[-1])


def polynomial_network(params: PolynomialNeurons, terms: Int[Array, "n k"]) -> Float[Array, "n p"]:
    """f(θ, a), the logits of the p possible sums.

    Args:
        params: θ.
        terms: The numbers a, from 0 to p - 1.

    Example:
        >>> inputs = jnp.array([[[0.0], [1.0]], [[0.0], [2.0]]])
        >>> one = PolynomialNeurons(inputs, output=jnp.array([[1.0], [-1.0]]))
        >>> polynomial_network(one, jnp.array([[1, 0], [1, 1]])).tolist()
        [[1.0, -1.0], [9.0, -9.0]]
    """
    num_terms, modulus, _ = params.inputs.shape
    if terms.shape[1] != num_terms:
        raise ValueError(f"terms must be {num_terms} numbers each, got {terms.shape[1]}.")
    check_numbers("terms", terms, modulus)
    return _outputs(params, terms)


@jax.jit
def _outputs(params: PolynomialNeurons, terms: Int[Array, "n k"]) -> Float[Array, "n p"]:
    num_terms = params.inputs.shape[0]
    rows = [params.inputs[place][terms[:, place]] for place in range(num_terms)]
    hidden = sum(rows[1:], start=rows[0])
    return hidden**num_terms @ params.output.T


@jax.jit
def neuron_norms(params: PolynomialNeurons) -> Float[Array, " m"]:
    """‖θᵢ‖, the Euclidean length of every neuron.

    Example:
        >>> neuron_norms(PolynomialNeurons(jnp.ones((2, 2, 1)), jnp.ones((2, 1)))).round(4).tolist()
        [2.4495]
    """
    return jnp.sqrt(_squared_norms(params))


@jax.jit
def group_norm(params: PolynomialNeurons) -> Float[Array, ""]:
    """‖θ‖ = (Σᵢ ‖θᵢ‖ᵏ⁺¹)^{1/(k+1)}; the source regularises by this norm, not by a power of it.

    Example:
        >>> one = PolynomialNeurons(jnp.zeros((2, 2, 2)), jnp.array([[1.0, 2.0], [0.0, 0.0]]))
        >>> round(float(group_norm(one)), 4)  # (1 + 2³)^⅓
        2.0801
    """
    order = params.inputs.shape[0] + 1
    return (_squared_norms(params) ** (order / 2)).sum() ** (1 / order)


def scaled(params: PolynomialNeurons, factor: Scalar) -> PolynomialNeurons:
    """αθ.

    Example:
        >>> one = PolynomialNeurons(jnp.ones((2, 2, 1)), jnp.ones((2, 1)))
        >>> scaled(one, 3.0).output.tolist()
        [[3.0], [3.0]]
    """
    return PolynomialNeurons(factor * params.inputs, factor * params.output)


def _squared_norms(params: PolynomialNeurons) -> Float[Array, " m"]:
    # Squares, because the root has no derivative for a neuron that is 0.
    return (params.inputs**2).sum(axis=(0, 1)) + (params.output**2).sum(axis=0)
