"""Plane elasticity against rigid motions, a stretched bar, dense algebra and differences."""

import numpy as np
import pytest

from theorylab.kernels.applications import elasticity

BEAM = elasticity.half_beam(5, 3)
MODULI = np.random.default_rng(0).uniform(0.3, 1.0, (5, 3))


def test_a_square_resists_everything_but_rigid_motions():
    """Oracle: translations and the rotation cost no energy, five other motions do."""
    stiffness = elasticity.element_stiffness(0.3)
    np.testing.assert_allclose(stiffness, stiffness.T, atol=1e-15)
    right, down = np.tile([1.0, 0.0], 4), np.tile([0.0, 1.0], 4)
    x, y = elasticity._CORNERS.T
    rotation = np.stack([-y, x], axis=1).ravel().astype(float)
    for motion in (right, down, rotation):
        np.testing.assert_allclose(stiffness @ motion, 0, atol=1e-14)
    assert np.sum(np.linalg.eigvalsh(stiffness) > 1e-3) == 5


def test_a_stretched_bar_obeys_hooke():
    """Oracle: a bar of length L and height h under a pull P grows by PL/Eh, and gets thinner."""
    columns, rows, modulus, poisson = 4, 2, 0.5, 0.3
    held, load = np.zeros((5, 3, 2), bool), np.zeros((5, 3, 2))
    held[0, :, 0], held[0, 0, 1] = True, True
    load[-1, :, 0] = np.array([0.25, 0.5, 0.25])  # an even pull of 1 on the right side
    bar = elasticity.plate(columns, rows, held, load, poisson)
    bent = elasticity.bend(bar, np.full((columns, rows), modulus))
    moved = bent.displacement.reshape(5, 3, 2)
    strain = 1 / (modulus * rows)
    expected = np.arange(5)[:, None] * strain * np.ones((1, 3))
    np.testing.assert_allclose(moved[:, :, 0], expected, atol=1e-12)
    thinner = -poisson * strain * np.arange(3)[None, :] * np.ones((5, 1))
    np.testing.assert_allclose(moved[:, :, 1], thinner, atol=1e-12)
    np.testing.assert_allclose(bent.compliance, columns * strain, rtol=1e-12)


def test_the_banded_system_is_the_dense_one():
    """Oracle: K put together entry by entry, without the displacements that are held."""
    dense = np.zeros((len(BEAM.load),) * 2)
    for corners, modulus in zip(BEAM.corners, MODULI.ravel(), strict=True):
        dense[np.ix_(corners, corners)] += modulus * BEAM.element
    free = ~BEAM.held
    expected = np.zeros(len(free))
    expected[free] = np.linalg.solve(dense[np.ix_(free, free)], BEAM.load[free])
    np.testing.assert_allclose(elasticity.bend(BEAM, MODULI).displacement, expected, rtol=1e-9)


def test_the_slope_is_that_of_differences():
    """Oracles: a central difference; and C(sE) = C(E)/s, so that Σ E ∂C/∂E = −C."""
    bent, direction = elasticity.bend(BEAM, MODULI), np.cos(np.arange(15.0)).reshape(5, 3)
    above, below = (
        elasticity.bend(BEAM, MODULI + step * direction).compliance for step in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(np.sum(bent.slope * direction), (above - below) / 2e-5, rtol=1e-7)
    np.testing.assert_allclose(np.sum(bent.slope * MODULI), -bent.compliance, rtol=1e-10)


def test_a_half_beam_bends_as_half_of_the_whole_one():
    """Oracle: two halves side by side, carried at both lower corners, with twice the load."""
    columns, rows = 4, 2
    half = elasticity.bend(elasticity.half_beam(columns, rows), np.ones((columns, rows)))
    held, load = np.zeros((9, 3, 2), bool), np.zeros((9, 3, 2))
    held[[0, -1], -1, 1], held[columns, 0, 0] = True, True
    load[columns, 0, 1] = 2.0
    whole = elasticity.bend(elasticity.plate(8, 2, held, load), np.ones((8, 2)))
    np.testing.assert_allclose(whole.compliance, 2 * half.compliance, rtol=1e-10)


def test_what_cannot_be_bent_is_refused():
    with pytest.raises(ValueError, match="num_rows must be at least 1, got 0"):
        elasticity.plate(2, 0, np.ones((3, 1, 2), bool), np.zeros((3, 1, 2)))
    with pytest.raises(ValueError, match="at least 3 displacements must be held, got 0"):
        elasticity.plate(2, 1, np.zeros((3, 2, 2), bool), np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match=r"poisson must be in \(−1, 1/2\), got 0.5"):
        elasticity.element_stiffness(0.5)
    with pytest.raises(ValueError, match=r"moduli must be positive and \(5, 3\)"):
        elasticity.bend(BEAM, np.zeros((5, 3)))
