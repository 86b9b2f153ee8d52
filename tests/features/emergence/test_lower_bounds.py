"""What fixed features cannot do, against enumeration, closed forms and a search by hand."""

import math
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import SparseParity, parity_mixture
from theorylab.features import random_fourier_features
from theorylab.features.emergence import (
    best_hinge,
    drawn_features,
    feature_matrix,
    kernel_lower_bound,
    largest_norm,
    lower_bound,
    mixture_chances,
    num_parities,
    parity_coefficients,
    parity_rows,
)
from theorylab.features.gradient import fixed_feature_bound

D, K = 6, 3
POINTS = SparseParity(D, K).points()[0]
solve = jax.jit(partial(best_hinge, num_steps=400))


@pytest.fixture(scope="module")
def features():
    """Numbers in [−1, 1] without any law, at all 64 points."""
    return jax.random.uniform(jax.random.key(0), (2**D, 5), minval=-1.0, maxval=1.0)


def test_coefficients_are_correlations_with_products_of_signs(features):
    """Oracle: every product by hand. Sets of k signs have the rows of `parity_rows`."""
    found = parity_coefficients(features)
    assert (found**2).sum() == pytest.approx(float((features**2).mean(axis=0).sum()), rel=1e-12)
    rows = []
    for places in combinations(range(D), K):
        signs = POINTS[:, np.array(places)].prod(axis=1)
        rows.append(sum(2 ** (D - 1 - place) for place in places))
        expected = (signs[:, None] * features).mean(axis=0)
        np.testing.assert_allclose(found[rows[-1]], expected, atol=1e-14)
    assert sorted(rows) == parity_rows(D, K).tolist()
    assert len(rows) == num_parities(D, K)


def test_at_one_half_the_theorem_is_the_proposition_about_blocks():
    """Oracle: Prop. 3.23, written elsewhere; `largest_norm` is where it is 0."""
    bound = lower_bound(100, 5, 200, 0.7)
    assert bound.theorem == pytest.approx(fixed_feature_bound(200, 0.7, 5), rel=1e-12)
    assert lower_bound(100, 5, 200, largest_norm(5, 200)).theorem == pytest.approx(0, abs=1e-12)
    assert bound.violated == ()
    assert not bound.vacuous
    assert lower_bound(100, 5, 600, 0.93).vacuous
    fails = lower_bound(20, 2, 5, 1.0, other_probability=0.3).violated
    assert fails == ("relevant k", "patterns D", "k odd", "p_o = 1/2")


@pytest.mark.parametrize("k", [5, 7])
def test_in_the_regime_counting_is_stronger_than_the_theorem_and_than_what_is_printed(k):
    """Oracle: C(D, k) ≥ 16ᵏ. So the printed inequality is true too, where it says anything."""
    for exponent in np.linspace(-3, 9, 40):
        for num_features in (1, 10, 1000):
            bound = lower_bound(16 * k, k, num_features, 10**exponent)
            assert bound.counted >= bound.theorem
            assert bound.counted >= bound.printed or bound.printed <= 0
    assert lower_bound(16 * k, k, 1, 4.0).printed > lower_bound(16 * k, k, 1, 4.0).theorem


def test_short_weights_have_a_loss_in_closed_form_and_the_count_bounds_its_mean(features):
    """Oracle: if B‖Ψ‖ ≤ 1 no sample is beyond the hinge, and the least loss is 1 − B‖c_A‖."""
    norm = float(1 / jnp.linalg.norm(features, axis=1).max())
    chances = jnp.full(2**D, 2.0**-D)
    coefficients = jnp.linalg.norm(parity_coefficients(features), axis=1)
    for places in [(0, 1, 2), (1, 3, 5)]:
        labels = POINTS[:, np.array(places)].prod(axis=1)
        row = sum(2 ** (D - 1 - place) for place in places)
        solved = solve(features, labels, chances, norm)
        assert solved.loss == pytest.approx(1 - norm * float(coefficients[row]), abs=1e-9)
        assert solved.floor == pytest.approx(float(solved.loss), abs=1e-9)
    mean = float(1 - norm * coefficients[parity_rows(D, K)].mean())
    assert mean >= lower_bound(D, K, 5, norm, other_probability=1.0).counted


def test_long_weights_are_solved_within_their_certificate():
    """Oracle: one feature, by a search over w; the loss falls with B, and stops."""
    feature = jnp.linspace(-1.0, 1.0, 2**D)[:, None]
    labels = jnp.sign(feature[:, 0] + 0.4)
    chances = jnp.arange(1.0, 2**D + 1) / jnp.arange(1.0, 2**D + 1).sum()
    grid = jnp.linspace(-20.0, 20.0, 40001)
    losses = jnp.maximum(1 - labels[:, None] * feature * grid[None, :], 0.0)
    curve = chances @ losses
    for norm in (0.5, 2.0, 20.0):
        inside = jnp.abs(grid) <= norm + 1e-9  # points of the grid are rounded
        least = float(jnp.where(inside, curve, jnp.inf).min())
        solved = solve(feature, labels, chances, norm)
        assert solved.floor <= least + 1e-9 <= solved.loss + 1e-6
        assert solved.loss - solved.floor < 0.02
        assert jnp.linalg.norm(solved.weights) <= norm * (1 + 1e-12)


