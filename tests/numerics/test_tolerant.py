"""Eigenvalues to a tolerance, against spectra that were planted: bounds hold whatever they are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

from theorylab.numerics import certified_eigenpairs
from theorylab.numerics.counted import CountedOperator
from theorylab.numerics.spectra import Which
from theorylab.numerics.tolerant import Found, search_eigenpairs

KEY = jax.random.key(0)
SIZE = 150


def planted(kind: str, generator: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """Eigenvalues of one kind, in no order."""
    bulk = generator.uniform(-1, 1, size)
    match kind:
        case "clustered":
            bulk[:4] = 3 + 1e-7 * generator.standard_normal(4)
        case "repeated":
            bulk[:3] = 2.5
        case "indefinite":
            bulk[:3], bulk[3:6] = [5, 4, 3], [-5.1, -4.1, -3.1]
        case "low rank":
            bulk[2:] = 0.0
        case "zero":
            bulk[:] = 0.0
        case "equal":
            bulk[:] = -1.5
        case "geometric":
            bulk = 0.8 ** np.arange(size)
        case _:
            bulk -= 3.0
    return bulk


KINDS = ["clustered", "repeated", "indefinite", "geometric", "negative", "zero", "equal"]


class Diagonal:
    """Operators of one size and precision: the spectrum is an argument, compiled once."""

    def __init__(self, size: int, dtype: str) -> None:
        self.operator = CountedOperator(lambda v: jnp.ones(size, dtype) * v, jnp.zeros(size, dtype))
        self.dtype, self.applied = dtype, 0
        self.multiply = jax.jit(lambda values, vector: values * vector)

    def search(
        self, values: np.ndarray, k: int, which: Which, tolerance: float, budget: int = 400
    ) -> Found:
        """Search the operator with these eigenvalues; applications are counted here, too."""
        array, self.applied, self.operator.products = jnp.asarray(values, self.dtype), 0, 0

        def apply(_, vector):
            self.applied += 1
            return self.multiply(array, vector)

        setattr(self.operator, "_apply", apply)  # noqa: B010
        risk = 1e-3
        return search_eigenpairs(self.operator, k, which, tolerance, budget, risk, KEY)


@pytest.fixture(scope="module")
def diagonal() -> Diagonal:
    return Diagonal(SIZE, "float64")


def ranked(values: np.ndarray, which: str, k: int) -> np.ndarray:
    """The first k by the order that is asked for."""
    return np.sort(np.abs(values) if which == "magnitude" else values)[::-1][:k]


@pytest.mark.parametrize("which", ["largest", "magnitude"])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_and_meet_the_tolerance(diagonal, kind, which):
    """Oracle: the planted spectrum; a rotation would change nothing, for the start is random."""
    generator = np.random.default_rng(KINDS.index(kind))
    asked = ((1, 0.01),) if kind == "negative" else ((1, 0.01), (3, 1e-4))
    for k, tolerance in asked:
        values = planted(kind, generator)
        found = diagonal.search(values, k, which, tolerance)
        ranks = np.abs(found.values) if which == "magnitude" else found.values
        truth = ranked(values, which, k)
        assert np.all(np.abs(ranks - truth) <= found.bounds)
        assert found.converged
        assert np.all(found.bounds <= tolerance * np.abs(found.values) + 1e-12)
        assert found.products == diagonal.applied == found.needed <= 400


def test_single_precision_has_bounds_that_hold():
    """Oracle: the planted spectrum, rounded to the precision."""
    single = Diagonal(SIZE, "float32")
    for kind in ("clustered", "repeated", "indefinite", "low rank"):
        values = planted(kind, np.random.default_rng(3)).astype("float32")
        found = single.search(values, 3, "largest", 0.01, budget=60)
        assert np.all(np.abs(found.values - ranked(values, "largest", 3)) <= found.bounds)
        if kind != "low rank":  # rounding leaves open whether the third is 0
            assert found.converged


@pytest.mark.parametrize("kind", ["geometric", "repeated", "indefinite"])
def test_bounds_shrink_with_the_budget_and_needed_is_right_within_a_factor_of_two(diagonal, kind):
    """Oracle: the same search with a larger budget."""
    values = planted(kind, np.random.default_rng(1))
    whole = diagonal.search(values, 3, "largest", 1e-3)
    assert whole.converged
    before, found = np.full(3, np.inf), whole
    for budget in range(3, whole.products + 1):
        found = diagonal.search(values, 3, "largest", 1e-3, budget)
        assert found.products == budget
        assert np.all(found.bounds <= before * (1 + 1e-6) + 1e-13)
        assert np.all(np.abs(found.values - ranked(values, "largest", 3)) <= found.bounds)
        if kind == "geometric" and budget >= whole.products // 3:
            assert whole.products / 2 <= found.needed <= 2 * whole.products
        before = found.bounds
    assert found.converged


def test_restarts_keep_the_bounds(diagonal, monkeypatch):
    """Oracle: the planted spectrum; a basis of twelve vectors is restarted many times."""
    monkeypatch.setattr("theorylab.numerics.tolerant._LARGEST_BASIS", 12)
    values = planted("geometric", np.random.default_rng(0)) - 0.5
    for k in (1, 2):
        found = diagonal.search(values, k, "largest", 1e-9)
        truth = ranked(values, "largest", k)
        assert found.converged
        assert np.all(np.abs(found.values - truth) <= found.bounds)
        assert np.all(np.abs(found.values - truth) <= 1e-9)


@pytest.mark.parametrize("kind", ["geometric", "indefinite", "random"])
def test_pairs_take_at_most_a_fifth_more_products_than_arpack(diagonal, kind):
    """Oracle: ARPACK by SciPy, until the residual is as small as its own."""
    values = planted(kind, np.random.default_rng(2))
    count = 0

    def product(vector):
        nonlocal count
        count += 1
        return values * vector.ravel()

    operator: Any = LinearOperator(shape=(SIZE, SIZE), matvec=product, dtype=float)  # type: ignore
    _, vectors = eigsh(operator, k=1, which="LA", tol=1e-4, v0=np.ones(SIZE))  # type: ignore[arg-type]
    vector = vectors[:, 0]
    residual = np.linalg.norm(values * vector - (vector @ (values * vector)) * vector)
    found = diagonal.search(values, 1, "largest", 1e-9, budget=int(1.2 * count))
    assert found.residuals[0] <= max(residual, 1e-8)


def test_tiny_sizes_are_exact():
    """Oracle: the diagonal, with as many pairs as dimensions."""
    for size in (1, 2, 5):
        values = jnp.arange(1.0, size + 1)
        found = certified_eigenpairs(lambda v, a=values: a * v, size, size, KEY)
        np.testing.assert_allclose(found.values, values[::-1], rtol=1e-12)
        assert found.converged
        assert found.products == size


def test_vectors_of_a_tree_are_eigenvectors_from_either_end():
    """Oracle: dense eigh; residuals as reported."""
    matrix = np.random.default_rng(4).standard_normal((30, 30))
    matrix = jnp.asarray(matrix + matrix.T)

    def product(tree):
        flat = matrix @ jnp.concatenate([tree["a"], tree["b"]])
        return {"a": flat[:10], "b": flat[10:]}

    like = {"a": jnp.zeros(10), "b": jnp.zeros(20)}
    found = certified_eigenpairs(product, like, 3, KEY, which="smallest", tolerance=1e-5)
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[:3], rtol=1e-5)
    vectors = np.concatenate([found.vectors["a"], found.vectors["b"]], axis=1)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-12)
    residuals = np.linalg.norm(vectors @ matrix - found.values[:, None] * vectors, axis=1)
    assert np.all(residuals <= found.residuals + 1e-10)


def test_data_are_arguments_of_the_program_and_never_constants():
    """Oracle: the text of the compiled program has no array of that size."""
    data = jnp.arange(1000.0)
    operator = CountedOperator(jax.jit(lambda v: data * v), 1000)
    program: Any = operator._apply
    text = program.lower(operator._constants, data).as_text()
    assert len(text) < 5000
    np.testing.assert_array_equal(operator(jnp.ones(1000)), data)


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="k must be between 1 and size = 9 and budget = 240, got"):
        certified_eigenpairs(lambda v: v, 9, 10, KEY, budget=240)
    with pytest.raises(ValueError, match=r"tolerance must be at least .* got 1e-18"):
        certified_eigenpairs(lambda v: v, 9, 1, KEY, tolerance=1e-18)
    with pytest.raises(ValueError, match=r"risk must be in \(0, 1\), got 2"):
        certified_eigenpairs(lambda v: v, 9, 1, KEY, risk=2.0)
    with pytest.raises(ValueError, match="num_checks must come with num_steps"):
        certified_eigenpairs(lambda v: v, 9, 1, KEY, num_checks=3)
    with pytest.raises(TypeError, match="a tolerance needs values to look at, got a traced one"):
        jax.jit(lambda a: certified_eigenpairs(lambda v: a * v, 9, 1, KEY))(jnp.ones(9))
