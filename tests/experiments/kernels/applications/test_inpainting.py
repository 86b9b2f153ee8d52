import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import inpainting as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    worse = smoke._replace(network=smoke.flat_network)
    assert verdict("better than linear interpolation", worse) == Verdict.REFUTED
    moved = smoke._replace(shifted_by_two=smoke.shifted_by_one)
    assert verdict("rows at two by two pixels", moved) == Verdict.REFUTED
    still = smoke._replace(shifted_by_one=smoke.kernel)
    assert verdict("a shift by one pixel", still) == Verdict.REFUTED
    assert verdict("Without halving", smoke._replace(flat_network=smoke.network)) == Verdict.REFUTED


def test_pixels_that_are_there_stay(smoke):
    """Oracle: the image. The ridge is small, so kernel regression almost interpolates."""
    there = smoke.present
    np.testing.assert_allclose(smoke.painted[there], smoke.images[there], atol=0.02)


def test_interpolation_is_exact_for_a_plane():
    """Oracle: a linear image, of which the corners are there."""
    rows, columns = np.indices((6, 6))
    image = (0.1 * rows + 0.05 * columns)[None]
    present = np.ones((1, 6, 6), bool)
    present[0, 2:4, 1:4] = False
    np.testing.assert_allclose(experiment._interpolated(image, present), image, atol=1e-12)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("halvings", 2, "halvings must be a whole number, from 0 to 1, got 2"),
        ("missing", 0.0, "missing must be a finite number, between 0 and 1, got 0.0"),
        ("num_images", 0, "num_images must be a whole number, from 1 to 5000, got 0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
