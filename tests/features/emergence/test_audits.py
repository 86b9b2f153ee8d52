"""The lemmas' audit of a run: shares by hand, orders, and the regret."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import dictionary_data, parity_mixture
from theorylab.features.emergence import (
    audit,
    beyond_margin,
    classifier_sizes,
    emerge,
    emergence_stages,
    hinge_regret_margin,
    preactivations,
    smoothed_outputs,
    start_scales,
    step,
    truncated_relu,
    unbiased_start,
)

LAW = parity_mixture(8, 3)


@pytest.fixture(scope="module")
def run():
    data = dictionary_data(jax.random.key(0), LAW, 400)
    start = unbiased_start(jax.random.key(1), 6, 8, start_scales(3, LAW.structure, LAW.scale()))
    stages = emergence_stages(3, LAW.structure, LAW.scale(), 6)
    return data, start, stages, emerge(start, data, stages)


def test_shares_are_those_of_first_steps_of_three_sizes(run):
    """Oracle: the step written out with η of the theory, 1e-3 and 300/6, then y g > 1 counted."""
    data, start, stages, emerged = run
    orders = classifier_sizes(3, 6, LAW.scale())
    found = audit(start, emerged, start.outer, data, stages[0], orders)
    for share, rate in zip(found.beyond, (stages[0].learning_rate, 1e-3, 50.0), strict=True):
        after = step(start, emerged.first_gradient, stages[0]._replace(learning_rate=rate))
        outputs = np.asarray(data.y * smoothed_outputs(after, data.x, stages[0].noise))
        assert share == pytest.approx(np.mean(outputs > 1))
    assert found.beyond[2] > found.beyond[0] == 0


def test_a_sample_beyond_the_margin_has_output_above_1(run):
    """Oracle: outer weights times a constant, so that all outputs are as large as wanted."""
    data, start, _, _ = run
    one = start._replace(outer=jnp.abs(start.outer) * 1e6)
    positive = float((data.y > 0).mean())
    assert beyond_margin(one, data.x, data.y, 0.1) == pytest.approx(positive)
    assert beyond_margin(start, data.x, data.y, 0.1) == 0


def test_sizes_are_the_largest_over_the_lemmas_orders(run):
    """Oracle: NumPy, and 1/(km²), σ̃/k and 1/k² by hand; the regret of 20 steps of 20 samples."""
    data, start, stages, emerged = run
    found = audit(start, emerged, start.outer, data, stages[0], classifier_sizes(3, 6, LAW.scale()))
    w, b, a = map(np.asarray, emerged.second)
    expected = [
        np.abs(a).max() * 3 * 36,
        np.sqrt((w**2).sum(axis=1)).max() * 3 / LAW.scale(),
        np.abs(b).max() * 9,
    ]
    np.testing.assert_allclose(found.sizes, expected, rtol=1e-12)
    signed = data.y * truncated_relu(preactivations(emerged.second, data.x))
    rate = 1 / (np.asarray(signed) ** 2).sum(axis=1).mean()
    batches = jnp.reshape(signed, (20, 20, 12))
    margin = hinge_regret_margin(batches, emerged.second.outer, start.outer, rate)
    assert found.regret == pytest.approx(float(margin), rel=1e-10)
    assert found.regret >= 0
