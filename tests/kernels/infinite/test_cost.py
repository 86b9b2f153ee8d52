"""Counted operations of infinite-width kernels."""

import pytest

from theorylab.kernels.infinite.cost import computed_pairs, pair_operations
from theorylab.models import Activation, Conv, Dense, Flatten, GlobalPool, Serial


@pytest.mark.parametrize(("end", "power"), [(Flatten(), 1), (GlobalPool(), 2)])
def test_flattening_is_linear_and_pooling_quadratic_in_the_pixels(end, power):
    """Oracle: pairs of positions. Four times the pixels; the windows at the edge count a little."""
    layers = (Conv(1, (3,), padding="same"), Activation("relu"))
    small, large = (
        pair_operations(Serial(*layers * 2, end, Dense(1)), (pixels, 2)) for pixels in (16, 64)
    )
    assert large / small == pytest.approx(4**power, rel=0.05)
    nngp = pair_operations(Serial(*layers * 2, end, Dense(1)), (16, 2), tangent=False)
    assert 0.4 * small < nngp < small


def test_half_of_the_pairs_are_computed():
    """Oracle: n(n + 1)/2, and less than a tile besides."""
    pooled = Serial(Conv(1, (3, 3)), GlobalPool())
    assert 5050 <= computed_pairs(pooled, (8, 8, 1), 100) < 5050 + 16
    assert 0.5 < computed_pairs(Dense(1), (3,), 5000) / 5000**2 < 0.6
