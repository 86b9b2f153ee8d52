"""An ensemble equals its members, is compiled once, and keeps every core busy."""

import os
import subprocess
import sys
import threading
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import descend, ensemble, every, seed_blocks


def run(key, learning_rate=0.1):
    """A member: a start drawn from the key, and descent on a double well."""
    start = jax.random.normal(key, (2,))
    well = lambda w: jnp.sum((w**2 - 1) ** 2)  # noqa: E731
    return descend(well, start, optax.sgd(learning_rate), every(5, 20), well)


KEYS = jax.random.split(jax.random.key(0), 7)


@pytest.fixture(scope="module")
def members():
    return jax.jit(jax.vmap(run))(KEYS)


@pytest.mark.parametrize("at_once", [None, 1, 3, 7, 100])
def test_ensemble_is_the_vectorised_run_whatever_is_done_at_once(at_once, members):
    """Oracle: `vmap`. 7 seeds in threes: the last call overlaps the one before."""
    together = ensemble(run, KEYS, at_once)
    assert type(together) is type(members)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-15), together, members)


def test_threads_keep_the_precision_of_their_caller():
    """Oracle: `vmap` in single precision, set for this thread only; double is set for all."""
    with jax.enable_x64(False):
        single = jax.jit(jax.vmap(run))(KEYS)
        together = ensemble(run, KEYS)
        seeds = ensemble(lambda seed: seed / 2, np.arange(3))
    assert together.records.dtype == jnp.float32
    np.testing.assert_allclose(together.records, single.records, rtol=1e-4, atol=1e-8)
    np.testing.assert_array_equal(seeds, [0, 0.5, 1])


def test_ensemble_can_stand_inside_a_compiled_function(members):
    """Oracle: `vmap`."""
    together = jax.jit(lambda keys: ensemble(run, keys, 2))(KEYS)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-15), together, members)


def test_ensemble_runs_over_any_tree_of_inputs():
    """Oracle: one member with its own learning rate."""
    rates = jnp.linspace(0.01, 0.05, 7)
    together = ensemble(lambda given: run(*given), (KEYS, rates))
    alone = jax.jit(run)(KEYS[4], rates[4])
    np.testing.assert_allclose(together.records[4], alone.records, rtol=1e-12)


def test_ensemble_is_compiled_once_and_run_by_several_threads(monkeypatch):
    """Oracle: Python goes through the function once; two calls meet, so two threads are inside."""
    traced, meeting = [], threading.Barrier(2, timeout=60)

    def meet(seed):
        meeting.wait()  # returns only when both seeds are here at the same time
        return seed

    def member(seed):
        traced.append(seed)
        return jax.pure_callback(
            meet, jax.ShapeDtypeStruct((), seed.dtype), seed, vmap_method="sequential"
        )

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    np.testing.assert_array_equal(ensemble(member, jnp.arange(2)), [0, 1])
    assert len(traced) == 1


@pytest.mark.parametrize("at_once", [1, 3, 7, 100])
def test_blocks_of_seeds_are_all_seeds(at_once, members):
    """Oracle: `vmap`, of all seeds. 7 seeds in threes: the last block overlaps the one before."""
    some = jax.jit(jax.vmap(run))
    for blocks in (seed_blocks, jax.jit(seed_blocks, static_argnums=(0, 2))):
        together = blocks(some, KEYS, at_once)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-15), together, members)


@pytest.mark.parametrize(
    ("at_once", "free", "expected"), [(1, 1, [1]), (4, 3, [4, 2]), (2, 9, [2])]
)
def test_as_many_seeds_run_at_once_as_fit_into_memory(monkeypatch, at_once, free, expected):
    """Oracle: the bytes of two sorted arrays that a seed must hold, at so many times it is free."""
    module, sizes, running, most = sys.modules["theorylab.training.ensemble"], [], [], []
    compiled, held = module._compiled, 8 * 10**5

    def counting(run, inputs, size, on_cpu):
        sizes.append(size)
        return compiled(run, inputs, size, on_cpu)

    def seen(first):
        running.append(1)
        most.append(len(running))
        time.sleep(0.02)
        running.pop()
        return first

    def member(seed):
        largest = jnp.sort(jax.random.normal(jax.random.key(seed), (10**5,)))[-1]
        like = jax.ShapeDtypeStruct((), largest.dtype)
        return jax.pure_callback(seen, like, largest, vmap_method="broadcast_all")

    monkeypatch.setattr(module, "_num_cores", lambda: 2)
    monkeypatch.setattr(module, "_compiled", counting)
    monkeypatch.setattr(module, "available_memory", lambda: 2 * free * held)
    together = ensemble(member, jnp.arange(4), at_once)
    assert (sizes, max(most)) == (expected, 2 if free == 9 else 1)
    np.testing.assert_array_equal(together, ensemble(member, jnp.arange(4)))


def test_batches_of_factorisations_do_not_wait_for_each_other():
    """Oracle: the trace. In a process of its own with a limit, as XLA used to wait for ever."""
    code = """
import jax, jax.numpy as jnp, numpy as np
from theorylab.training import ensemble

def run(key):
    matrices = jax.random.normal(key, (200, 40, 40))
    matrices = matrices + jnp.swapaxes(matrices, 1, 2)

    def step(shift, _):
        values = jnp.linalg.eigvalsh(matrices + shift)
        return values.mean(), values[:, -1]

    total = jnp.trace(matrices, axis1=1, axis2=2)
    return jnp.linalg.eigvalsh(matrices).sum(axis=1) - total, jax.lax.scan(step, 0.0, length=5)

print(*np.abs(ensemble(run, jax.random.split(jax.random.key(0), 16))[0]).max(axis=1))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert max(map(float, done.stdout.split())) < 1e-3
    assert len(done.stdout.split()) == 16


@pytest.mark.usefixtures("untyped")
def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="at_once must be at least 1, got 0"):
        ensemble(run, KEYS, 0)
    with pytest.raises(ValueError, match="leading axis of seeds"):
        ensemble(run, KEYS[0])
    with pytest.raises(ValueError, match="leading axis of seeds"):
        ensemble(run, KEYS[:0])
    with pytest.raises(ValueError, match=r"leading axis of seeds, got axes \[\(2,\), \(7,\)\]"):
        ensemble(lambda given: given, (KEYS, jnp.ones(2)))
    with pytest.raises(ValueError, match="at_once must be at least 1, got 0"):
        seed_blocks(run, KEYS, 0)
