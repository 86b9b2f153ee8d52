"""Fixed features against linear models with all features written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset, gaussian
from theorylab.features.fixed import (
    Features,
    accuracy,
    best_rate,
    class_accuracies,
    fit_features,
    random_features,
    random_fourier_features,
    squared_length,
    tangent_features,
    weighted_hinge,
)
from theorylab.models import mlp, network
from theorylab.training import Batches, hinge

MODEL = network(mlp([4]), (3,), bias="normal")
PARAMS = MODEL.init(jax.random.key(0))


@pytest.fixture(scope="module")
def data():
    x = gaussian(jax.random.key(1), 40, (1.0, 1.0, 1.0))
    return Dataset(x, jnp.sign(x[:, :1] * x[:, 1:2]), "sign of x₁x₂", "made up")


def all_features(features, x):
    """ψ(x), column by column: the model is linear, so its Jacobian is the same everywhere."""
    jacobian = jax.jacobian(features.apply)(features.params, x)
    return np.concatenate([np.reshape(leaf, (len(x), -1)) for leaf in jax.tree.leaves(jacobian)], 1)


def test_tangent_features_are_the_gradient(data):
    """Oracle: the Jacobian of the network by reverse differentiation."""
    jacobian = jax.jacrev(lambda w: MODEL.apply(w, data.x[:5])[:, 0])(PARAMS)
    expected = np.concatenate([np.reshape(j, (5, -1)) for j in jax.tree.leaves(jacobian)], axis=1)
    features = tangent_features(MODEL.apply, PARAMS)
    np.testing.assert_allclose(all_features(features, data.x[:5]), expected, atol=1e-14)


def test_random_features_are_the_hidden_layer(data):
    """Oracle: linear in the last layer; the first layer matters, the last one's start does not."""
    hidden = MODEL.apply
    features = random_features(hidden, PARAMS)
    ones = jax.tree.map(jnp.ones_like, features.params)
    sums = features.apply(ones, data.x)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, ones)
    np.testing.assert_allclose(features.apply(doubled, data.x), 2 * sums, rtol=1e-12)
    changed = (jax.tree.map(jnp.zeros_like, PARAMS[0]), *PARAMS[1:])
    assert not np.allclose(random_features(hidden, changed).apply(ones, data.x), sums)
    other_last = (*PARAMS[:-1], jax.tree.map(lambda leaf: leaf + 1, PARAMS[-1]))
    np.testing.assert_array_equal(random_features(hidden, other_last).apply(ones, data.x), sums)
    explicit = random_features(hidden, PARAMS, free=(False, False, True))
    np.testing.assert_array_equal(explicit.apply(ones, data.x), sums)


def test_fourier_features_have_the_gaussian_kernel(data):
    """Oracle: exp(−‖x − x′‖²/(2ℓ²)), to four standard errors of M waves, at most 1/√M each."""
    features = random_fourier_features(jax.random.key(2), 3, 4000, bandwidth=1.5)
    psi = all_features(features, data.x[:6])
    distances = ((data.x[:6, None] - data.x[None, :6]) ** 2).sum(axis=2)
    np.testing.assert_allclose(psi @ psi.T, np.exp(-distances / (2 * 1.5**2)), atol=4 / 4000**0.5)
    np.testing.assert_allclose(squared_length(features, data.x), 1.0)


def test_a_fit_is_gradient_descent_on_written_out_features(data):
    """Oracle: descent of the hinge loss in NumPy, with a falling rate, for every one of them."""
    features, rates = tangent_features(MODEL.apply, PARAMS), (0.1, 1.0)
    batch = Batches(data.num_samples)
    run = fit_features(features, data, data, hinge("mean"), batch, [0, 3], jax.random.key(0), rates)
    psi, y = all_features(features, data.x), np.asarray(data.y)[:, 0]
    scale = (psi[:32] ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(run.learning_rates, np.array(rates) / scale)
    for place, rate in enumerate(run.learning_rates):
        theta = np.zeros(psi.shape[1])
        for step in range(3):
            active = y * (psi @ theta) < 1
            theta = theta + rate * (1 - step / 3) * (active * y) @ psi / len(y)
        found = [np.ravel(leaf[place]) for leaf in jax.tree.leaves(run.params)]
        np.testing.assert_allclose(np.concatenate(found), theta, atol=1e-12)
        right = np.mean(psi @ theta * y > 0)
        np.testing.assert_allclose([run.test[place, -1], run.train[place]], right)
    np.testing.assert_allclose(run.test[:, 0], 0, atol=1e-15)  # f = 0 says nothing


def test_the_best_rate_is_chosen_and_a_diverged_one_is_not(data):
    features = Features(lambda w, x: x @ w, jnp.zeros((3, 1)))
    run = fit_features(
        features, data, data, hinge("mean"), Batches(10), [5], jax.random.key(0), (0.1, 1.0, 10.0)
    )
    chosen = best_rate(run)
    assert chosen.test[-1] == run.test[:, -1].max()
    scores = jnp.array([0.6, jnp.nan, 0.7])
    assert best_rate(run, scores).learning_rates[0] == run.learning_rates[2]
    np.testing.assert_array_equal(best_rate(run, scores).params, run.params[2])


def test_scores():
    """Oracle: by eye."""
    outputs = jnp.array([[1.0], [-1.0], [3.0], [0.0]])
    targets = jnp.array([[1.0], [1.0], [-1.0], [-1.0]])
    assert accuracy(outputs, targets) == 0.25
    assert class_accuracies(outputs, targets).tolist() == [0.0, 0.5]
    assert weighted_hinge((1.0, 1.0))(outputs, targets) == (0 + 2 + 4 + 1) / 4
    assert weighted_hinge((3.0, 0.5))(outputs, targets) == (0.5 * 2 + 3 * 5) / 4


def test_what_does_not_fit_is_refused(data):
    with pytest.raises(ValueError, match="free must be said for parameters that are a dict"):
        random_features(MODEL.apply, {"w": jnp.ones(3)})
    with pytest.raises(ValueError, match="free must name at least one array"):
        random_features(MODEL.apply, PARAMS, free=(False, False, False))
    with pytest.raises(ValueError, match=r"num_frequencies .* must be at least 1, got 0"):
        random_fourier_features(jax.random.key(0), 3, 0, 1.0)
    with pytest.raises(ValueError, match=r"bandwidth must be positive, got 0.0"):
        random_fourier_features(jax.random.key(0), 3, 2, 0.0)
    features = tangent_features(MODEL.apply, PARAMS)
    for rate in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="rates must be positive and not none"):
            fit_features(
                *(features, data, data, hinge("mean"), Batches(5), [1], jax.random.key(0)),
                rates=(1.0, rate),
            )
