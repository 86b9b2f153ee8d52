"""Rows of curvature against the dense Hessian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure

from theorylab.checkup import subject_of
from theorylab.checkup.counting import counted_flops
from theorylab.checkup.effort import gradient_flops
from theorylab.checkup.measure import row_of
from theorylab.checkup.rows import MEASURES
from theorylab.models import mlp, network
from theorylab.training import squared

MODEL = network(mlp((12,), 3), input_shape=(5,))
PARAMS = MODEL.init(jax.random.key(0))
X = jax.random.normal(jax.random.key(1), (40, 5))
LABELS = np.arange(40) % 3
SUBJECT = subject_of(MODEL.apply, PARAMS, X, LABELS, jax.random.key(2))
NAMES = [
    *("hessian_spectrum", "lowest_eigenvalue", "hessian_trace", "effective_rank"),
    *("hessian_density", "gauss_newton"),
]


def read(name: str, subject=SUBJECT):
    row = row_of(MEASURES[name], subject)
    assert row.reading is not None, row.reason
    return row.reading


def eigenvalues() -> np.ndarray:
    """Of the dense Hessian, falling."""
    flat, unravel = ravel_pytree(PARAMS)
    rows = jax.nn.one_hot(LABELS, 3)

    def loss(w):
        return -(rows * jax.nn.log_softmax(MODEL.apply(unravel(w), X))).sum(axis=1).mean()

    return np.sort(np.linalg.eigvalsh(np.asarray(jax.hessian(loss)(flat))))[::-1]


def test_all_rows_of_a_small_network_are_those_of_the_dense_hessian():
    """Oracle: all eigenvalues of jax.hessian."""
    values = eigenvalues()
    share = (np.abs(values) < 0.01 * np.abs(values).max()).mean()
    expected = {
        "lowest_eigenvalue": values[-1],
        "hessian_trace": values.sum(),
        "effective_rank": values.sum() ** 2 / (values**2).sum(),
        "hessian_density": share,
    }
    for name, value in expected.items():
        found = read(name)
        np.testing.assert_allclose(found.value, value, rtol=1e-4, atol=1e-6)
        assert found.low - 1e-6 <= value <= found.high + 1e-6


def test_the_largest_eigenvalues_lie_within_their_bounds():
    """Oracle: all eigenvalues of jax.hessian."""
    found = read("hessian_spectrum")
    seen, bounds = found.curves["eigenvalues"], found.curves["bounds"]
    values = eigenvalues()[: len(seen)]
    assert (seen <= values + 1e-6).all()
    assert (values <= seen + bounds + 1e-6).all()
    assert found.details["λ1"] == pytest.approx(values[0], rel=0.01)


def test_outliers_of_a_linear_network_are_counted():
    """Oracle: inputs with three long axes: curvature 2·(50, 40, 30) beside 2."""
    axes = np.full(80, 1.0)
    axes[:3] = [50, 40, 30]
    x = jnp.asarray(np.diag(np.sqrt(80 * axes)))
    y = jnp.zeros((80, 1))
    subject = subject_of(
        lambda w, x: x @ w, jnp.ones((80, 1)), x, y, jax.random.key(0), loss=squared("mean")
    )
    found = read("hessian_spectrum", subject)
    assert (found.value, found.low, found.high) == (3.0, 3.0, 3.0)
    assert found.details["λ2"] == pytest.approx(80.0, rel=1e-4)


def test_gauss_newton_of_a_linear_network_is_its_hessian():
    """Limit: a network without curvature of its own."""
    y = X[:, :1]
    subject = subject_of(lambda w, x: x @ w, jnp.ones((5, 1)), X, y, jax.random.key(0), loss="mse")
    found = read("gauss_newton", subject)
    assert found.value == pytest.approx(1.0, abs=1e-5)


def test_gauss_newton_is_the_ratio_of_dense_matrices():
    """Oracle: jax.hessian with outputs that are linear in the parameters, and without."""
    flat, unravel = ravel_pytree(PARAMS)
    rows = jax.nn.one_hot(LABELS, 3)
    outputs, linear = jax.linearize(lambda w: MODEL.apply(unravel(w), X), flat)

    def loss(v):
        return -(rows * jax.nn.log_softmax(outputs + linear(v))).sum(axis=1).mean()

    dense = np.asarray(jax.hessian(loss)(jnp.zeros_like(flat)))
    ratio = np.linalg.eigvalsh(dense)[-1] / eigenvalues()[0]
    found = read("gauss_newton")
    assert found.low - 1e-6 <= ratio <= found.high + 1e-6


@pytest.mark.parametrize("name", [name for name in NAMES if MEASURES[name].draw])
def test_figures_are_drawn(name):
    axes = Figure().add_subplot()
    draw = MEASURES[name].draw
    assert draw is not None
    draw(read(name), axes)
    assert axes.get_xlabel()


def test_loops_are_counted_as_often_as_they_run():
    """Oracle: the same network written out: 2nd² operations a step, three times for a gradient."""
    weights, x = jnp.ones((16, 16)), jnp.ones((4, 16))

    def in_loop(w, x):
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), None), x, None, length=50)[0]

    def written_out(w, x):
        for _ in range(50):
            x = jnp.tanh(x @ w)
        return x

    products = 50 * 2 * 4 * 16 * 16
    counts = [counted_flops(each, weights, x) for each in (in_loop, written_out)]
    np.testing.assert_allclose(counts, products, rtol=0.1)
    y = jnp.zeros((4, 16))
    gradient = gradient_flops(in_loop, squared("mean"), weights, x, y)
    np.testing.assert_allclose(gradient, 3 * products / 4, rtol=0.15)


def test_convolutions_are_counted_by_their_windows():
    """Oracle: 2 · outputs · window · channels, by hand."""
    x, kernel = jnp.ones((2, 3, 8, 8)), jnp.ones((5, 3, 3, 3))
    found = counted_flops(lambda k, x: jax.lax.conv(x, k, (1, 1), "VALID"), kernel, x)
    assert found == 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3)
