"""Many seeds, one compiled program.

A run is a pure function of its key, so `jax.jit(jax.vmap(run))(keys)` is already one program, and
on an accelerator the fastest one. On a CPU another is: one network trains inside a core's cache,
many at once stream through memory, and a compiled loop keeps only one core busy. So the program is
compiled once, and every core calls it for one seed after another (`benchmarks/training.py`), or as
many cores as there is memory for. What wants some seeds at once along the first axis of its arrays,
and has more of them than memory holds, is called by `seed_blocks`.

Every call is a block. Where blocks are kept (`theorylab.blocks`), those that an earlier run has
finished are read instead of being computed again.
"""

import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jaxtyping import Array, Int

from theorylab.blocks import current_keeper, keeping
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.numerics.memory import available_memory
from theorylab.progress import report

# LLVM's higher levels take two to three times as long to compile, and run no faster: the time goes
# into matrix products, which are compiled already.
_CPU_OPTIONS = {"xla_backend_optimization_level": 1}
# XLA deals a batch of factorisations (eigenvalues, Cholesky, …) to its pool of threads and waits
# for them in it, so that two programs at once wait for each other for ever: one after another then.
_BATCHED = re.compile(r'@lapack_.*num_batch_dims = "[1-9]')
_WITHOUT_POOL = {"xla_cpu_multi_thread_eigen": False}


def ensemble(run: Callable[[Any], Any], inputs: Any, at_once: int | None = None) -> Any:
    """What `jax.vmap(run)(inputs)` gives, compiled once and run on all cores.

    Inside another compiled function, where there are no threads, it is one `jax.lax.map`.

    Args:
        run: A pure function of one seed's input to a pytree of arrays.
        inputs: The seeds' keys, (seeds,), or any pytree of arrays with seeds as the leading axis.
        at_once: How many seeds one call takes, vectorised; by default 1 on a CPU, else all. More
            than 1 pays on a CPU only for networks of some ten neurons. Where so many do not fit
            into the memory that is free, it is half as many, or half of that, …

    Example:
        >>> ensemble(lambda seed: seed**2, jnp.arange(3)).tolist()
        [0, 1, 4]
    """
    if at_once is not None and at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}.")
    inputs = jax.tree.map(jnp.asarray, inputs)
    num_seeds = _num_seeds(inputs)
    on_cpu = jax.default_backend() == "cpu"
    size = min(at_once or (1 if on_cpu else num_seeds), num_seeds)
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(inputs)):
        return jax.lax.map(run, inputs, batch_size=size)
    program, num_threads = _compiled(run, inputs, size, on_cpu)
    while size > 1 and num_threads == 0:  # so many seeds do not fit into memory
        size = -(-size // 2)
        program, num_threads = _compiled(run, inputs, size, on_cpu)
    program = _kept(program)
    with ThreadPoolExecutor(max(1, num_threads)) as pool:
        parts = list(pool.map(program, _firsts(num_seeds, size)))
    return jax.tree.map(lambda *leaves: _joined(leaves, num_seeds), *parts)


def seed_blocks(run: Callable[[Any], Any], inputs: Any, at_once: int) -> Any:
    """What `run(inputs)` gives, from blocks of so many seeds; `run` itself, if one has them all.

    Inside another compiled function it is one `jax.lax.map` over the blocks.

    Args:
        run: Seeds' inputs to a pytree of arrays, both with seeds as the leading axis.
        inputs: The seeds' keys, (seeds,), or any pytree of arrays with seeds as the leading axis.
        at_once: How many seeds a block has.

    Example:
        >>> seed_blocks(lambda seeds: seeds**2, jnp.arange(5), at_once=2).tolist()
        [0, 1, 4, 9, 16]
    """
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}.")
    inputs = jax.tree.map(jnp.asarray, inputs)
    num_seeds = _num_seeds(inputs)
    if at_once >= num_seeds:
        return run(inputs)

    def block(first: Any) -> Any:
        slice_of = jax.lax.dynamic_slice_in_dim
        with keeping(None):  # a block that is read asks for no series: none inside has a number
            return run(jax.tree.map(lambda leaf: slice_of(leaf, first, at_once), inputs))

    firsts = _firsts(num_seeds, at_once)
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(inputs)):
        found = jax.lax.map(block, jnp.array(firsts))
        missing = num_seeds - at_once * (len(firsts) - 1)  # that only the last block has
        return jax.tree.map(
            lambda leaf: jnp.concatenate([*leaf[:-1], leaf[-1, at_once - missing :]]), found
        )
    program = _kept(_Program(block, jax.eval_shape(block, 0)))
    parts = []
    for first in firsts:
        report(f"seeds {first + 1} to {first + at_once} of {num_seeds}", first / num_seeds)
        parts.append(program(first))
    return jax.tree.map(lambda *leaves: _joined(leaves, num_seeds), *parts)


