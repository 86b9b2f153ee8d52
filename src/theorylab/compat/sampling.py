"""Means over random networks, and kernels in blocks, by Neural Tangents' names."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.kernels.finite.axes import Axes

from .empirical import NtkImplementation, empirical_kernel_fn
from .kernel import Get, names_of, picked
from .nodes import leaves


def monte_carlo_kernel_fn(
    init_fn: Callable[..., Any],
    apply_fn: Callable[..., Array],
    key: Any,
    n_samples: int | Iterable[int],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    vmap_axes: Any = None,
    implementation: NtkImplementation | int = NtkImplementation.JACOBIAN_CONTRACTION,
    **_: Any,
) -> Callable[..., Any]:
    """Make the function of the mean kernels of random networks, drawn in Neural Tangents' order.

    Args:
        init_fn: (key, shape) ─► (shape, params).
        apply_fn: (params, x, ...) ─► outputs.
        key: The source of randomness.
        n_samples: How many networks are drawn; several numbers: the means after each of them.
        batch_size: Has no effect: memory is bounded.
        device_count: Has no effect.
        store_on_device: Has no effect.
        trace_axes: The axes of outputs that are averaged.
        diagonal_axes: The axes of which each entry is compared with itself only.
        vmap_axes: Has no effect.
        implementation: Which method; 0 and 1 leave it to a count of operations.
        **_: Settings that have no effect.

    Returns:
        (x1, x2, get, ...) ─► kernels, or an iterator over them.

    Example:
        >>> from theorylab.compat import stax
        >>> init_fn, apply_fn, _ = stax.Dense(4)
        >>> kernel_fn = monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), 3)
        >>> kernel_fn(jnp.array([[1.0, 1.0]]), None, "ntk").round(4).tolist()
        [[1.0]]
    """
    one_network = empirical_kernel_fn(
        apply_fn, trace_axes, diagonal_axes, vmap_axes, implementation
    )
    several = not isinstance(n_samples, int)
    counts = sorted(set(n_samples)) if isinstance(n_samples, Iterable) else [n_samples]

    def draw(own: Any, x1: Array, x2: Array | None, names: Any, options: dict[str, Any]) -> Any:
        init_key, noise_key = jax.random.split(own)
        _, params = init_fn(init_key, x1.shape)
        beside = {**options, "rng": noise_key} if _is_noisy(apply_fn) else options
        return one_network(x1, x2, names, params, **beside)

    def kernel_fn(x1: Array, x2: Array | None = None, get: Get = None, **options: Any) -> Any:
        names = names_of(get)
        totals = _totals(lambda own: draw(own, x1, x2, names, options), key, counts)
        found = (_mean(total, count, names, get) for count, total in totals)
        return found if several else next(found)

    kernel_fn.node = None  # type: ignore[attr-defined]
    return kernel_fn


def _totals(draw: Callable[[Any], Any], key: Any, counts: list[int]) -> Iterator[tuple[int, Any]]:
    """The sums over so many draws."""
    total = None
    for count in range(1, max(counts) + 1):
        key, own = jax.random.split(key)
        drawn = draw(own)
        total = drawn if total is None else jax.tree.map(jnp.add, total, drawn)
        if count in counts:
            yield count, total


def _mean(total: Any, count: int, names: tuple[str, ...], get: Get) -> Any:
    values = {name: getattr(total, name) / count for name in names}
    return picked(values, get, "MonteCarloKernel")


def batch(
    kernel_fn: Callable[..., Any],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
) -> Callable[..., Any]:
    """Compute a kernel in blocks of inputs.

    The kernel functions of this package bound their memory by themselves, and stay as they are.

    Args:
        kernel_fn: (x1, x2, ...) ─► kernels.
        batch_size: The number of inputs on either side of a block; 0: all.
        device_count: Has no effect.
        store_on_device: Has no effect.

    Example:
        >>> def kernel_fn(x1, x2):
        ...     return x1 @ (x1 if x2 is None else x2).T
        >>> batch(kernel_fn, batch_size=2)(jnp.eye(3), None).tolist() == jnp.eye(3).tolist()
        True
    """
    if hasattr(kernel_fn, "node") or not batch_size:
        return kernel_fn

    def in_blocks(x1: Array, x2: Array | None = None, *rest: Any, **options: Any) -> Any:
        second = x1 if x2 is None else x2
        rows = []
        for one in _blocks(x1, batch_size):
            parts = [
                kernel_fn(one, other, *rest, **options) for other in _blocks(second, batch_size)
            ]
            rows.append(jax.tree.map(lambda *each: jnp.concatenate(each, axis=1), *parts))
        return jax.tree.map(lambda *each: jnp.concatenate(each, axis=0), *rows)

    return in_blocks


def _blocks(x: Array, size: int) -> list[Array]:
    return [x[start : start + size] for start in range(0, len(x), size)]


def _is_noisy(apply_fn: Callable[..., Array]) -> bool:
    """Whether the network has dropout, and so needs a key."""
    node = getattr(apply_fn, "node", None)
    return node is not None and any(leaf.noisy for leaf in leaves(node))
