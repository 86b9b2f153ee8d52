import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.trainability import trainability


def test_it_is_the_inverse_of_the_condition_number():
    """Oracle: NumPy's condition number, by singular values."""
    root = jax.random.normal(jax.random.key(0), (5, 8))
    kernel = root @ root.T
    assert float(trainability(kernel)) == pytest.approx(1 / np.linalg.cond(kernel), rel=1e-9)


def test_one_for_the_identity_and_zero_for_equal_inputs():
    assert float(trainability(3 * jnp.eye(4))) == pytest.approx(1.0)
    assert float(trainability(jnp.ones((4, 4)))) == pytest.approx(0.0, abs=1e-12)
    assert float(trainability(jnp.zeros((4, 4)))) == 0.0
    assert float(trainability(jnp.diag(jnp.array([-0.1, 1.0])))) == 0.0  # by rounding, say


def test_the_slowest_mode_needs_so_many_steps():
    """Oracle: (1 − κ)^t at η = 1/λ₁, iterated."""
    kernel = jnp.diag(jnp.array([5.0, 2.0, 0.5]))
    error = jnp.array([0.0, 0.0, 1.0])
    for _ in range(10):
        error = error - kernel @ error / 5.0
    assert float(error[2]) == pytest.approx((1 - float(trainability(kernel))) ** 10)


def test_a_kernel_that_is_not_finite_is_not_judged():
    assert np.isnan(trainability(jnp.full((2, 2), jnp.nan)))
