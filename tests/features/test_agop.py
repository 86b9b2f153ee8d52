"""The AGOP: brute-force Jacobians, closed forms, what must not change it, and its sketch."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import gaussian
from theorylab.features import (
    agop,
    agop_alignment,
    agop_product,
    agop_sketch,
    sketch_alignment,
)
from theorylab.models import Conv, Dense, Flatten, Serial, mlp, network

KEY = jax.random.key(0)
MODEL = network(mlp([16, 8], 3, "tanh"), (5,))
PARAMS = MODEL.init(KEY)
X = jax.random.normal(jax.random.key(1), (11, 5))


def by_hand(apply, params, x):
    """Oracle: one dense Jacobian for every input, and a loop."""
    total = 0
    for one in np.asarray(x):
        jacobian = jax.jacobian(lambda z: apply(params, z[None])[0].ravel())(jnp.asarray(one))
        flat = np.asarray(jacobian).reshape(-1, one.size)
        total += flat.T @ flat
    return total / len(x)


@pytest.mark.parametrize("block_size", [None, 1, 4, 11, 50])
def test_agop_is_the_mean_of_the_jacobians_outer_products(block_size):
    """Oracle: brute force. 4 does not divide 11: no input counts twice."""
    expected = by_hand(MODEL.apply, PARAMS, X)
    np.testing.assert_allclose(agop(MODEL.apply, PARAMS, X, block_size), expected, rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 2])
def test_passes_for_some_of_the_outputs_make_up_all(rows, monkeypatch):
    """Oracle: brute force. 2 does not divide 3: no output is left out, or counts twice."""
    monkeypatch.setattr(import_module("theorylab.features.agop"), "_PASS", rows * X.size)
    made_anew = lambda w, x: MODEL.apply(w, x)  # noqa: E731
    expected = by_hand(MODEL.apply, PARAMS, X)
    np.testing.assert_allclose(agop(made_anew, PARAMS, X), expected, rtol=1e-12)


def test_images_are_laid_out_flat_and_many_outputs_go_forward():
    """Oracle: brute force, on a convolution, and with more outputs than inputs."""
    model = network(Serial(Conv(2, (2, 2)), Flatten(), Dense(2)), (3, 3, 1))
    params, images = model.init(KEY), X[:, :3, None, None] * jnp.ones((1, 3, 3, 1))
    expected = by_hand(model.apply, params, images)
    np.testing.assert_allclose(agop(model.apply, params, images, 4), expected, rtol=1e-11)

    wide = lambda w, x: jnp.sin(x[:, :2] @ w)  # noqa: E731
    weights = jnp.arange(14.0).reshape(2, 7)
    expected = by_hand(wide, weights, X[:, :2])
    np.testing.assert_allclose(agop(wide, weights, X[:, :2]), expected, rtol=1e-12)


def test_the_agop_of_a_product_tends_to_its_egop():
    """Oracle: closed form. f = x₁x₂ has ∇f = (x₂, x₁, 0), and E∇f∇fᵀ = diag(1, 1, 0)."""
    x = gaussian(KEY, 100_000, (1.0, 1.0, 1.0))
    found = agop(lambda w, x: x[:, :1] * x[:, 1:2], (), x, 10_000)
    # E x⁴ = 3: the diagonal has variance 2/n, the corner 1/n; 4 standard errors.
    errors = np.sqrt(np.array([[2, 1, 0], [1, 2, 0], [0, 0, 0]]) / len(x))
    assert np.all(np.abs(found - np.diag([1.0, 1.0, 0.0])) <= 4 * errors)


def test_rotating_the_inputs_rotates_the_agop():
    """Oracle: the chain rule. f(Rx) at x has the AGOP RᵀGR, with G that of f at Rx."""
    rotation = jnp.linalg.qr(jax.random.normal(jax.random.key(2), (25,)).reshape(5, 5))[0]
    turned = agop(lambda w, x: MODEL.apply(w, x @ rotation.T), PARAMS, X)
    expected = rotation.T @ agop(MODEL.apply, PARAMS, X @ rotation.T) @ rotation
    np.testing.assert_allclose(turned, expected, rtol=1e-11)


def test_products_need_no_matrix():
    """Oracle: the matrix."""
    directions = jax.random.normal(KEY, (15,)).reshape(5, 3)
    expected = agop(MODEL.apply, PARAMS, X) @ directions
    found = agop_product(MODEL.apply, PARAMS, X, block_size=4)(directions)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_a_sketch_of_enough_rank_is_exact_and_a_smaller_one_knows_its_error():
    """Oracle: the matrix, of rank 3, and the order of Nyström's approximation: FFᵀ ≤ G."""
    weights = jax.random.normal(KEY, (60,)).reshape(20, 3)
    inputs = jax.random.normal(jax.random.key(3), (180,)).reshape(9, 20)

    def low(w, x):
        return jnp.tanh(x @ w / 4)

    matrix = agop(low, weights, inputs)
    exact = agop_sketch(low, weights, inputs, key=KEY, rank=4)
    np.testing.assert_allclose(exact.factor @ exact.factor.T, matrix, atol=1e-10)
    assert exact.bound < 1e-9

    some = agop_sketch(low, weights, inputs, key=KEY, rank=2)
    left = matrix - some.factor @ some.factor.T
    assert np.linalg.eigvalsh(left).min() > -1e-12
    assert np.linalg.norm(left, 2) <= some.bound
    assert 0.3 < some.residual / np.linalg.norm(left) < 3  # four directions tell it roughly


