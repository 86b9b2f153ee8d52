"""What the functions of training in time refuse, in their own words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import gaussian
from theorylab.data.dataset import Dataset
from theorylab.dynamics import (
    critical_learning_rate,
    linear,
    stability_threshold,
    threshold,
    watch,
    watch_sgd,
)
from theorylab.dynamics.quadratic import general, kernel_steps, plane
from theorylab.models import linearize, quadratize
from theorylab.training import squared

LINE = Dataset(jnp.array([[1.0], [3.0]]), jnp.zeros((2, 1)), "two points", "made up")
WEIGHT, KEY, MEAN = jnp.ones((1, 1)), jax.random.key(0), squared("mean")
ONE = plane.PlaneProblem(0.0, 0.0, 0.25)


def apply(w, x):
    return x @ w


def derivatives(y):
    return kernel_steps.derivatives(apply, WEIGHT, LINE.x, y)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize(
    "make",
    [
        lambda rate: watch_sgd(apply, WEIGHT, LINE, MEAN, rate, 1, 2, KEY),
        lambda rate: watch(lambda w: jnp.sum(w**2), WEIGHT, rate, 1, 1, KEY),
        lambda rate: plane.trajectory(
            plane.PlaneState(1.0, 1.0), ONE._replace(learning_rate=rate), 2
        ),
        lambda rate: linear.outputs(jnp.eye(1), WEIGHT, WEIGHT, rate, jnp.arange(2)),
        lambda rate: kernel_steps.step(derivatives(LINE.y), rate),
        stability_threshold,
    ],
)
def test_a_learning_rate_must_be_positive(make, rate):
    with pytest.raises(ValueError, match="learning_rate must be positive, got"):
        make(rate)


def test_targets_must_have_the_shape_of_the_outputs():
    with pytest.raises(ValueError, match=r"the shape \(2, 1\) of the outputs, got \(2, 3\)"):
        derivatives(jnp.zeros((2, 3)))


@pytest.mark.parametrize("shape", [(1, 1), (3, 2)])
def test_targets_of_a_linear_model_must_be_as_many_as_its_outputs(shape):
    """By the annotations where they are checked, else in words."""
    with pytest.raises((ValueError, TypeError)):
        linear.outputs(jnp.eye(3), jnp.zeros((3, 1)), jnp.zeros(shape), 0.1, jnp.arange(2))


@pytest.mark.parametrize("expand", [linearize, quadratize])
def test_taylor_expansions_take_weights_of_their_own_shapes(expand):
    with pytest.raises(ValueError, match=r"must have the shapes \(1, 1\), got \(1, 2\)"):
        expand(apply, WEIGHT)(jnp.ones((1, 2)), LINE.x)


def test_a_quadratic_form_without_its_property_is_refused():
    """Signs on the diagonal have it; the numbers 1, 2 do not."""
    good = general.QuadraticModel(jnp.ones(2), jnp.diag(jnp.array([1.0, -1.0])), 0.1)
    assert float(general.problem(good, 0.0, 1.0).square) == 1.0
    bad = good._replace(matrix=jnp.diag(jnp.array([1.0, 2.0])))
    with pytest.raises(ValueError, match="must have a number s with Σ³ = sΣ"):
        general.problem(bad, 0.0, 1.0)


@pytest.mark.parametrize("bound", [3.0, 0.5])
def test_a_threshold_that_is_not_between_is_none(bound):
    """The statement x < bound holds, or fails, at all points from 1 to 2."""
    assert np.isnan(threshold(lambda x: x < bound, 1.0, 2.0, 10))


def test_a_pair_is_a_batch():
    """Oracle: the dataset of the same numbers."""
    x = gaussian(KEY, 3, (1.0,))
    y = jnp.zeros((3, 1))
    expected = critical_learning_rate(apply, WEIGHT, Dataset(x, y, "x", "y"), MEAN)
    assert critical_learning_rate(apply, WEIGHT, (x, y), MEAN) == expected
