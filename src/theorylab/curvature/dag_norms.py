"""Hessian norms of random networks on many graphs: ‖∇²f(w; x)‖, w ~ N(0, 1).

Source: zhu · hessian-norm · Thm 2.3.6, Measure.
"""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models import Dag
from theorylab.training import dag_ensemble
from theorylab.typing import Apply, RandomKey

from .norm import spectral_norm
from .operators import output_hessian


class DagNorms(Answer, labels={"norms": "norm ‖∇²f‖"}, axes=("graph",)):
    """The norm of every graph's network, and the residual of Lanczos over it.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.models.dag_builders import fully_connected
        >>> dags = [fully_connected(2, [16])]
        >>> found = dag_norms(dags, jnp.ones(2), jax.random.key(0), num_steps=4)
        >>> bool(found.residuals[0] < 1e-3)  # relative to the norm
        True
    """

    norms: Float[np.ndarray, " g"]
    residuals: Float[np.ndarray, " g"]


def dag_norms(
    graphs: Sequence[Dag], x: Float[Array, " d"], key: RandomKey, num_steps: int = 16
) -> DagNorms:
    """Draw a network on every graph and measure the Hessian of its first output.

    Args:
        graphs: Graphs with one activation and the same number of inputs and outputs; those of
            about one size cost one compilation.
        x: One input.
        key: Draws the weights.
        num_steps: Products with the Hessian for one norm.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.models.dag_builders import fully_connected
        >>> dags = [fully_connected(2, [width]) for width in (16, 64)]
        >>> found = dag_norms(dags, jnp.ones(2), jax.random.key(0), num_steps=4)
        >>> found.norms.round(4).tolist()  # ‖x‖/√(md)
        [0.25, 0.125]
    """
    check_dags(graphs, x)

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey):
        found = spectral_norm(output_hessian(apply, weights, x), weights, key, num_steps)
        return found.value, found.residual

    norms, residuals = dag_ensemble(one, graphs, jax.random.split(key, len(graphs)))
    return DagNorms(norms, residuals / np.where(norms > 0, norms, 1.0))


def check_dags(graphs: Sequence[Dag], x: Float[Array, "..."]) -> None:
    """Raise unless there are graphs, and x is one input of theirs.

    Example:
        >>> import jax.numpy as jnp
        >>> check_dags([], jnp.ones(2))
        Traceback (most recent call last):
        ...
        ValueError: graphs must be at least one, got none.
    """
    if not graphs:
        raise ValueError("graphs must be at least one, got none.")
    for graph in graphs:
        if x.shape != (len(graph.inputs),):
            raise ValueError(f"x must be one input of shape ({len(graph.inputs)},), got {x.shape}.")
