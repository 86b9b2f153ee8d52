"""Kernels of a distance: their slopes by autodiff, and the AGOP of their machines."""

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import agop
from theorylab.features.radial import RADIAL, median_distance, radial_agop, radial_kernel

RANDOM = np.random.default_rng(0)
POINTS, X = RANDOM.normal(size=(7, 3)), RANDOM.normal(size=(5, 3))
ALPHA = RANDOM.normal(size=(7, 2))

# Second derivations, with JAX, as functions of the distance.
BY_DISTANCE = {
    "laplace": lambda r: jnp.exp(-r),
    "gaussian": lambda r: jnp.exp(-(r**2) / 2),
    "matern3": lambda r: (1 + 3**0.5 * r) * jnp.exp(-(3**0.5) * r),
    "matern5": lambda r: (1 + 5**0.5 * r + 5 * r**2 / 3) * jnp.exp(-(5**0.5) * r),
    "rational": lambda r: 1 / (1 + r**2),
}


def machine(name):
    def apply(params, x):
        points, coefficients = params
        gaps = x[:, None] - points[None]
        distances = jnp.linalg.norm(gaps, axis=-1)
        return BY_DISTANCE[name](distances) @ coefficients

    return apply


@pytest.mark.parametrize("name", BY_DISTANCE)
def test_kernel_and_agop_of_its_machine(name):
    """Oracle: distances one by one, and autodiff through the machine."""
    kernel = radial_kernel(lambda t: 1 / (1 + t)) if name == "rational" else RADIAL[name]
    apply, params = machine(name), (jnp.asarray(POINTS), jnp.asarray(ALPHA))
    np.testing.assert_allclose(kernel(X, POINTS) @ ALPHA, apply(params, jnp.asarray(X)), rtol=1e-11)
    expected = agop(apply, params, jnp.asarray(X))
    np.testing.assert_allclose(radial_agop(kernel, POINTS, ALPHA, X), expected, rtol=1e-10)


def test_blocks_do_not_change_it(monkeypatch):
    """Oracle: all at once, on the machine's own points, where a Laplace kernel has a kink."""
    whole = radial_agop(RADIAL["laplace"], POINTS, ALPHA, POINTS)
    monkeypatch.setattr("theorylab.features.radial._ENTRIES", 15)
    np.testing.assert_allclose(
        radial_agop(RADIAL["laplace"], POINTS, ALPHA, POINTS), whole, rtol=1e-12
    )
    # The gradient of one lone Laplace kernel has norm |α|e^(−r) away from its centre, 0 on it.
    assert radial_agop(RADIAL["laplace"], POINTS[:1], ALPHA[:1], POINTS[:1]).max() == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_point_is_at_no_distance_from_itself(dtype):
    """Oracle: k(x, x) = φ(0), far from the origin too; √ would make much of a rounding error."""
    far = (POINTS + 100).astype(dtype)
    assert np.all(RADIAL["laplace"](far, far).diagonal() == 1)


def test_median_distance_is_that_of_pairs():
    """Oracle: scipy's pairs; points that are all the same have the distance 1."""
    from scipy.spatial.distance import pdist

    np.testing.assert_allclose(median_distance(POINTS), np.median(pdist(POINTS)), rtol=1e-12)
    assert median_distance(np.ones((3, 2))) == 1
