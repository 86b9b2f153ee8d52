"""Random designs: the examples of a prompt as a matrix X, and how well XᵀX is conditioned.

κ = λ_max/λ_min of XᵀX decides how fast descent on ½‖y − Xθ‖² is. For X with n × d standard normal
entries XᵀX = AAᵀ in law, with A lower triangular, A_ii² ~ χ² of n − i degrees of freedom (i from 0)
and A_ij ~ N(0, 1) below: designs of any length at the price of a d × d matrix. For large n and d,
κ → ((1 + √(d/n))/(1 − √(d/n)))².

Source: shi · kappa-conc · §8; Bartlett (1933); Marchenko and Pastur (1967).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar


def condition_number(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """κ = λ_max/λ_min of XᵀX; infinite where examples do not span all dimensions.

    Example:
        >>> float(condition_number(jnp.diag(jnp.array([1.0, 3.0]))))
        9.0
    """
    values = jnp.linalg.eigvalsh(x.T @ x)
    return jnp.where(values[0] > 0, values[-1] / values[0], jnp.inf)


def gaussian_moment(key: RandomKey, num_examples: Scalar, dimension: int) -> Float[Array, "d d"]:
    """Draw XᵀX of a Gaussian design, without the design.

    Args:
        key: The randomness.
        num_examples: n, at least d.
        dimension: d.

    Example:
        >>> moment = gaussian_moment(jax.random.key(0), num_examples=10**9, dimension=2)
        >>> (moment / 10**9).round(2).tolist()  # as of a billion examples
        [[1.0, 0.0], [0.0, 1.0]]
    """
    n, d = num_examples, dimension
    if not isinstance(n, jax.Array) and not 1 <= d <= n:
        raise ValueError(f"num_examples must be at least the dimension {d}, got {n}.")
    normal_key, square_key = jax.random.split(key)
    below = jnp.tril(jax.random.normal(normal_key, (d, d)), -1)
    squares = 2 * jax.random.gamma(square_key, (n - jnp.arange(d)) / 2)  # χ² is twice a gamma
    factor = below + jnp.diag(jnp.sqrt(squares))
    return factor @ factor.T


def gaussian_condition(ratio: Scalar) -> Float[Array, ""]:
    """((1 + √(d/n))/(1 − √(d/n)))², what κ of Gaussian designs tends to for large d and n.

    Args:
        ratio: d/n, below 1.

    Example:
        >>> float(gaussian_condition(1 / 4))
        9.0
    """
    root = jnp.sqrt(jnp.asarray(ratio, float))
    return ((1 + root) / (1 - root)) ** 2
