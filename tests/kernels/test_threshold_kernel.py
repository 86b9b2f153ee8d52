"""Infinitely many gates: integrals over one Gaussian, limits, and many drawn gates."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from theorylab.kernels import gated_patches, threshold_kernel

KEY = jax.random.key(0)
X1 = jax.random.normal(KEY, (3 * 4 * 3,)).reshape(3, 4, 3)
X2 = jax.random.normal(jax.random.key(1), (2 * 4 * 3,)).reshape(2, 4, 3)


def orthant(a, b, rho):
    """P[U ≥ a, V ≥ b] as an integral over U, of what is left of V."""

    def density(u):
        beyond = special.ndtr((rho * u - b) / math.sqrt(1 - rho**2))
        return math.exp(-(u**2) / 2) / math.sqrt(2 * math.pi) * beyond

    turn = min(max(b / rho, a), a + 12)
    return integrate.quad(density, a, a + 12, epsabs=1e-14, limit=500, points=[turn])[0]


@pytest.mark.parametrize(
    ("a", "b", "rho"), [(1, 1, 0.5), (0.3, 2, -0.7), (2, 2.02, 0.9999), (0.0, 1, 0.3), (3, 3, -0.9)]
)
def test_gates_are_those_of_two_gaussians(a, b, rho):
    """Oracle: four corners of the plane, each integrated over one Gaussian."""
    arguments = jnp.array(float(a)), jnp.array(float(b)), jnp.array(rho)
    same, other = orthant(a, b, rho), orthant(a, b, -rho)
    both = threshold_kernel.open_together(*arguments), threshold_kernel.signs_together(*arguments)
    np.testing.assert_allclose(both, [2 * (same + other), 2 * (same - other)], atol=1e-11)


def test_parallel_patches_are_open_where_the_shorter_is():
    """Oracle: 2Φᶜ of the larger level, to the 1e-6 of so many nodes."""
    first, second = jnp.array([1.0, 1.0, 0.1]), jnp.array([1.0, 1.1, 0.1])
    expected = 2 * special.ndtr(-np.maximum(first, second))
    found = threshold_kernel.open_together(first, second, jnp.array([1.0, -1.0, 1.0]))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_kernels_without_thresholds_and_behind_high_ones():
    """Oracle: t = 0 gives ⟨ΣX, ΣX′⟩ and (2/π) Σ arcsin ρ; t → ∞ gives 0; zeros add nothing."""
    sums = X1.sum(axis=1) @ X2.sum(axis=1).T
    np.testing.assert_allclose(threshold_kernel.weight_kernel(X1, X2, 0.0), sums, rtol=1e-10)
    unit1, unit2 = (x / jnp.linalg.norm(x, axis=2, keepdims=True) for x in (X1, X2))
    angles = jnp.arcsin(jnp.einsum("npd,mqd->nmpq", unit1, unit2)).sum(axis=(2, 3))
    found = threshold_kernel.bias_kernel(X1, X2, 0.0)
    np.testing.assert_allclose(found, 2 * angles / math.pi, rtol=1e-10)
    padded = X1.at[:, 0].set(0.0)
    for kernel in (threshold_kernel.weight_kernel, threshold_kernel.bias_kernel):
        np.testing.assert_allclose(kernel(X1, X2, 100.0), 0.0, atol=1e-12)
        without = kernel(X1[:, 1:], X2, 0.7)
        np.testing.assert_allclose(kernel(padded, X2, 0.7), without, rtol=1e-12)


def test_the_kernels_are_the_limit_of_many_gates():
    """Oracle: 4000 drawn gates with the features of finite width.

    Twelve numbers are compared at once: within four standard errors, not three.
    """
    threshold = 0.9
    gates = jax.random.normal(jax.random.key(2), (4000 * 3,)).reshape(4000, 3)

    def products(gate):
        weights = [gated_patches.gated_features(gate, -threshold, x) for x in (X1, X2)]
        z = [x @ gate for x in (X1, X2)]
        biases = [((p >= threshold) * 1.0 - (p <= -threshold)).sum(axis=1) for p in z]
        return weights[0] @ weights[1].T, biases[0][:, None] * biases[1][None, :]

    kernels = (threshold_kernel.weight_kernel, threshold_kernel.bias_kernel)
    for drawn, kernel in zip(jax.lax.map(products, gates), kernels, strict=True):
        error = 4 * drawn.std(axis=0) / 4000**0.5
        assert (jnp.abs(drawn.mean(axis=0) - kernel(X1, X2, threshold)) <= error).all()


def test_the_kernels_are_positive():
    """Oracle: Gram matrices have no eigenvalue below rounding."""
    x = jnp.concatenate([X1, X2])
    for kernel in (threshold_kernel.weight_kernel, threshold_kernel.bias_kernel):
        assert jnp.linalg.eigvalsh(kernel(x, x, 0.9)).min() > -1e-9


def test_negative_thresholds_are_refused():
    with pytest.raises(ValueError, match="threshold must be at least 0, got -1"):
        threshold_kernel.weight_kernel(X1, X2, -1.0)


def test_thresholds_and_cosines_that_cannot_be_are_seen():
    one, two = jnp.ones(()), 2 * jnp.ones(())
    for part in (threshold_kernel.open_together, threshold_kernel.signs_together):
        assert jnp.isnan(part(-one, one, one / 2))
        assert jnp.isnan(part(one, one, two))
    patches = jnp.ones((1, 2, 3))
    with pytest.raises(ValueError, match="threshold must be at least 0, got -1"):
        threshold_kernel.weight_kernel(patches, patches, jnp.array(-1.0))
