import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.dynamics.quadratic import gated, kernel_steps, plane
from theorylab.dynamics.quadratic.kernel_steps import KernelCourse
from theorylab.models import mlp, network, quadratize

MODEL = network(mlp([6, 5], 2, "tanh"), (3,))
NUM_STEPS = 6


@jax.jit
def weight_space(key):
    """Autodiff descent on the quadratic model of a tanh network with two outputs."""
    params_key, data_key = jax.random.split(key)
    params = MODEL.init(params_key)
    data = jax.random.normal(data_key, (4 * 5,)).reshape(4, 5)
    x, y = data[:, :3], data[:, 3:]
    apply = quadratize(MODEL.apply, params)
    rate = jnp.asarray(0.5)

    def outputs(params):
        return apply(params, x).ravel()

    flat, restore = ravel_pytree(params)

    def step(w, _):
        jacobian = jax.jacrev(lambda w: outputs(restore(w)))(w)
        r = outputs(restore(w)) - y.ravel()
        here = kernel_steps.derivatives(apply, restore(w), x, y)
        predicted = kernel_steps.step(here, rate)
        printed = kernel_steps.printed_kernel(here, rate)
        return w - rate * r @ jacobian, (KernelCourse(r, jacobian @ jacobian.T), predicted, printed)

    measured = jax.lax.scan(step, flat, length=NUM_STEPS + 1)[1]
    return *measured, kernel_steps.course(apply, params, x, y, rate, NUM_STEPS), rate


@pytest.fixture(scope="module")
def found():
    return jax.tree.map(np.asarray, weight_space(jax.random.key(0)))


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def test_the_step_is_gradient_descent_on_the_weights(found):
    """Oracle: autodiff descent, residuals and kernels. An identity: rounding."""
    measured, predicted, printed, _, _ = found
    assert relative(predicted.residual[:-1], measured.residuals[1:]) < 1e-12
    assert relative(predicted.kernel[:-1], measured.kernels[1:]) < 1e-12
    assert relative(printed[:-1], measured.kernels[1:]) > 1e-2


def test_course_records_residuals_and_kernels(found):
    """Oracle: the same descent by hand."""
    measured, _, _, course, _ = found
    assert relative(course.residuals, measured.residuals) < 1e-11
    assert relative(course.kernels, measured.kernels) < 1e-11


def test_remainders_are_what_is_left_of_a_step(found):
    """Oracle: NumPy's top eigenvector and the definitions of R_f and R_K, step by step."""
    measured, _, _, _, rate = found
    left = kernel_steps.remainders(jax.tree.map(jnp.asarray, measured), float(rate))
    for t in range(NUM_STEPS):
        r, kernel = measured.residuals[t], measured.kernels[t]
        values, vectors = np.linalg.eigh(kernel)
        p = vectors[:, -1]
        rest = measured.residuals[t + 1] - r + rate * kernel @ r
        np.testing.assert_allclose(left.output[t], p @ rest / (p @ r), rtol=1e-9)
        change = p @ (kernel - measured.kernels[t + 1]) @ p
        np.testing.assert_allclose(left.kernel[t], change, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(left.loss[t], r @ r / 2, rtol=1e-12)
        np.testing.assert_allclose(left.top_loss[t], (p @ r) ** 2 / 2, rtol=1e-9)
        np.testing.assert_allclose(left.top_eigenvalue[t], values[-1], rtol=1e-12)


def test_one_example_gives_the_map_of_the_plane():
    """Oracle: `plane.step`: GJᵀ = 2cgr and GGᵀ = cr²λ; a second derivation."""
    width, x, y = 8, jnp.array([[1.0, -2.0]]), jnp.array([[0.4]])
    weights = jax.jit(lambda key: gated.init(key, width, 2))(jax.random.key(1))

    @jax.jit
    def both(weights):
        apply = gated.quadratic_model(weights)
        here = kernel_steps.derivatives(apply, weights, x, y)
        after = kernel_steps.step(here, 0.7)
        state = plane.PlaneState(apply(weights, x)[0, 0], jnp.sum(here.jacobian**2))
        problem = plane.PlaneProblem(y[0, 0], 0.7, plane.coupling(x[0], width))
        return after, plane.step(state, problem)

    after, expected = both(weights)
    np.testing.assert_allclose(after.residual[0] + 0.4, expected.output, rtol=1e-12)
    np.testing.assert_allclose(after.kernel[0, 0], expected.curvature, rtol=1e-12)
