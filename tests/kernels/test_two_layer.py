"""The two-layer network and its kernel: against autodiff, quadrature, brute force and limits."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from theorylab.data import sphere
from theorylab.kernels import ntk, two_layer

X = sphere(jax.random.key(0), 6, 4)
Y = jnp.sign(X[:, 0])
NETWORK = two_layer.init(jax.random.key(1), width=50, dimension=4)


@pytest.mark.parametrize("activation", ["relu", "softplus", "tanh"])
def test_kernel_is_that_of_autodiff(activation):
    """Oracle: the tangent kernel of the network as a function of its weights."""

    def apply(weights, x):
        network = NETWORK._replace(weights=weights)
        return two_layer.outputs(network, x, activation)[:, None]

    expected = ntk(apply, NETWORK.weights, X)
    found = two_layer.tangent_kernel(NETWORK, X, activation=activation)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    part = two_layer.tangent_kernel(NETWORK, X, X[:2], activation)
    np.testing.assert_allclose(part, expected[:, :2], rtol=1e-12)


def test_limit_of_relu_is_the_arc_cosine_formula():
    """Oracle: x·x′ (π − arccos ρ)/2π in numpy, for inputs of any length."""
    x = np.asarray(X) * np.array([[0.5], [1], [2], [1], [3], [1]])
    inner, lengths = x @ x.T, np.linalg.norm(x, axis=1)
    angle = np.arccos(np.clip(inner / np.outer(lengths, lengths), -1, 1))
    expected = inner * (np.pi - angle) / (2 * np.pi)
    np.testing.assert_allclose(two_layer.limit_kernel(jnp.asarray(x)), expected, atol=1e-7)


def test_limit_of_any_activation_is_the_gaussian_integral():
    """Oracle: two-dimensional integration of σ′(u)σ′(v) times the Gaussian density (Ex. 9.2.1)."""
    x = jnp.array([[1.0, 0.0], [0.6, 0.8]])

    def integrand(v: float, u: float) -> float:
        slope = math.tanh(u), math.tanh(0.6 * u + 0.8 * v)
        density = math.exp(-(u**2 + v**2) / 2) / (2 * math.pi)
        return (1 - slope[0] ** 2) * (1 - slope[1] ** 2) * density

    expected = 0.6 * integrate.dblquad(integrand, -8, 8, -8, 8, epsabs=1e-8)[0]
    found = two_layer.limit_kernel(x, activation="tanh")[0, 1]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_kernel_of_a_wide_network_is_the_limit():
    """A mean over neurons: within five standard errors, each at most 1/(2√m)."""
    width = 40_000
    wide = two_layer.init(jax.random.key(2), width, 4)
    error = jnp.abs(two_layer.tangent_kernel(wide, X) - two_layer.limit_kernel(X)).max()
    assert error < 5 * 0.5 / math.sqrt(width)


def test_series_is_the_closed_form():
    """Oracle: `limit_kernel`; away from ±1, where the terms fall fast."""
    cosines = jnp.linspace(-0.95, 0.95, 21)
    pairs = jnp.stack([cosines, jnp.sqrt(1 - cosines**2)], axis=1)
    closed = two_layer.limit_kernel(jnp.eye(2)[:1], pairs)[0]
    np.testing.assert_allclose(two_layer.limit_series(cosines, 400), closed, atol=1e-12)
    by_hand = sum(two_layer.series_coefficient(p) * np.asarray(cosines) ** p for p in range(1, 801))
    np.testing.assert_allclose(by_hand, closed, atol=1e-12)
    # At 1 the sum is H*(x, x) = 1/2, so that the coefficients sum to ½ up to the tail.
    np.testing.assert_allclose(two_layer.limit_series(jnp.ones(1), 10**5), 0.5, atol=1e-3)


def test_series_coefficients_are_those_of_the_arc_sine():
    """Oracle: arcsin K = K + K³/6 + 3K⁵/40 + …, so H* = K(π/2 + arcsin K)/2π."""
    found = [two_layer.series_coefficient(power) for power in range(1, 7)]
    expected = np.array([math.pi / 2, 1, 0, 1 / 6, 0, 3 / 40]) / (2 * math.pi)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_doubled_network_is_zero_with_the_same_kernel():
    both = two_layer.doubled(NETWORK)
    np.testing.assert_allclose(two_layer.outputs(both, X), 0, atol=1e-14)
    expected = two_layer.tangent_kernel(NETWORK, X)
    np.testing.assert_allclose(two_layer.tangent_kernel(both, X), expected, rtol=1e-12)


def test_narrowed_network_is_the_one_of_its_first_neurons():
    """Oracle: the network made of the first rows."""
    small = two_layer.Network(NETWORK.weights[:20], NETWORK.signs[:20])
    same = two_layer.narrowed(NETWORK, 20)
    for function in (two_layer.outputs, two_layer.tangent_kernel):
        np.testing.assert_allclose(function(same, X), function(small, X), rtol=1e-12)
    trained = [two_layer.descend(network, X, Y, 0.5, 1, 5) for network in (same, small)]
    for one, other in zip(trained[0][1:], trained[1][1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        two_layer.flipped(same, trained[0].network, X),
        two_layer.flipped(small, trained[1].network, X),
    )


def test_flipped_counts_patterns():
    """Oracle: a single neuron turned over changes its pattern at every input."""
    turned = NETWORK._replace(weights=NETWORK.weights.at[3].multiply(-1))
    np.testing.assert_allclose(two_layer.flipped(NETWORK, turned, X), 1 / 50)
    assert two_layer.flipped(NETWORK, NETWORK, X) == 0


def test_descent_is_gradient_descent_in_a_loop():
    """Oracle: the gradient written out, −m^(−1/2) aᵣ Σᵢ (yᵢ − uᵢ) σ′ xᵢ, in a Python loop."""
    found = two_layer.descend(NETWORK, X, Y, 0.5, num_records=3, steps_per_record=2)
    w, a, x = (np.asarray(array) for array in (*NETWORK, X))
    start = np.maximum(x @ w.T, 0) @ a / math.sqrt(50)
    for step in range(6):
        z = x @ w.T
        residual = np.asarray(Y) - (np.maximum(z, 0) @ a / math.sqrt(50) - start)
        w = w + 0.5 * ((z > 0) * a[None, :] * residual[:, None]).T @ x / math.sqrt(50)
        if step == 1:
            u = np.maximum(x @ w.T, 0) @ a / math.sqrt(50) - start
            moved = np.linalg.norm(w - np.asarray(NETWORK.weights), axis=1).max()
            np.testing.assert_allclose(found.outputs[1], u, rtol=1e-10)
            np.testing.assert_allclose(found.row_movement[1], moved, rtol=1e-10)
    np.testing.assert_allclose(found.network.weights, w, rtol=1e-10)
    np.testing.assert_allclose(found.times, [0.0, 1.0, 2.0, 3.0])
    last, first = (np.asarray(two_layer.tangent_kernel(net, X)) for net in (found.network, NETWORK))
    np.testing.assert_allclose(
        found.kernel_movement[-1], np.linalg.norm(last - first, 2), rtol=1e-10
    )
    np.testing.assert_allclose(found.smallest_eigenvalue[-1], np.linalg.eigvalsh(last)[0])
    np.testing.assert_allclose(found.outputs[0], 0, atol=1e-14)


def test_frozen_kernel_travels_to_its_limit():
    """Oracle: ‖Jᵀ(JJᵀ)⁻¹y‖, the least change of weights that fits y, by a pseudo-inverse."""
    jacobian = jax.jacobian(lambda w: two_layer.outputs(NETWORK._replace(weights=w), X))(
        NETWORK.weights
    ).reshape(6, -1)
    kernel = two_layer.tangent_kernel(NETWORK, X)
    expected = jnp.linalg.norm(jnp.linalg.pinv(jacobian) @ Y)
    np.testing.assert_allclose(two_layer.movement_limit(kernel, Y), expected, rtol=1e-9)


def test_movement_bounds_hold_along_training():
    """A smooth activation, where the bound on the kernel is a theorem; η small, nearly a flow."""
    run = two_layer.descend(NETWORK, X, Y, 0.1, 4, 10, activation="softplus")
    rows = two_layer.row_movement_bound(run.times, 6, 50)
    kernels = two_layer.kernel_movement_bound(run.times, 6, 50)
    assert (run.row_movement[1:] <= rows[1:]).all()
    assert (run.kernel_movement[1:] <= kernels[1:]).all()
    assert float(run.row_movement[-1]) > 0.01 * float(rows[-1])  # not idle


def test_row_bound_is_attained():
    """Six equal inputs with one label: the first step of an open ReLU neuron is ηn/√m long."""
    x, y = jnp.tile(X[:1], (6, 1)), jnp.ones(6)
    network = NETWORK._replace(weights=jnp.tile(X[:1], (50, 1)))
    run = two_layer.descend(network, x, y, 0.01, 1, 1)
    bound = two_layer.row_movement_bound(run.times[1], 6, 50)
    np.testing.assert_allclose(run.row_movement[1], bound, rtol=1e-12)


def test_kernel_bound_is_attained_up_to_the_activation():
    """Equal inputs and neurons, where (tanh′)² is steepest: its slope over 2, which is 0.57."""
    x, y = jnp.tile(X[:1], (6, 1)), jnp.ones(6)
    place = -jnp.arctanh(jnp.sqrt(0.2))  # d(1 − s²)²/dz = −4s(1 − s²)² is largest at s² = 1/5
    network = two_layer.Network(jnp.tile(place * X[:1], (50, 1)), jnp.ones(50))
    run = two_layer.descend(network, x, y, 1e-6, 1, 1, activation="tanh")
    bound = two_layer.kernel_movement_bound(run.times[1], 6, 50)
    slope = float(jax.grad(jnp.tanh)(place))  # of the output, by which a row moves slower
    expected = slope * 4 * math.sqrt(0.2) * 0.8**2 / 2
    np.testing.assert_allclose(run.kernel_movement[1] / bound, expected, rtol=1e-4)


def test_bounds_are_what_their_proofs_give():
    """Oracles: Hoeffding with a union over n² entries; ε/n per entry; a geometric series."""
    n, m, delta = 50, 1000, 0.1
    hoeffding = math.sqrt(math.log(2 * n**2 / delta) / (2 * m))
    assert hoeffding <= two_layer.entrywise_bound(m, n, delta) <= 5 * hoeffding
    width = two_layer.sufficient_width(0.3, n, delta)
    np.testing.assert_allclose(two_layer.entrywise_bound(width, n, delta), 0.3 / n)
    eventually = two_layer.eventual_movement_bound(2.0, 0.5, n, m)
    rate = math.sqrt(n) / math.sqrt(m) * 2.0  # speed of a neuron while ‖y − u‖ = 2 e^(−λ₀t/2)
    flow = integrate.quad(lambda t: rate * math.exp(-0.5 * t / 2), 0, np.inf)[0]
    np.testing.assert_allclose(eventually, flow, rtol=1e-10)


def test_widths_of_the_theorems_scale_as_stated():
    one, other = two_layer.theorem_widths(20, 0.1, 0.1), two_layer.theorem_widths(40, 0.1, 0.1)
    np.testing.assert_allclose(other[0] / one[0], 2**6)
    np.testing.assert_allclose(other[1] / one[1], 2**4 * (math.log(400) / math.log(200)) ** 3)
    np.testing.assert_allclose(one[0], 20**6 / (1e-4 * 1e-3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two_layer.init(jax.random.key(0), 0, 3), "width must be at least 1, got 0"),
        (lambda: two_layer.limit_kernel(X, activation="rule"), "activation must be one of"),
        (lambda: two_layer.limit_series(Y, 0), "num_terms must be at least 1, got 0"),
        (lambda: two_layer.series_coefficient(0), "power must be at least 1, got 0"),
        (lambda: two_layer.entrywise_bound(10, 5, 1.5), r"delta must be in \(0, 1\), got 1.5"),
        (lambda: two_layer.sufficient_width(0.0, 5, 0.1), "tolerance must be positive, got 0.0"),
        (lambda: two_layer.descend(NETWORK, X, Y, 0.1, 0, 1), "num_records must be at least 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