def test_a_feature_that_knows_the_set_has_no_loss():
    """Oracle: Ψ = χ_A, w = 1. The bound is for features chosen before A."""
    labels = POINTS[:, :K].prod(axis=1)
    solved = solve(jnp.tile(labels[:, None], 5) / 5**0.5, labels, jnp.full(2**D, 2.0**-D), 1.0)
    assert solved.loss == pytest.approx(0.0, abs=1e-6)


def test_the_mixture_has_the_chances_of_the_dictionary_law():
    """Oracle: the law's table of counts, and that chances sum to one."""
    chances = np.asarray(mixture_chances(POINTS, range(K)))
    counts = np.asarray((POINTS[:, :K] > 0).sum(axis=1))
    law = parity_mixture(D, K)
    found = [chances[counts == count].sum() for count in range(K + 1)]
    np.testing.assert_allclose(found, law.counts, rtol=1e-12)
    np.testing.assert_allclose(mixture_chances(POINTS, range(K), 1.0), 2.0**-D, rtol=1e-12)


def test_a_gaussian_kernel_has_the_mean_eigenvalue_that_its_bound_allows():
    """Oracle: λ_A = ((1−q)/2)ᵏ ((1+q)/2)^{D−k}, q = e^{−2/ℓ²}; 1 − L√λ_A is above the bound."""
    q = math.exp(-2 / 1.5**2)
    distances = jnp.sum((POINTS[:, None, :] - POINTS[None, :, :]) ** 2, axis=2)
    kernel = jnp.exp(-distances / (2 * 1.5**2))
    eigenvalue = ((1 - q) / 2) ** K * ((1 + q) / 2) ** (D - K)
    labels = POINTS[:, :K].prod(axis=1)
    assert labels @ kernel @ labels / 4.0**D == pytest.approx(eigenvalue, rel=1e-12)
    assert 1 - 2 * eigenvalue**0.5 >= kernel_lower_bound(D, K, 2.0, other_probability=1.0)
    # Tight: eigenvalues that are all equal, 1/C(D, k).
    assert kernel_lower_bound(D, K, 2.0) == pytest.approx(0.5 * (1 - 2 / 20**0.5))


def test_the_matrix_of_features_is_the_model_at_every_input():
    """Oracle: f = Ψθ, up to one factor; the largest number is 1."""
    model = random_fourier_features(jax.random.key(1), D, 3, bandwidth=2.0)
    matrix = feature_matrix(model, POINTS)
    theta = jnp.arange(1.0, 7.0)[:, None]
    outputs = model.apply(theta, POINTS)
    assert jnp.abs(matrix).max() == pytest.approx(1.0, abs=1e-12)
    cosine = (matrix @ theta * outputs).sum() / jnp.linalg.norm(matrix @ theta)
    assert cosine == pytest.approx(float(jnp.linalg.norm(outputs)), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lower_bound(10, 0, 5, 1.0), "num_relevant must be in"),
        (lambda: lower_bound(3, 5, 5, 1.0), "num_patterns must be in"),
        (lambda: lower_bound(10, 5, 0, 1.0), "num_features must be at least 1"),
        (lambda: lower_bound(10, 5, 5, 1.0, 0.0), "other_probability must be in"),
        (lambda: parity_coefficients(jnp.ones((3, 1))), "points must be 2"),
        (lambda: parity_rows(30, 5), "num_patterns must be at most"),
        (
            lambda: best_hinge(jnp.ones((2, 1)), jnp.ones(2), jnp.ones(2) / 2, 1.0, 0),
            "num_steps must be at least 1, got 0",
        ),
        (
            lambda: best_hinge(jnp.ones((2, 1)), jnp.ones(2), jnp.ones(2) / 2, 0.0, 5),
            "norm_bound must be positive",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_drawn_features_are_bounded_and_as_many_of_each_kind():
    """Oracle: N = h(D + 2) = 16 columns in [−1, 1]; waves are cosines and sines of one phase."""
    draw = jax.jit(drawn_features, static_argnums=2)
    drawn = draw(jax.random.key(0), POINTS, 2)
    assert drawn.shape == (3, 2**D, 2 * (D + 2))
    np.testing.assert_allclose(jnp.abs(drawn).max(axis=(1, 2)), 1.0, rtol=1e-12)
    pairs = drawn[2, :, :8] ** 2 + drawn[2, :, 8:] ** 2
    np.testing.assert_allclose(pairs, pairs[0, 0], rtol=1e-10)
    with pytest.raises(ValueError, match="num_neurons must be even"):
        drawn_features(jax.random.key(0), POINTS, num_neurons=3)
