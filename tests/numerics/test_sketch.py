"""The sketch of a spectrum against spectra that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.numerics import SpectralSketch
from theorylab.numerics.sketch import cdf_bounds, ratio_interval, sum_interval

RNG = np.random.default_rng(0)
OUTLIERS = [50.0, 40.0, 40.0, 30.0, -8.0]


def planted(size: int = 800) -> np.ndarray:
    """Five outliers, two of them equal, and a Gaussian bulk."""
    bulk = np.random.default_rng(1).normal(0.2, 0.5, size - len(OUTLIERS))
    return np.concatenate([OUTLIERS, bulk])


def sketch_of(spectrum: np.ndarray, seed: int = 0, **settings) -> SpectralSketch:
    values = jnp.asarray(spectrum)
    size, key = len(spectrum), jax.random.key(seed)
    return SpectralSketch(lambda v: values * v, size, key, **settings)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_for_every_eigenvalue_of_a_planted_operator(seed):
    """Oracle: the planted eigenvalues, with a repeated one that one Krylov space cannot see."""
    spectrum = np.sort(planted())[::-1]
    sketch = sketch_of(spectrum, seed)
    values, bounds = sketch.top(8)
    assert (values <= spectrum[:8] + 1e-9).all()
    assert (spectrum[:8] <= values + bounds).all()
    assert bounds[:4].max() < 1e-3
    low = sketch.smallest
    assert low.value - low.bound <= spectrum[-1] <= low.value + 1e-9
    assert low.bound < 1e-3


def test_the_first_run_ends_when_the_largest_eigenvalue_is_certain():
    """Oracle: the planted largest eigenvalue; a smaller tolerance takes more products."""
    few, many = (sketch_of(planted(), tolerance=each) for each in (0.05, 1e-6))
    for sketch in (few, many):
        value, bound = sketch.largest
        assert value <= 50 + 1e-9
        assert value + bound >= 50
        assert bound <= sketch.tolerance * value
        assert sketch.products == sketch.first_products
    assert few.products < many.products


@pytest.mark.parametrize("size", [1, 2, 12, 40])
def test_small_operators_are_known_exactly(size):
    """Oracle: all eigenvalues."""
    spectrum = RNG.normal(size=size)
    sketch = sketch_of(spectrum)
    np.testing.assert_allclose(sketch.largest.value, spectrum.max(), atol=1e-9)
    np.testing.assert_allclose(sketch.smallest.value, spectrum.min(), atol=1e-9)
    np.testing.assert_allclose(sketch.trace.estimate, spectrum.sum(), atol=1e-8)
    np.testing.assert_allclose(sketch.square.estimate, (spectrum**2).sum(), atol=1e-8)
    share = (np.abs(spectrum) < 0.5).mean()
    np.testing.assert_allclose(sketch.share_within(0.5), [share] * 3, atol=1e-9)


def test_an_operator_of_low_rank_has_the_rest_at_zero():
    """Oracle: eigenvalues 3, 2, 1 and 0: effective rank 36/14."""
    sketch = sketch_of(np.concatenate([[3.0, 2.0, 1.0], np.zeros(297)]))
    np.testing.assert_allclose(sketch.effective_rank.estimate, 36 / 14, rtol=1e-6)
    np.testing.assert_allclose(sketch.trace.estimate, 6.0, rtol=1e-6)
    np.testing.assert_allclose(sketch.share_within(0.1), [0.99] * 3, atol=1.001 / 300)


def test_intervals_of_trace_rank_and_share_hold_the_truth():
    """Oracle: the planted spectrum; 12 sketches, of which 95 % intervals miss few."""
    spectrum = planted(300)
    trace, square = spectrum.sum(), (spectrum**2).sum()
    share = (np.abs(spectrum) < 0.5).mean()
    truths = (trace, square, trace**2 / square, share)
    hits = np.zeros(4)
    for seed in range(12):
        sketch = sketch_of(spectrum, seed, first=20, num_steps=8)
        found = (sketch.trace, sketch.square, sketch.effective_rank, sketch.share_within(0.5))
        hits += [each.low <= truth <= each.high for each, truth in zip(found, truths, strict=True)]
    assert hits.min() >= 9  # fewer than 9 of 12 at 95 %: 2 in 10,000


@pytest.mark.parametrize("law", ["gaussian", "exponential"])
def test_intervals_cover_in_95_percent(law):
    """Oracle: 3,000 repeats with a planted spectrum, whose uᵀAu are drawn directly."""
    rng = np.random.default_rng(3)
    spectrum = rng.normal(0.3, 1, 200) if law == "gaussian" else rng.exponential(1, 200)
    trace, square, repeats = spectrum.sum(), (spectrum**2).sum(), 3000
    hits = np.zeros(3)
    for _ in range(repeats):
        shares = rng.standard_normal((6, 200)) ** 2
        shares /= shares.sum(axis=1, keepdims=True)
        means, squares = shares @ spectrum, shares @ spectrum**2
        found = (
            (sum_interval(0.0, 200, means, 0.0), trace),
            (sum_interval(0.0, 200, squares, 0.0), square),
            (ratio_interval((0.0, 0.0), 200, means, squares), trace**2 / square),
        )
        hits += [each.low <= truth <= each.high for each, truth in found]
    assert (hits / repeats > 0.93).all()
    assert (hits / repeats < 0.97).all()


def test_radau_bounds_hold_for_the_law_of_one_start():
    """Oracle: F_u(t) itself, at points between all eigenvalues."""
    spectrum = np.sort(RNG.normal(size=30))
    start = RNG.normal(size=30)
    start /= np.linalg.norm(start)
    basis, diagonal, off = [start], [], []
    for _ in range(6):  # plain Lanczos with all inner products
        image = spectrum * basis[-1]
        diagonal.append(basis[-1] @ image)
        rest = image - np.array(basis).T @ (np.array(basis) @ image)
        off.append(np.linalg.norm(rest))
        basis.append(rest / off[-1])
    matrix = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    for at in np.linspace(-2.5, 2.5, 41):
        low, high = cdf_bounds(matrix, off[-1], at)
        true = (start**2)[spectrum <= at].sum()
        assert low - 1e-9 <= true <= high + 1e-9


def test_the_density_has_the_planted_moments():
    """Oracle: mean of the eigenvalues; weights sum to 1 in every probe."""
    spectrum = planted(300)
    found = sketch_of(spectrum, num_probes=12, num_steps=8).density
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-9)
    mean = float((found.nodes * found.weights).sum(axis=1).mean())
    np.testing.assert_allclose(mean, spectrum.mean(), atol=0.05)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="num_probes at least 2, got 40, 10, 16 and 1"):
        sketch_of(np.ones(3), num_probes=1)
    with pytest.raises(ValueError, match="radius must be positive, got 0"):
        sketch_of(np.ones(3)).share_within(0.0)
