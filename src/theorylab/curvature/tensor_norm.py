"""The curvature of a network with many outputs: its Hessian is a tensor, and has one norm.

With the Hessians Hₖ = ∇²fₖ(w; x) of the outputs k = 1, …, d_L, and unit vectors u, v, s:

    ‖𝐇‖ = max Σ_ijk H_ijk vᵢ uⱼ sₖ = max_s ‖Σₖ sₖHₖ‖ = max_v ‖(vᵀHₖv)ₖ‖

Every Hₖ is symmetric, so that u = ± v at the maximum. Each of the two last forms gives a step
uphill: for fixed s, v is the top eigenvector of Σₖ sₖHₖ (Lanczos); for fixed v, s is along
(vᵀHₖv)ₖ. They alternate, from every single output and from random s. What is found is a lower
bound of the maximum, and at least maxₖ ‖Hₖ‖ as Lanczos has it. From above

    maxₖ ‖Hₖ‖ ≤ ‖𝐇‖ ≤ (Σₖ ‖Hₖ‖²)^½ ≤ √d_L maxₖ ‖Hₖ‖ ≤ d_L maxₖ ‖Hₖ‖;

the source has the last of them; that before is Cauchy's inequality over k. With two layers,
f_k = (1/√m) Σᵢ v_ik φ(uᵢᵀx/√d), the norm is that of one output whose weights are ‖v_i·‖.

Source: zhu · hessian-norm · Cor. A.3.1.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models.activations import Elementwise
from theorylab.numerics import eigenpairs
from theorylab.typing import Apply, Params, RandomKey

from .operators import hessian
from .two_layer_norm import two_layer_norm


class TensorNorm(Answer, labels={"value": "norm ‖𝐇‖"}):
    """The largest value found, and the norms of the outputs one by one.

    Args:
        value: ‖𝐇‖, from below.
        outputs: ‖Hₖ‖.
        direction: s at the value found.

    Example:
        >>> bowls = lambda w, x: jnp.stack([w[0] ** 2, 3 * w[0] ** 2])[None] / 2
        >>> found = tensor_norm(bowls, jnp.ones(2), jnp.ones(1), jax.random.key(0), num_steps=2)
        >>> round(float(found.value), 4), found.outputs.round(4).tolist()  # √(1² + 3²)
        (3.1623, [1.0, 3.0])
    """

    value: Float[Array, ""]
    outputs: Float[Array, " k"]
    direction: Float[Array, " k"]


def tensor_norm(
    apply: Apply,
    params: Params,
    x: Float[Array, "..."],
    key: RandomKey,
    num_random: int = 2,
    num_rounds: int = 4,
    num_steps: int = 20,
) -> TensorNorm:
    """Search ‖𝐇‖ = max_s ‖Σₖ sₖHₖ‖; it can be jitted and mapped.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree.
        x: One input.
        key: Draws directions s and the starts of Lanczos.
        num_random: How many random s, beside every single output.
        num_rounds: How many times v and s are renewed from each.
        num_steps: How many products with a Hessian one v takes.

    Example:
        >>> bowls = lambda w, x: jnp.stack([w[0] ** 2, w[1] ** 2])[None] / 2
        >>> found = tensor_norm(bowls, jnp.ones(2), jnp.ones(1), jax.random.key(0), num_steps=2)
        >>> round(float(found.value), 5), found.outputs.round(5).tolist()
        (1.0, [1.0, 1.0])
    """
    if num_random < 0 or num_rounds < 1:
        raise ValueError(
            "num_random must be at least 0 and num_rounds at least 1, "
            f"got {num_random} and {num_rounds}."
        )

    def outputs(w: Params) -> Float[Array, " k"]:
        return apply(w, x[None]).ravel()

    start_key, lanczos_key = jax.random.split(key)
    like = jax.eval_shape(outputs, params)
    drawn = jax.random.normal(start_key, (num_random, like.size), like.dtype)
    starts = jnp.concatenate([jnp.eye(like.size, dtype=like.dtype), drawn])
    starts = starts / jnp.linalg.norm(starts, axis=1)[:, None]

    def renew(s: Float[Array, " k"], _: None):
        mixed = hessian(lambda w: jnp.vdot(s, outputs(w)), params)
        pair = eigenpairs(mixed, params, 1, num_steps, lanczos_key, "magnitude")
        v = jax.tree.map(lambda leaf: leaf[0], pair.vectors)
        bends = _bends(outputs, params, v)
        length = jnp.linalg.norm(bends)
        renewed = jnp.where(length > 0, bends / jnp.where(length > 0, length, 1.0), s)
        return renewed, (jnp.abs(pair.values[0]), length, renewed)

    def climb(s: Float[Array, " k"]):
        return jax.lax.scan(renew, s, length=num_rounds)[1]

    norms, lengths, directions = jax.lax.map(climb, starts)  # starts, rounds
    best = jnp.unravel_index(jnp.argmax(lengths), lengths.shape)
    return TensorNorm(lengths[best], norms[: like.size, 0], directions[best])


def _bends(outputs, params: Params, v: Params) -> Float[Array, " k"]:
    """(vᵀHₖv)ₖ: the second derivative of all outputs along v."""

    def slope(w: Params) -> Float[Array, " k"]:
        return jax.jvp(outputs, (w,), (v,))[1]

    return jax.jvp(slope, (params,), (v,))[1]


def two_layer_tensor_norm(
    inner: Float[Array, "d m"],
    outer: Float[Array, "m k"],
    x: Float[Array, " d"],
    function: str | Elementwise = "relu",
) -> Float[Array, ""]:
    """Compute ‖𝐇‖ of a network with two layers, exactly.

    In the block of neuron i, s enters by aᵢ = Σₖ sₖv_ik φ″(zᵢ)‖x‖²/d alone, which is largest for s
    along v_i·; the norm grows with |aᵢ|.

    Args:
        inner: The weights u, a column for every neuron.
        outer: The weights v, a row for every neuron.
        x: One input.
        function: φ, by name or as a function.

    Example:
        >>> wide = two_layer_tensor_norm(jnp.ones((4, 9)), jnp.ones((9, 3)), jnp.eye(4)[0])
        >>> float(wide) == float(two_layer_norm(jnp.ones((4, 9)), jnp.ones(9), jnp.eye(4)[0]))
        True
    """
    return two_layer_norm(inner, jnp.linalg.norm(outer, axis=1), x, function)
