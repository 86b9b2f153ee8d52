"""The preconditioner of an adaptive optimiser, read off its state.

    Adam        P = √v̂ + ε,     v̂ = ν/(1 − β₂^t)           w ← w − η m̂/P
    RMSProp     P = √(ν + ε)    as optax has it              AdaGrad   P = √(Σ g² + ε)

With P the stability of descent is that of λ_max(P^(−½) ∇²L P^(−½)) (`preconditioned`). The state
does not keep β₂ and ε: it does if the optimiser was made by `optax.inject_hyperparams`.

Source: Cohen et al. (2022), Adaptive gradient methods at the edge of stability, arXiv:2207.14484.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from theorylab.typing import Params, Scalar

# Fields that hold second moments, and whether ε stands beside the root or under it.
_BESIDE_ROOT = {"nu_max": True, "nu": True, "sum_of_squares": False}
_EPSILON = {"sum_of_squares": 1e-7}


def preconditioner(
    state: Any, params: Params, beta2: Scalar = 0.999, epsilon: float | None = None
) -> Params:
    """P, a tree of positive numbers like the parameters.

    Args:
        state: Of an optax optimiser, however it is nested; or a tree of second moments v̂ itself.
        params: w.
        beta2: β₂ of Adam, unless the state tells it.
        epsilon: ε, unless the state tells it; by default optax's: 10⁻⁸, and 10⁻⁷ for AdaGrad.

    Example: second moments 4 and 9 of gradients.
        >>> preconditioner(jnp.array([4.0, 9.0]), jnp.zeros(2), epsilon=0.5).tolist()
        [2.5, 3.5]
    """
    if _alike(state, params):
        return _rooted(state, 1e-8 if epsilon is None else epsilon, beside=True)
    told = next(_fields(state, "hyperparams"), None) or {}
    for name, beside in _BESIDE_ROOT.items():
        for holder in _holders(state, name):
            moments = getattr(holder, name)
            if not _alike(moments, params):
                raise ValueError(
                    f"second moments in optimizer_state must have the tree and shapes of params,"
                    f" got {jax.tree.map(jnp.shape, moments)} beside"
                    f" {jax.tree.map(jnp.shape, params)}."
                )
            if name.startswith("nu") and "count" in getattr(holder, "_fields", ()):
                moments = _corrected(moments, told.get("b2", beta2), holder.count)
            usual = _EPSILON.get(name, 1e-8) if epsilon is None else epsilon
            under = type(holder).__name__ == "ScaleByRmsState"
            return _rooted(moments, told.get("eps", usual), beside and not under)
    raise ValueError(
        "optimizer_state must hold second moments of the gradients (`nu` of Adam or RMSProp,"
        f" `sum_of_squares` of AdaGrad), got {type(state).__name__}."
    )


def _corrected(moments: Params, beta2: Scalar, count: Any) -> Params:
    """ν/(1 − β₂^t)."""
    share = 1 - beta2 ** jnp.asarray(count, float)
    return jax.tree.map(lambda nu: nu / jnp.where(share > 0, share, 1.0), moments)


def _rooted(moments: Params, epsilon: Scalar, beside: bool) -> Params:
    """√v + ε, or √(v + ε)."""
    if any(not bool(jnp.all(leaf >= 0)) for leaf in jax.tree.leaves(moments)):
        raise ValueError("second moments must be at least 0, got negative ones or NaN.")
    if beside:
        return jax.tree.map(lambda v: jnp.sqrt(v) + epsilon, moments)
    return jax.tree.map(lambda v: jnp.sqrt(v + epsilon), moments)


def _alike(tree: Any, params: Params) -> bool:
    if jax.tree.structure(tree) != jax.tree.structure(params):
        return False
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(params), strict=True)
    return all(jnp.shape(one) == jnp.shape(other) for one, other in pairs)


def _holders(state: Any, name: str) -> Iterator[Any]:
    """The parts of a nested state that have a field of that name."""
    if hasattr(state, name):
        yield state
        return
    children = state.values() if isinstance(state, dict) else state
    if isinstance(state, tuple | list | dict):
        for child in children:
            yield from _holders(child, name)
    elif hasattr(state, "inner_state"):
        yield from _holders(state.inner_state, name)


def _fields(state: Any, name: str) -> Iterator[Any]:
    return (getattr(holder, name) for holder in _holders(state, name))
