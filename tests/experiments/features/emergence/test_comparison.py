"""The comparison of methods. Most of its numbers are held by the experiments' tests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import dictionary_data, parity_mixture
from theorylab.data.dictionary import orthonormal_dictionary
from theorylab.experiments.features.emergence._comparison import compare_laws, train_laws
from theorylab.experiments.features.emergence._fixed_methods import (
    PROBE_RATES,
    fit_outer,
    tangent_model,
)
from theorylab.experiments.features.emergence._tasks import Setting, draw_task, theory_of
from theorylab.features.emergence import (
    Scales,
    emerge,
    emergence_stages,
    outputs,
    start_scales,
    unbiased_start,
)
from theorylab.features.fixed import (
    fit_features,
    random_features,
    tangent_features,
    weighted_hinge,
)
from theorylab.training import Batches

LAW = parity_mixture(6, 3)
TINY = Setting(num_pairs=2, num_samples=50, num_test=20, num_steps=5, batch_size=10)


def test_steps_in_the_dictionarys_coordinates_are_those_in_all_dimensions():
    """Oracle: the same start in 9 dimensions, where inputs lie in a plane of 6."""
    M = orthonormal_dictionary(jax.random.key(0), 9, 6)
    own = dictionary_data(jax.random.key(1), LAW, 40)
    ambient = dictionary_data(jax.random.key(1), LAW, 40, M)
    scales = start_scales(3, LAW.structure, LAW.scale())
    wide = unbiased_start(jax.random.key(2), 3, 9, scales)
    narrow = wide._replace(weights=wide.weights @ M)
    stages = emergence_stages(3, LAW.structure, LAW.scale(), 3, keep=0.3)
    one, other = emerge(wide, ambient, stages), emerge(narrow, own, stages)
    np.testing.assert_allclose(one.first.weights @ M, other.first.weights, atol=1e-12)
    np.testing.assert_allclose(
        outputs(one.second, ambient.x), outputs(other.second, own.x), atol=1e-12
    )


def test_cosines_are_those_of_the_weights_after_both_steps():
    """Oracle: the relevant patterns come first, so the direction is (1, 1, 1, 0, 0, 0)/√3."""
    setting = TINY
    keys = jax.random.split(jax.random.key(0), 1)
    trained = train_laws(keys, [LAW], [theory_of(LAW, setting)], setting)
    for place, neurons in ((1, trained.emerged.first), (2, trained.emerged.second)):
        weights = np.asarray(neurons.weights)[0, 0]
        found = weights[:, :3].sum(axis=1) / np.sqrt(3) / np.linalg.norm(weights[:, :6], axis=1)
        assert trained.cosines[0, 0, place] == pytest.approx(found.max(), rel=1e-3)


def test_the_tangent_model_is_that_of_any_network():
    """Oracle: forward differentiation of the network; some neurons are closed, some saturated."""
    start_key, theta_key, x_key = jax.random.split(jax.random.key(0), 3)
    neurons = unbiased_start(start_key, 5, 4, Scales(1.0, 1.0, 1.0))
    theta = jax.tree.map(lambda leaf: jax.random.normal(theta_key, leaf.shape), neurons)
    x = jax.random.normal(x_key, (30, 4))
    known = tangent_features(outputs, neurons)
    np.testing.assert_allclose(
        tangent_model(neurons).apply(theta, x), known.apply(theta, x), atol=1e-12
    )


def test_a_stored_hidden_layer_trains_as_one_computed_in_every_step():
    """Oracle: `random_features`, which stores none."""
    setting = Setting(num_pairs=4, num_samples=60, num_test=200, num_steps=12, batch_size=10)
    theory = theory_of(LAW, setting)
    task = draw_task(jax.random.key(0), [LAW], jnp.array(0), theory, setting)
    neurons = task.start._replace(weights=3 * task.start.weights)
    found = fit_outer(jax.random.key(1), neurons, task, theory, setting)
    only_outer = jax.tree.unflatten(jax.tree.structure(neurons), (False, False, True))
    frozen = random_features(outputs, neurons, only_outer)
    fitted = fit_features(
        *(frozen, task.train, task.test, weighted_hinge((1.0, 1.0)), Batches(10, replace=True)),
        *(setting.steps, jax.random.key(1), PROBE_RATES),
    )
    best = np.argmax(fitted.test[:, -1])
    np.testing.assert_allclose(found.test[:, 0], fitted.test[best], atol=1e-12)


@pytest.mark.parametrize(
    ("laws", "methods", "message"),
    [
        ([LAW], ["probes", "fixed"], "laws and methods must be as many, got 1 and 2"),
        ([LAW, parity_mixture(7, 3)], ["fixed", "fixed"], "laws must have as many patterns"),
    ],
)
def test_what_does_not_fit_is_refused(laws, methods, message):
    setting = TINY
    theories = [theory_of(law, setting) for law in laws]
    keys = jax.random.split(jax.random.key(0), 2)
    with pytest.raises(ValueError, match=message):
        compare_laws(keys, laws, theories, setting, methods)
