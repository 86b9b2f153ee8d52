"""Matrix completion by an infinitely wide network: every row is a kernel regression of its own.

A network maps the feature z_j of column j to a whole column f(z_j) of the matrix. Its tangent
kernel between the entries (i, j) and (i′, j′) is

    K((i, j), (i′, j′)) = κ(z_j, z_j′) 1{i = i′},

since outputs i ≠ i′ have nothing in common at infinite width. So one kernel κ of the d columns does
for all rows: row i is predicted from its own observed entries O,

    f_i = κ(·, O) (κ(O, O) + λ)⁻¹ Y_i(O).

The features are a prior: what another method says about the columns, such as `soft_impute`.

Source: golikov · ntk-matrix-completion · 2.6.1.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.typing import Scalar


def complete(
    kernel: Float[Array, "d1 d2"],
    values: Float[Array, "r d"],
    observed: Bool[Array, "r1 r2"],
    ridge: Scalar = 0.0,
) -> Float[Array, "r d"]:
    """Predict every entry of every row from the row's observed ones.

    Args:
        kernel: κ of the columns.
        values: Y; entries that are not observed do not matter.
        observed: Which entries are known. A row without any is predicted as 0.
        ridge: λ, at least 0; what is added to the diagonal.

    Example:
        >>> kernel = jnp.array([[1.0, 0.5], [0.5, 1.0]])
        >>> complete(kernel, jnp.array([[2.0, 0.0]]), jnp.array([[True, False]])).tolist()
        [[2.0, 1.0]]
    """
    if kernel.shape != (values.shape[1],) * 2 or values.shape != observed.shape:
        raise ValueError(
            "kernel must be (d, d), values and observed (r, d), got "
            f"{kernel.shape}, {values.shape} and {observed.shape}."
        )

    def row(known: Bool[Array, " d"], given: Float[Array, " d"]) -> Float[Array, " d"]:
        # An unknown entry is an equation of its own, α = 0: all rows solve systems of one size.
        both = known[:, None] & known[None, :]
        system = jnp.where(both, kernel, 0.0) + jnp.diag(jnp.where(known, ridge, 1.0))
        coefficients = jnp.linalg.solve(system, jnp.where(known, given, 0.0))
        return kernel @ coefficients

    return jax.vmap(row)(observed, values)


def entry_kernel(
    kernel: Float[Array, "d d"], rows: Int[Array, " m"], columns: Int[Array, " m"]
) -> Float[Array, "m m"]:
    """K((i, j), (i′, j′)) = κ(z_j, z_j′) 1{i = i′}, of m entries (i, j), in full.

    Example: two entries of one row, and one of another row.
        >>> kernel = jnp.array([[1.0, 0.5], [0.5, 1.0]])
        >>> entry_kernel(kernel, rows=jnp.array([0, 0, 1]), columns=jnp.array([0, 1, 0])).tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    same_row = rows[:, None] == rows[None, :]
    return jnp.where(same_row, kernel[columns[:, None], columns[None, :]], 0.0)


def soft_impute(
    values: Float[Array, "r d"],
    observed: Bool[Array, "r1 r2"],
    threshold: Scalar,
    num_steps: int = 100,
) -> Float[Array, "r d"]:
    """Minimise ½‖(M − Y) on observed entries‖² + τ‖M‖_* (nuclear norm).

    M ← U (S − τ)₊ Vᵀ of the matrix that has Y where it is observed and M elsewhere: with singular
    values that are smaller by τ, proximal gradient descent with step 1.

    Args:
        values: Y; entries that are not observed do not matter.
        observed: Which entries are known.
        threshold: τ, at least 0.
        num_steps: The number of steps.

    Example: where all entries are observed, every singular value shrinks by τ.
        >>> values = jnp.array([[0.0, 3.0], [2.0, 0.0]])
        >>> found = soft_impute(values, jnp.ones((2, 2), bool), threshold=0.5)
        >>> jnp.abs(found).round(6).tolist()
        [[0.0, 2.5], [1.5, 0.0]]
    """
    if values.shape != observed.shape:
        raise ValueError(
            f"values and observed must have one shape, got {values.shape} and {observed.shape}."
        )
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")

    def step(matrix: Array, _: None) -> tuple[Array, None]:
        left, singular, right = jnp.linalg.svd(
            jnp.where(observed, values, matrix), full_matrices=False
        )
        return (left * jnp.maximum(singular - threshold, 0.0)[None, :]) @ right, None

    return jax.lax.scan(step, jnp.zeros_like(values), None, length=num_steps)[0]