def _firsts(num_seeds: int, size: int) -> list[int]:
    """Where blocks begin; the last may overlap the one before, so that all have one program."""
    return [min(first, num_seeds - size) for first in range(0, num_seeds, size)]


class _Program(NamedTuple):
    """First seed ─► results of a block of seeds, and the shapes and types of these results."""

    call: Callable[[int], Any]
    results: Any  # a tree of `jax.ShapeDtypeStruct`


def _kept(program: _Program) -> Callable[[int], Any]:
    """The program's call; blocks that are kept are read, and those computed are offered."""
    keeper = current_keeper()
    expected, structure = jax.tree.flatten(program.results)
    if keeper is None or any(jnp.issubdtype(e.dtype, jax.dtypes.extended) for e in expected):
        return program.call
    series = keeper.series()

    def call(first: int) -> Any:
        kept = keeper.read(series, first)
        if kept is not None and list(map(_kind, kept)) == list(map(_kind, expected)):
            return jax.tree.unflatten(structure, kept)
        began = time.perf_counter()
        results = program.call(first)
        arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(results)]
        keeper.write(series, first, arrays, time.perf_counter() - began)
        return results

    return call


def _kind(leaf: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array."""
    return leaf.shape, np.dtype(leaf.dtype)


def _compiled(
    run: Callable[[Any], Any], inputs: Any, size: int, on_cpu: bool
) -> tuple[_Program, int]:
    """The program, first seed ─► results of `size` seeds, and how many of it may run at once.

    That is 0 if not even one fits into memory.
    """
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), inputs)
    hoisted, constants = _hoisted(run, one)

    def some(constants: list[Any], inputs: Any, first: Int[Array, ""]) -> Any:
        chosen = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, size), inputs)
        if size > 1:
            return jax.vmap(hoisted, in_axes=(None, 0))(constants, chosen)
        # An axis of one would cost a fifth of the time: XLA lays matrices out differently for it.
        alone = hoisted(constants, jax.tree.map(lambda leaf: leaf[0], chosen))
        return jax.tree.map(lambda leaf: leaf[None], alone)

    # A number with its type: a thread does not know the precision that was set for this one.
    lowered = jax.jit(fast_convolutions(some)).lower(constants, inputs, np.int32(0))
    options: dict[str, Any] | None = None
    num_threads = 1
    if on_cpu and _BATCHED.search(lowered.as_text()):
        options = _CPU_OPTIONS | _WITHOUT_POOL
    elif on_cpu:
        options, num_threads = _CPU_OPTIONS, _num_cores()
    compiled = lowered.compile(options)
    num_threads = _that_fit(num_threads, compiled)

    def call(first: int) -> Any:
        return jax.block_until_ready(compiled(constants, inputs, np.int32(first)))

    return _Program(call, lowered.out_info), num_threads


def _that_fit(num_threads: int, compiled: Any) -> int:
    """How many calls, at most so many, may run at once in the memory that is free."""
    free, needed = available_memory(), compiled.memory_analysis()
    if free is None or needed is None:
        return num_threads
    each = needed.temp_size_in_bytes + needed.output_size_in_bytes
    return min(num_threads, free // max(each, 1))


def _hoisted(run: Callable[[Any], Any], example: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The run with the arrays that it closes over as its first argument, and these arrays.

    As constants of the program XLA would fold them: a dataset takes seconds, and gains nothing.
    """
    closed, result = jax.make_jaxpr(run, return_shape=True)(example)
    structure = jax.tree.structure(result)

    def hoisted(constants: list[Any], given: Any) -> Any:
        function = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, constants))
        return jax.tree.unflatten(structure, function(*jax.tree.leaves(given)))

    return hoisted, closed.consts


def _joined(parts: tuple[jax.Array | np.ndarray, ...], num_seeds: int) -> jax.Array:
    """The parts end to end, without the overlap of the last two."""
    *whole, last = map(np.asarray, parts)
    missing = num_seeds - sum(map(len, whole))
    # NumPy, because here JAX would compile a program for every shape.
    return jax.device_put(np.concatenate([*whole, last[-missing:]]))


def _num_seeds(inputs: Any) -> int:
    axes = {leaf.shape[:1] for leaf in jax.tree.leaves(inputs)}
    if len(axes) != 1 or axes <= {(), (0,)}:
        raise ValueError(f"inputs must share a leading axis of seeds, got axes {sorted(axes)}.")
    ((num_seeds,),) = axes
    return num_seeds


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # what this process may use, where the system says so
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
