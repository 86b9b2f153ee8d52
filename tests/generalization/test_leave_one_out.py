"""Leaving one out in closed form, and what it says of labels at random."""

import jax
import numpy as np
import pytest

from theorylab.features.radial import RADIAL, median_distance
from theorylab.generalization import label_predictability, leave_one_out, value_predictability


def laplace(x):
    """The Laplace kernel with the median distance for a bandwidth."""
    x = x / median_distance(x)
    return RADIAL["laplace"](x, x)


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_one_inverse_says_what_n_machines_say(ridge):
    """Oracle: brute force, kernel ridge regression on the others."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
    kernel = laplace(x)
    found = leave_one_out(kernel, y, ridge)
    for i in range(12):
        others = np.delete(np.arange(12), i)
        system = kernel[np.ix_(others, others)] + ridge * np.eye(11)
        expected = kernel[i, others] @ np.linalg.solve(system, y[others])
        np.testing.assert_allclose(found[i], expected, rtol=1e-10)


@pytest.mark.parametrize("num_samples", [100, 150])
def test_labels_at_random_are_told_from_labels_that_follow_the_inputs(num_samples):
    """Planted: at most 1 of 20 seeds may be wrong, for either kind."""
    wrong = {"random": 0, "true": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(num_samples, 5))
        labels = {"random": rng.integers(0, 3, num_samples), "true": x[:, :3].argmax(axis=1)}
        for kind, classes in labels.items():
            found = label_predictability(laplace(x), classes, jax.random.key(seed), 19)
            wrong[kind] += (found.low > found.chance) != (kind == "true")
    assert max(wrong.values()) <= 1


@pytest.mark.parametrize(("classes", "signal"), [(2, 0.0), (2, 2.0), (3, 1.0)])
def test_the_interval_covers_the_mean_accuracy(classes, signal):
    """Oracle: simulation, against the mean over all draws; 93 to 97 % but for chance."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(60, 3))
        score = signal * x[:, 0] + rng.normal(size=60)
        edges = np.array([-0.43, 0.43]) * np.hypot(1, signal) if classes == 3 else np.zeros(1)
        labels = np.digitize(score, edges)
        found.append(label_predictability(laplace(x), labels, jax.random.key(seed), 19))
    mean = np.mean([each.accuracy for each in found])
    held = np.mean([each.low <= mean <= each.high for each in found])
    assert 0.91 <= held <= 0.99


def test_shuffled_labels_have_uniform_p_values():
    """Oracle: exchangeability, P(p ≤ 0.1) ≤ 0.1 for labels at random."""
    ps = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        x, labels = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
        ps.append(label_predictability(laplace(x), labels, jax.random.key(seed), 19).p_value)
    assert np.mean(np.array(ps) <= 0.1) <= 0.2  # 0.1 and three standard errors


def test_values_are_predicted_from_inputs_and_not_from_noise():
    """Planted: a smooth function, and noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    score, shuffled, p_value = value_predictability(laplace(x), np.sin(x[:, :1]), jax.random.key(0))
    assert (score > 0.7, p_value, shuffled < 0.1) == (True, 0.02, True)
    noise = value_predictability(laplace(x), rng.normal(size=(100, 2)), jax.random.key(0))
    assert noise[0] < 0.1


def test_chance_is_the_share_of_the_largest_class():
    """Oracle: counting; and no example may be alone."""
    classes = np.array([5] * 30 + [9] * 10)
    found = label_predictability(np.eye(40), classes, jax.random.key(0), 5)
    assert found.chance == 0.75
    with pytest.raises(ValueError, match="2 classes"):
        label_predictability(np.eye(40), np.zeros(40, int), jax.random.key(0))
