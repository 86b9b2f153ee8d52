"""Topology optimisation: constraints, slopes by differences, and optimality."""

import numpy as np
import pytest

from theorylab.kernels.applications import topology
from theorylab.kernels.applications.elasticity import half_beam

PLATE = half_beam(6, 3)
X = np.cos(3.0 * np.arange(18.0)).reshape(6, 3)


@pytest.mark.parametrize("volume", [0.1, 0.5, 0.8])
def test_densities_have_the_volume_and_no_memory_of_a_constant(volume):
    y = topology.densities(X, volume)
    np.testing.assert_allclose(y.mean(), volume, rtol=1e-12)
    np.testing.assert_allclose(topology.densities(X + 30.0, volume), y, rtol=1e-9)
    np.testing.assert_array_equal(np.argsort(y.ravel()), np.argsort(X.ravel()))
    logits = np.log(y / (1 - y)) - X  # the same b for all
    np.testing.assert_allclose(logits, logits[0, 0], rtol=1e-9)


def test_the_slope_is_that_of_differences():
    """Oracle: a central difference of log C, with the volume kept."""
    direction = np.sin(np.arange(18.0)).reshape(6, 3)
    above, below = (
        np.log(topology.design(PLATE, X + step * direction, 0.4).compliance)
        for step in (1e-5, -1e-5)
    )
    slope = topology.design(PLATE, X, 0.4).slope
    np.testing.assert_allclose(np.sum(slope * direction), (above - below) / 2e-5, rtol=1e-6)
    np.testing.assert_allclose(slope.sum(), 0, atol=1e-15)


def test_penalty_makes_grey_plates_weak():
    """Oracle: C ∝ 1/E, with E = E₀ + yᵖ(1 − E₀) the same everywhere."""
    for penalty in (1.0, 3.0):
        grey, dense = (
            topology.design(PLATE, np.zeros((6, 3)), volume, penalty).compliance
            for volume in (0.5, 0.8)
        )
        stiffness = [1e-3 + volume**penalty * (1 - 1e-3) for volume in (0.5, 0.8)]
        np.testing.assert_allclose(grey / dense, stiffness[1] / stiffness[0], rtol=1e-9)


def test_descent_through_a_kernel_is_that_of_features():
    """Oracle: descent in weights θ of x = Φθ, with Θ = ΦΦᵀ; a constant in Θ changes nothing."""
    features = np.sin(np.outer(np.arange(1.0, 19.0), np.arange(1.0, 6.0)))
    weights, velocity = np.zeros(5), np.zeros(5)
    for _ in range(7):
        slope = topology.design(PLATE, (features @ weights).reshape(6, 3), 0.5).slope
        velocity = 0.8 * velocity - 2.0 * features.T @ slope.ravel()
        weights = weights + velocity
    expected = topology.design(PLATE, (features @ weights).reshape(6, 3), 0.5)
    kernel = features @ features.T
    for constant in (0.0, 5.0):
        found = topology.through_kernel(PLATE, kernel + constant, 0.5, 7, 2.0, momentum=0.8)
        np.testing.assert_allclose(found.density, expected.density, rtol=1e-6)
    assert found.compliance < topology.design(PLATE, np.zeros((6, 3)), 0.5).compliance


def test_plain_simp_ends_where_material_is_worth_the_same_everywhere():
    """Oracle: Lagrange. With p = 1 the problem is convex; ∂C/∂y is one number where 0 < y < 1."""
    y, compliance = topology.plain_simp(PLATE, 0.5, radius=1.0, num_steps=300, penalty=1.0)
    np.testing.assert_allclose(y.mean(), 0.5, rtol=1e-9)
    value, slope = topology._compliance(PLATE, y, 1.0)
    assert value == compliance
    inner = (y > 0.01) & (y < 0.99)
    assert inner.sum() > 3
    np.testing.assert_allclose(slope[inner], slope[inner].mean(), rtol=1e-3)
    assert slope[y >= 0.99].max() < slope[inner].mean() * 0.999 or not np.any(y >= 0.99)


def test_a_wider_radius_gives_a_coarser_design():
    plate = half_beam(18, 6)
    fine, coarse = (topology.plain_simp(plate, 0.5, radius, 30)[0] for radius in (1.2, 3.0))
    assert topology.mean_frequency(coarse) < topology.mean_frequency(fine)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"volume must be in \(0, 1\), got 1.0"):
        topology.densities(X, 1.0)
    with pytest.raises(ValueError, match=r"radius must be positive, got 0.0"):
        topology.plain_simp(PLATE, 0.5, radius=0.0)
    with pytest.raises(ValueError, match=r"kernel must be \(18, 18\), got \(2, 2\)"):
        topology.through_kernel(PLATE, np.eye(2), 0.5, 1, 1.0)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        topology.through_kernel(PLATE, np.eye(18), 0.5, 0, 1.0)