def test_alignment_is_a_cosine():
    """Oracle: NumPy; it knows no scale, and two positive matrices never disagree in sign."""
    first, second = agop(MODEL.apply, PARAMS, X), jnp.eye(5)
    expected = np.trace(first) / (np.linalg.norm(first) * np.sqrt(5))
    np.testing.assert_allclose(agop_alignment(first, second), expected, rtol=1e-12)
    np.testing.assert_allclose(agop_alignment(3 * first, first), 1.0, rtol=1e-12)
    corner, other = jnp.diag(jnp.array([1.0, 0.0])), jnp.diag(jnp.array([0.0, 1.0]))
    assert agop_alignment(corner, other) == 0


def test_sketches_are_aligned_as_what_they_stand_for():
    """Oracle: the cosine of the matrices FFᵀ; of sketches that are exact, that of G and G*."""
    other = MODEL.init(jax.random.key(9))
    first, second = agop(MODEL.apply, PARAMS, X), agop(MODEL.apply, other, X)
    whole = [agop_sketch(MODEL.apply, w, X, key=KEY, rank=5) for w in (PARAMS, other)]
    expected = agop_alignment(first, second)
    np.testing.assert_allclose(sketch_alignment(*whole), expected, rtol=1e-8)
    few = [agop_sketch(MODEL.apply, PARAMS, X, key=KEY, rank=2), whole[1]]
    matrices = [one.factor @ one.factor.T for one in few]
    np.testing.assert_allclose(sketch_alignment(*few), agop_alignment(*matrices), rtol=1e-10)
    with pytest.raises(ValueError, match="as many inputs, got 5 and 4"):
        sketch_alignment(few[0], few[0].replace(factor=jnp.eye(4)))


def test_whole_numbers_are_real_ones():
    """Oracle: the same numbers as floats."""
    whole = jnp.arange(15).reshape(3, 5)
    square = lambda w, x: w * x**2  # noqa: E731
    expected = agop(square, 2.0, whole.astype(float))
    np.testing.assert_allclose(agop(square, 2.0, whole), expected, rtol=1e-12)
    sketch = agop_sketch(square, 2.0, whole, key=KEY, rank=5)
    np.testing.assert_allclose(sketch.factor @ sketch.factor.T, expected, rtol=1e-8, atol=1e-8)


def test_batch_statistics_are_refused():
    """A network that subtracts the mean of its batch; while it is traced nothing can be known."""
    centred = lambda w, x: (x - x.mean(axis=0, keepdims=True)) @ w  # noqa: E731
    weights = jnp.ones((5, 1))
    for measure in (agop, agop_product):
        with pytest.raises(ValueError, match="every input by itself, got outputs"):
            measure(centred, weights, X)
    with pytest.raises(ValueError, match="Batch statistics do that"):
        agop_sketch(centred, weights, X, key=KEY, rank=2)
    jax.jit(lambda x: agop(centred, weights, x))(X)
    assert agop(centred, weights, X[:1]).shape == (5, 5)


def test_bad_input_is_told():
    with pytest.raises(ValueError, match="at least one input, got"):
        agop(MODEL.apply, PARAMS, jnp.zeros((0, 5)))
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        agop(MODEL.apply, PARAMS, X, block_size=0)
    with pytest.raises(ValueError, match="one output for each input"):
        agop(lambda w, x: x.sum(), (), X)
    with pytest.raises(ValueError, match="rank must be from 1 to the 5 inputs, got 6"):
        agop_sketch(MODEL.apply, PARAMS, X, key=KEY, rank=6)
    with pytest.raises(ValueError, match="matrices of one shape"):
        agop_alignment(jnp.eye(2), jnp.eye(3))
