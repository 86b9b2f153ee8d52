"""Ratios of means: intervals with the coverage that they state."""

import numpy as np
import pytest

from theorylab.numerics import mean_ratio, norm_ratio


@pytest.mark.parametrize("num_samples", [50, 300])
def test_the_ratio_of_means_is_covered(num_samples):
    """Oracle: simulation of 1 − R² = 0.2 with Gaussian errors and targets; 92.5 to 97 %."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        target, error = rng.normal(size=num_samples), rng.normal(0, np.sqrt(0.2), num_samples)
        found = mean_ratio(error**2, (target - target.mean()) ** 2)
        held += found.low <= 0.2 <= found.high
    assert 0.925 <= held / 2000 <= 0.97


def test_a_ratio_of_norms_is_the_root_of_a_ratio_of_means():
    """Oracle: the definition; and √ keeps an interval's order."""
    above, below = np.array([4.0, 8.0, 9.0]), np.array([1.0, 2.0, 4.0])
    means, norms = mean_ratio(above, below), norm_ratio(above, below)
    np.testing.assert_allclose(np.array(norms) ** 2, means, rtol=1e-12)
    assert norms.low < norms.estimate < norms.high
