"""Gradient features: three ways to the simplified gradient, cones, and a blind search."""

import itertools
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from theorylab.data import Dataset, gaussian_mixture
from theorylab.data.mixtures import orthogonal_mixture
from theorylab.features.gradient import (
    FiniteLaw,
    bernstein_tail,
    blind_directions,
    box_members,
    cone_members,
    dataset_gradients,
    finite_gradients,
    frontier,
    gradient_features,
    mixture_gradients,
    neurons_at_once,
    sampled_gradients,
)

# The room's name is the function.
module = sys.modules["theorylab.features.gradient.gradient_features"]


def test_the_closed_form_of_a_mixture_is_its_integral():
    """Oracle: quadrature over the coordinate along w; across w the conditional mean is μ's."""
    mu, sigma, w, b = np.array([0.7, -1.2]), 0.8, np.array([1.5, 2.0]), 0.4
    law = gaussian_mixture(jnp.array([mu]), jnp.array([-1.0]), deviations=sigma)
    unit = w / np.linalg.norm(w)

    def density(t):
        return math.exp(-((t - mu @ unit) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    low = b / np.linalg.norm(w)
    mass = integrate.quad(density, low, 12)[0]
    along = integrate.quad(lambda t: t * density(t), low, 12)[0]
    across = mu - (mu @ unit) * unit
    found = mixture_gradients(law, jnp.array([w]), jnp.array([b]))
    np.testing.assert_allclose(found[0], -(along * unit + mass * across), rtol=1e-8)


def test_samples_agree_with_the_closed_form_of_a_mixture_and_so_do_error_bars():
    """Over 300 repetitions: the mean within 5 standard errors, the spread within 10 %."""
    law = orthogonal_mixture(3, 4, separation=0.7, probabilities=jnp.array([0.5, 0.3, 0.2]))
    weights = jax.random.normal(jax.random.key(0), (4, 4))
    biases = jnp.array([1.0, 1.0, -1.0, 0.0])
    keys = jax.random.split(jax.random.key(2), 300)
    runs = jax.jit(jax.vmap(lambda key: sampled_gradients(key, law.sample, weights, biases, 200)))(
        keys
    )
    gaps = np.asarray(runs.gradients) - np.asarray(mixture_gradients(law, weights, biases))
    spread = np.sqrt((gaps**2).sum(axis=2).mean(axis=0))
    assert np.all(np.abs(gaps.mean(axis=0)) < 5 * gaps.std(axis=0) / np.sqrt(300) + 1e-12)
    np.testing.assert_allclose(runs.errors.mean(axis=0), spread, rtol=0.1)  # 3 of 1/√(2·3·300)


def test_enumeration_is_the_sum_over_points():
    """Parity of three signs, for which E[y x₁ 1[x₁ > 0]] and the like are known: all zero."""
    x = jnp.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    law = FiniteLaw(x, x.prod(axis=1), jnp.full(8, 0.125))
    weights = jnp.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    found = finite_gradients(law, weights, jnp.array([0.0, 2.0]))
    np.testing.assert_allclose(found[0], 0, atol=1e-15)
    np.testing.assert_allclose(found[1], 0.125, rtol=1e-12)  # only (1, 1, 1) is above 2


def test_enumeration_in_turn_is_that_of_all_neurons(monkeypatch):
    """Oracle: the sum over points by hand; 7 neurons, 3 at a time."""
    monkeypatch.setattr(module, "_TOGETHER", 30)
    monkeypatch.setattr(module, "_IN_TURN", 33)
    keys = jax.random.split(jax.random.key(5), 4)
    x, y = jax.random.normal(keys[0], (11, 3)), jax.random.normal(keys[1], (11,))
    weights, biases = jax.random.normal(keys[2], (7, 3)), jax.random.normal(keys[3], (7,))
    law = FiniteLaw(x, y, jnp.full(11, 1 / 11))
    assert neurons_at_once(11, 7) == 3
    expected = [
        np.mean([b * a * (a @ w > c) for a, b in zip(x, y, strict=True)], axis=0)
        for w, c in zip(weights, biases, strict=True)
    ]
    np.testing.assert_allclose(finite_gradients(law, weights, biases), expected, atol=1e-14)


def test_cones_are_double_and_need_a_length():
    gradients = jnp.array([[2.0, 0.1], [-2.0, 0.1], [0.1, 0.0], [1.0, 1.0]])
    inside = cone_members(gradients, jnp.eye(2), opening=0.1, least_norm=0.5)
    assert inside.tolist() == [[True, False], [True, False], [False, False], [False, False]]
    boxed = box_members(gradients, jnp.eye(2), 0.1, least_norm=0.05, largest_norm=1.5)
    assert boxed.tolist() == [[False] * 2, [False] * 2, [True, False], [False] * 2]


def test_the_frontier_counts_the_members_of_cones():
    gradients = jax.random.normal(jax.random.key(3), (50, 3))
    openings, floors = jnp.array([0.1, 0.5]), jnp.array([0.0, 1.0, 2.0])
    counts = frontier(gradients, jnp.eye(3)[0], openings, floors)
    for i, j in itertools.product(range(2), range(3)):
        members = cone_members(gradients, jnp.eye(3)[:1], openings[i], floors[j])
        assert counts[i, j] == members.sum()


def test_hidden_directions_are_found_blindly():
    """Three axes with signs, a little noise, and gradients in all directions between."""
    keys = jax.random.split(jax.random.key(4), 4)
    axes = jnp.linalg.qr(jax.random.normal(keys[0], (10, 3)))[0].T
    signs = jax.random.rademacher(keys[1], (300, 1)).astype(float)
    strengths = jnp.array([3.0, 2.0, 1.0])
    chosen = jnp.arange(300) % 3
    near = signs * strengths[chosen][:, None] * axes[chosen]
    near = near + 0.05 * jax.random.normal(keys[2], (300, 10))
    scattered = 0.3 * jax.random.normal(keys[3], (100, 10))
    found = blind_directions(jnp.concatenate([near, scattered]), 3)
    cosines = np.abs(np.sum(np.asarray(found.directions) * np.asarray(axes), axis=1))
    assert cosines.min() > 0.99
    assert found.shares[0] > found.shares[1] > found.shares[2] > 0.1


def test_features_of_a_sampler_and_of_its_dataset_are_the_means_of_its_clusters():
    """For positive biases; for negative ones nearly all points count, and G is near E[yx]."""
    law = orthogonal_mixture(3, 16, separation=1.0, deviation=0.5)
    for given in (law.sample, law.sample(jax.random.key(5), 3000)):
        found = gradient_features(
            jax.random.key(6), given, 3, opening=0.05, num_neurons=400, num_samples=3000
        )
        assert [each.sign for each in found] == [1, 1, 1, -1, -1, -1]
        directions = np.stack([np.asarray(each.direction) for each in found])
        cosines = np.abs(directions @ np.asarray(law.directions).T)
        assert np.all(cosines[:3].max(axis=0) > 0.95)
        for each in found[:3]:
            assert 0 < each.probability.low < each.probability.estimate < 0.5
            assert 0.2 < each.strength < 1.4  # ‖p_jμ_j‖ = 4/3 where a whole cluster counts
        mean = np.asarray(law.label_mean)
        assert np.abs(directions[3] @ mean) > 0.95 * np.linalg.norm(mean)


def test_gradients_of_a_dataset_have_the_error_of_its_mean():
    """Oracle: the sum over the sample, and √(mean of ‖yx1 − G̃‖²/n) sample by sample."""
    data = orthogonal_mixture(3, 4, separation=0.7).sample(jax.random.key(7), 40)
    weights = jax.random.normal(jax.random.key(8), (5, 4))
    biases = jnp.array([1.0, -1.0, 0.0, 2.0, 0.5])
    found = dataset_gradients(data, weights, biases)
    x, y = np.asarray(data.x), np.asarray(data.y)[:, 0]
    for i in range(5):
        each = (y * (x @ np.asarray(weights[i]) > float(biases[i])))[:, None] * x
        np.testing.assert_allclose(found.gradients[i], each.mean(axis=0), atol=1e-12)
        error = np.sqrt(((each - each.mean(axis=0)) ** 2).sum(axis=1).mean() / 40)
        np.testing.assert_allclose(found.errors[i], error, rtol=1e-10)


@pytest.mark.parametrize("dimension", [10, 50])
def test_labels_without_meaning_have_no_features(dimension):
    """The gradient of noise is as long as its error, far below four of them."""
    x_key, y_key, key = jax.random.split(jax.random.key(9), 3)
    x = jax.random.normal(x_key, (2000, dimension))
    y = jax.random.rademacher(y_key, (2000, 1)).astype(float)
    noise = Dataset(x, y, "noise", "made up")
    found = gradient_features(key, noise, 2, num_neurons=200)
    assert [each.probability.estimate for each in found] == [0.0] * 4


def test_directions_are_counted_on_neurons_that_were_not_searched():
    """In 200 dimensions every gradient of noise is alone in its cone: in its own, were it there."""
    x_key, y_key, key = jax.random.split(jax.random.key(10), 3)
    x = jax.random.normal(x_key, (50, 200))
    noise = Dataset(x, jax.random.rademacher(y_key, (50, 1)).astype(float), "noise", "made up")
    found = gradient_features(key, noise, 1, threshold=2.0, least_norm=0.0, num_neurons=40)
    assert found[0].probability.estimate == 0
    assert found[0].probability.high > 0.1  # of 20 neurons, not of 40


def test_the_tail_has_its_value_and_its_domain():
    np.testing.assert_allclose(
        bernstein_tail(0.5, 100, mean_square=2.0, largest_norm=3.0), math.exp(0.25 - 25 / 16)
    )
    assert bernstein_tail(1.0, 100, mean_square=2.0, largest_norm=3.0) == 1  # outside
    assert bernstein_tail(0.01, 100, mean_square=2.0, largest_norm=3.0) == 1  # vacuous


def test_bad_input_is_refused():
    images = Dataset(jnp.ones((4, 2, 2)), jnp.ones((4, 1)), "images", "made up")
    with pytest.raises(ValueError, match="data must have flat inputs and one label"):
        gradient_features(jax.random.key(0), images, 1)
    regression = Dataset(jnp.ones((4, 2)), jnp.zeros((4, 1)), "zero", "made up")
    with pytest.raises(ValueError, match="labels must be -1 or 1, got 0 too"):
        gradient_features(jax.random.key(0), regression, 1)
    with pytest.raises(ValueError, match="num_directions must be from 1 to 4, got 5"):
        blind_directions(jnp.eye(4), 5)
    with pytest.raises(ValueError, match="num_samples must be at least 2, got 1"):
        sampled_gradients(jax.random.key(0), lambda *_: images, jnp.eye(2), jnp.ones(2), 1)
    broken = Dataset(jnp.full((4, 2), jnp.nan), jnp.ones((4, 1)), "NaN", "made up")
    with pytest.raises(ValueError, match="inputs must be finite, got 8 numbers"):
        gradient_features(jax.random.key(0), broken, 1)
    single = Dataset(jnp.ones((1, 2)), jnp.ones((1, 1)), "one", "made up")
    with pytest.raises(ValueError, match="data must have at least 2 samples, got 1"):
        dataset_gradients(single, jnp.eye(2), jnp.ones(2))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": math.inf}, "threshold must be positive and finite"),
        ({"opening": 1.0}, r"opening in \(0, 1\), got 1.0 and 1.0"),
        ({"least_norm": math.nan}, "least_norm must be at least 0 and finite, got nan"),
        ({"least_norm": -1.0}, "least_norm must be at least 0 and finite, got -1.0"),
        ({"num_neurons": 0}, "from 1 to half of num_neurons, got 1 and 0"),
        ({"num_neurons": 1}, "from 1 to half of num_neurons, got 1 and 1"),
    ],
)
def test_bad_numbers_are_refused(fields, message):
    data = Dataset(jnp.ones((4, 2)), jnp.ones((4, 1)), "one", "made up")
    with pytest.raises(ValueError, match=message):
        gradient_features(jax.random.key(0), data, 1, **fields)
