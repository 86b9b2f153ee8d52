"""The Hessian of a network on a graph as a Gaussian series in the weights of its output.

    ∇²f = Σₖ γₖ Bₖ,    Bₖ = ∇²fₖ/√in    in all weights but the output's own

f = Σₖ γₖ fₖ/√in is the output, γₖ its own weights and fₖ the neurons that it reads. With
γ ~ N(0, 1) the bounds of `gaussian_series` say how large the norm may be, for any graph.

Source: zhu · dag-bounds · Eqs 2.13–2.14, A.11.8.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.models import Dag, dag_network

from .dag_blocks import check_own_weights
from .dag_norms import check_dags


def dag_series(
    graph: Dag, weights: Float[Array, " p"], x: Float[Array, " d"]
) -> Float[Array, "m q q"]:
    """The matrices Bₖ of the first output, dense; can be jitted and mapped over the weights.

    Args:
        graph: The graph, without shared weights.
        weights: Its weights; those of the output itself do not count.
        x: One input.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> dag_series(fully_connected(2, [3]), jnp.ones(9), jnp.ones(2)).shape
        (3, 6, 6)
    """
    check_dags([graph], x)
    check_own_weights(graph)
    own = graph.weights[graph.edges[:, 1] == graph.outputs[0]]
    others = np.setdiff1d(np.arange(graph.num_weights), own)
    apply = dag_network(graph).apply

    def neurons(free: Float[Array, " q"]) -> Float[Array, " m"]:
        """fₖ/√in, the slopes of the output in its own weights."""
        rest = jnp.zeros_like(weights).at[others].set(free)
        output = lambda gamma: apply(rest.at[own].set(gamma), x[None])[0, 0]  # noqa: E731
        return jax.grad(output)(jnp.zeros(len(own), weights.dtype))

    # Compiled whole: op by op, the first call would take ten times as long.
    return jax.jit(jax.hessian(neurons))(weights[others])
