"""Lanczos with thick restarts: large vectors are orthogonalised only when it is needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.numerics import restarted
from theorylab.numerics.counted import CountedOperator
from theorylab.numerics.restarted import Run
from theorylab.numerics.rows import Rows

SIZE = 400


def spectrum(kind: str) -> np.ndarray:
    """Outliers that converge in a few steps; a bulk without gaps; magnitudes over many orders."""
    draw = np.random.default_rng(0)
    match kind:
        case "outliers":
            return np.append(np.array([90.0, 40.0, 20.0, -30.0]), draw.uniform(-1, 1, SIZE - 4))
        case "bulk":
            return np.sort(np.linalg.eigvalsh(draw.standard_normal((SIZE, SIZE))))
        case _:
            return 0.9 ** np.arange(SIZE)


def ran(values: np.ndarray, dtype: str, locked: int, restarts: int) -> tuple[Run, np.ndarray, int]:
    """A run of 30 steps between restarts, its vectors, and how often it looked at all of them."""
    operator = CountedOperator(lambda v: jnp.asarray(values, dtype) * v, jnp.zeros(SIZE, dtype))
    kept, looks = Rows(SIZE, operator.dtype), 0
    for axis in range(locked):
        kept.append(jnp.eye(SIZE, dtype=dtype)[3 * axis])
    run = Run(operator, kept, jax.random.normal(jax.random.key(1), (SIZE,), dtype), 40, 0.0)
    follow = run.drift.follow

    def counting(orthogonalised: bool) -> None:
        nonlocal looks
        looks += orthogonalised
        follow(orthogonalised)

    run.drift.follow = counting
    for part in range(restarts + 1):
        for _ in range(30 if not part else 18):
            run.step()
        if part < restarts:
            found, vectors = np.linalg.eigh(run.matrix)
            run.restart(np.argsort(-found)[:12], found, vectors)
    return run, np.concatenate(run.basis.blocks)[: len(run.basis)].astype(float), looks


@pytest.mark.parametrize("restarts", [0, 2])
@pytest.mark.parametrize("locked", [0, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["outliers", "bulk", "geometric"])
def test_the_projection_is_exact_although_few_vectors_are_orthogonalised(
    monkeypatch, kind, dtype, locked, restarts
):
    """Oracle: WᵀW = 1 to 10 √ε, and NᵀAN = T to 100 ε‖A‖ with N the orthonormal factor of W."""
    monkeypatch.setattr(restarted, "_LARGE", 1)
    values = spectrum(kind)
    run, w, looks = ran(values, dtype, locked, restarts)
    epsilon, norm = float(jnp.finfo(dtype).eps), np.abs(values).max()
    assert np.abs(w @ w.T - np.eye(len(w))).max() <= 10 * epsilon**0.5
    n = np.linalg.inv(np.linalg.cholesky(w @ w.T)) @ w  # Gram and Schmidt's, in W's order
    dense = (n * values.astype(dtype)) @ n.T
    assert np.abs(dense - run.matrix).max() <= 100 * epsilon * norm
    steps = 30 + 18 * restarts
    assert looks < steps
    if kind == "bulk" and not restarts:
        assert looks <= 4


@pytest.mark.parametrize("kind", ["outliers", "bulk"])
def test_without_the_estimate_orthogonality_is_lost_or_everything_is_taken_out(monkeypatch, kind):
    """Oracle: two extremes. Never looking loses outliers; always looking keeps WᵀW = 1."""
    values = spectrum(kind)
    _, w, looks = ran(values, "float32", 0, 0)
    assert looks == 30
    assert np.abs(w @ w.T - np.eye(len(w))).max() <= 1e-5
    monkeypatch.setattr(restarted, "_LARGE", 1)
    monkeypatch.setattr("theorylab.numerics.drift.Drift.is_due", lambda *_, **__: False)
    _, w, _ = ran(values, "float32", 0, 0)
    lost = np.abs(w @ w.T - np.eye(len(w))).max()
    assert lost > 0.1 if kind == "outliers" else lost < 1e-3
