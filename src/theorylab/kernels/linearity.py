"""How nearly a network is linear, or quadratic, in its parameters along the way it has gone.

On the segment from w₀ to w, with Δ = w − w₀ and 0 ≤ s ≤ 1, at every input x

    f(w₀ + sΔ)      against      f(w₀) + s df,    and    f(w₀) + s df + ½s² d²f

with the derivatives df and d²f of f along Δ at w₀. The error of a model at s is

    ‖f(w₀ + sΔ) − model(s)‖ / ‖f(w) − f(w₀)‖         norms over inputs and outputs

A network in the lazy regime has a small linear error: it follows its tangent kernel at w₀.

Source: zhu · linearity-gap · Eq. 2.9–2.10; zhu · taylor-models · Eq. 3.1–3.2.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import as_batch, map_inputs, num_inputs
from theorylab.models.own_network import entered
from theorylab.typing import Apply, Inputs, Params

_BLOCK = 50  # inputs at a time
STEPS = 10  # parts of the segment


class TaylorErrors(Answer):
    """Squared errors of two Taylor models along a segment, input by input.

    Example:
        >>> s, errors = jnp.array([0.0, 1.0]), jnp.array([[0.0, 4.0]])
        >>> found = TaylorErrors(s, linear=errors, quadratic=0 * errors, moved=jnp.array([16.0]))
        >>> found.linear_error.tolist()
        [0.0, 0.5]
    """

    positions: Float[Array, " s"]  # s
    linear: Float[Array, "n s"]  # ‖f(w₀ + sΔ) − f(w₀) − s df‖²
    quadratic: Float[Array, "n s"]  # ‖f(w₀ + sΔ) − f(w₀) − s df − ½s² d²f‖²
    moved: Float[Array, " n"]  # ‖f(w) − f(w₀)‖²

    @property
    def linear_error(self) -> Float[Array, " s"]:
        """The error of the linear model at every position."""
        return jnp.sqrt(self.linear.sum(axis=0) / self.moved.sum())

    @property
    def quadratic_error(self) -> Float[Array, " s"]:
        """The error of the quadratic model at every position."""
        return jnp.sqrt(self.quadratic.sum(axis=0) / self.moved.sum())


def taylor_errors(apply: Apply, params: Params, initial_params: Params, x: Inputs) -> TaylorErrors:
    """Errors of the linear and of the quadratic model around w₀, at every input, on the way to w.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, where the network has come to.
        initial_params: w₀, the point of expansion.
        x: The inputs.

    Example: f = w³ from 1 to 2; the linear model misses 4 of 7, the quadratic one 1.
        >>> found = taylor_errors(lambda w, x: w**3 * x, 2.0, 1.0, jnp.ones((1, 1)))
        >>> [round(float(error[-1]), 4) for error in (found.linear_error, found.quadratic_error)]
        [0.5714, 0.1429]
    """
    own = entered(apply, params, x, None, None)
    initial = jax.tree.map(jnp.asarray, initial_params)
    return _errors(own.apply, jax.tree.map(jnp.asarray, own.params), initial, own.x1)


@partial(jax.jit, static_argnums=0)
def _errors(apply: Apply, params: Params, initial: Params, x: Inputs) -> TaylorErrors:
    delta = jax.tree.map(jnp.subtract, params, initial)
    positions = jnp.linspace(0.0, 1.0, STEPS + 1)[1:]

    def at(one: Any) -> tuple[Array, Array, Array]:
        network = lambda w: apply(w, as_batch(one))[0]  # noqa: E731
        along = lambda w: jax.jvp(network, (w,), (delta,))  # noqa: E731
        (start, first), (_, second) = jax.jvp(along, (initial,), (delta,))

        def there(s: Array) -> tuple[Array, Array]:
            moved = jax.tree.map(lambda w, d: w + s.astype(w.dtype) * d, initial, delta)
            gap = network(moved) - start - s.astype(start.dtype) * first
            bent = gap - s.astype(start.dtype) ** 2 / 2 * second
            return _square(gap), _square(bent)

        linear, quadratic = jax.lax.map(there, positions)
        return linear, quadratic, _square(network(params) - start)

    mapped = lambda x: map_inputs(at, x, _BLOCK)  # noqa: E731
    linear, quadratic, moved = fast_convolutions(mapped)(x)
    nothing = jnp.zeros((num_inputs(x), 1), linear.dtype)
    return TaylorErrors(
        jnp.concatenate([jnp.zeros(1), positions]),
        jnp.concatenate([nothing, linear], axis=1),
        jnp.concatenate([nothing, quadratic], axis=1),
        moved,
    )


def _square(array: Array) -> Float[Array, ""]:
    return jnp.sum(jnp.square(array))
