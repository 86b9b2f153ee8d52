"""The empirical tangent kernel against dense Jacobians, the layerwise formula and descent."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.kernels import (
    ntk,
    ntk_full,
    ntk_per_output,
    ntk_per_parameter,
    ntk_vector_product,
    sampled_kernels,
)
from theorylab.kernels.finite import blocks, empirical
from theorylab.models import Activation, BatchNorm, Dense, Serial, Transformer, mlp, network

MODEL = network(mlp([7, 6], num_outputs=3, activation="tanh"), (4,), bias="normal")
X1, X2 = jax.random.normal(jax.random.key(1), (5, 4)), jax.random.normal(jax.random.key(2), (3, 4))


def params_of(seed=0):
    return MODEL.init(jax.random.key(seed))


def jacobian(x, params, rates=None):
    """Oracle: ∂f_a(x)/∂w for all inputs, outputs and parameters, as one dense array (n, k, p)."""
    flat, restore = ravel_pytree(params)
    dense = jax.jit(jax.jacrev(lambda w: MODEL.apply(restore(w), x)))(flat)
    return dense if rates is None else dense * jnp.sqrt(rates)[None, None, :]


WAYS = [("auto", None), ("structured", 2), ("jacobian", None), ("products", 2)]


@pytest.mark.parametrize(("method", "block_size"), WAYS)
def test_kernels_are_products_of_dense_jacobians(method, block_size):
    """An identity, so equal to rounding; blocks with and without a remainder, by every method."""
    params = params_of()
    one, two = jacobian(X1, params), jacobian(X2, params)
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-13)
    settings = {"block_size": block_size, "method": method}

    full = jnp.einsum("iap,jbp->ijab", one, two)
    close(ntk_full(MODEL.apply, params, X1, X2, **settings), full)
    each = jnp.einsum("iap,jap->aij", one, one)
    close(ntk_per_output(MODEL.apply, params, X1, **settings), each)
    close(ntk(MODEL.apply, params, X1, **settings), each.mean(axis=0))


@pytest.mark.parametrize("method", ["structured", "jacobian"])
@pytest.mark.parametrize("block_size", [None, 2, 5])
def test_outputs_are_taken_one_by_one_where_their_jacobians_do_not_fit(
    method, block_size, monkeypatch
):
    """Oracle: dense Jacobians; so little memory that those of one output fit, but not of three."""
    monkeypatch.setattr(blocks, "HELD_BYTES", 4000)
    params, apply = params_of(), lambda w, x: MODEL.apply(w, x)  # compiled for this test
    each = jnp.einsum("iap,jap->aij", jacobian(X1, params), jacobian(X1, params))
    cross = jnp.einsum("iap,jap->ij", jacobian(X1, params), jacobian(X2, params)) / 3
    close = partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-13)
    settings = {"block_size": block_size, "method": method}
    close(ntk_per_output(apply, params, X1, **settings), each)
    close(ntk(apply, params, X1, **settings), each.mean(axis=0))
    close(ntk(apply, params, X1, X2, **settings), cross)
    parts = jax.tree.leaves(ntk_per_parameter(apply, params, X1, **settings))
    close(sum(parts), each.mean(axis=0))


def test_full_kernel_of_inputs_with_themselves_is_mirrored():
    """Oracle: dense Jacobians; in blocks, of which one half is computed."""
    params = params_of()
    one = jacobian(X1, params)
    got = ntk_full(MODEL.apply, params, X1, block_size=2)
    expected = jnp.einsum("iap,jbp->ijab", one, one)
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("method", ["products", "structured"])
def test_kernels_of_the_parameters_are_those_of_their_columns(method):
    """Oracle: the columns of the dense Jacobian that belong to every array; their sum is `ntk`."""
    params = params_of()
    kernels = ntk_per_parameter(MODEL.apply, params, X1, X2, method=method)
    one, two = jacobian(X1, params), jacobian(X2, params)
    begin = 0
    for leaf, kernel in zip(jax.tree.leaves(params), jax.tree.leaves(kernels), strict=True):
        mine = slice(begin, begin + leaf.size)
        expected = jnp.einsum("iap,jap->ij", one[:, :, mine], two[:, :, mine]) / 3
        np.testing.assert_allclose(kernel, expected, rtol=1e-11, atol=1e-13)
        begin += leaf.size
    assert jax.tree.structure(kernels) == jax.tree.structure(params)
    total = sum(jax.tree.leaves(kernels))
    np.testing.assert_allclose(total, ntk(MODEL.apply, params, X1, X2), rtol=1e-12)


@pytest.mark.parametrize("block_size", [None, 2])
def test_vector_product_is_the_full_kernel_times_a_vector(block_size):
    """Oracle: the dense kernel; passes over all inputs, or blocks with and without a remainder."""
    params = params_of()
    vector = jax.random.normal(jax.random.key(3), (3, 3))
    expected = jnp.einsum("iap,jbp,jb->ia", jacobian(X1, params), jacobian(X2, params), vector)

    @jax.jit
    def product(params, vector):
        operator = ntk_vector_product(MODEL.apply, params, X1, X2, block_size=block_size)
        return operator(vector)

    np.testing.assert_allclose(product(params, vector), expected, rtol=1e-12)


def test_kernel_is_the_layerwise_formula():
    """Oracle: Σ over layers of (1/fan-in) ⟨b, b′⟩ ⟨g, g′⟩, forward and backward by hand (2.56)."""
    model = network(mlp([7, 6], activation="tanh"), (4,))
    params = model.init(jax.random.key(0))
    w1, w2, w3 = (np.asarray(params[i]["weight"]) for i in (0, 2, 4))
    g0 = np.asarray(X1)
    g1 = np.tanh(g0 @ w1 / 2)
    g2 = np.tanh(g1 @ w2 / np.sqrt(7))
    b3 = np.ones((5, 1))
    b2 = (1 - g2**2) * (b3 @ w3.T) / np.sqrt(6)
    b1 = (1 - g1**2) * (b2 @ w2.T) / np.sqrt(7)
    layers = [(b1, g0, 4), (b2, g1, 7), (b3, g2, 6)]
    expected = sum((b @ b.T) * (g @ g.T) / fan_in for b, g, fan_in in layers)
    np.testing.assert_allclose(ntk(model.apply, params, X1), expected, rtol=1e-12)


def test_kernels_of_many_seeds_are_one_compiled_program():
    """Oracle: one seed after another."""
    seeds = [params_of(seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seeds)
    together = jax.jit(jax.vmap(lambda params: ntk(MODEL.apply, params, X1)))(stacked)
    single = jnp.stack([ntk(MODEL.apply, params, X1) for params in seeds])
    np.testing.assert_allclose(together, single, rtol=1e-12)


def test_learning_rates_weigh_the_parameters():
    """Oracle: dense Jacobians, weighted by hand; a rate of 0 leaves a layer out."""
    params = params_of()
    rates = ({"weight": 2.0, "bias": 0.0}, (), {"weight": 0.5, "bias": 3.0}, (), 0.0)
    # A tree goes by sorted names: 7 biases, 28 weights; 6 biases, 42 weights; 3 and 18.
    flat = jnp.asarray(np.repeat([0.0, 2.0, 3.0, 0.5, 0.0], [7, 28, 6, 42, 21]))
    one, two = jacobian(X1, params, flat), jacobian(X2, params, flat)
    expected = jnp.einsum("iap,jbp->ijab", one, two)

    call = partial(ntk_full, MODEL.apply, params, X1, X2, learning_rates=rates)
    np.testing.assert_allclose(call(), expected, rtol=1e-12, atol=1e-14)

    product = ntk_vector_product(MODEL.apply, params, X1, X2, learning_rates=rates)
    expected = jnp.einsum("ijab,jb->ia", expected, jnp.ones((3, 3)))
    np.testing.assert_allclose(product(jnp.ones((3, 3))), expected, rtol=1e-12)


def test_outputs_move_along_the_kernel():
    """Oracle: a step of descent on ½‖f − y‖². f moves by −ηΘ(f − y), up to O(η²)."""
    params = params_of()
    target = jnp.ones((5, 3))
    error = MODEL.apply(params, X1) - target
    velocity = -ntk_vector_product(MODEL.apply, params, X1)(error)
    loss = lambda w: jnp.sum((MODEL.apply(w, X1) - target) ** 2) / 2  # noqa: E731
    gradient = jax.grad(loss)(params)

    def deviation(learning_rate):
        moved = jax.tree.map(lambda w, g: w - learning_rate * g, params, gradient)
        change = (MODEL.apply(moved, X1) - MODEL.apply(params, X1)) / learning_rate
        return float(jnp.linalg.norm(change - velocity))

    assert deviation(1e-4) / float(jnp.linalg.norm(velocity)) < 1e-2
    assert deviation(1e-4) / deviation(1e-5) == pytest.approx(10, rel=0.05)


def test_kernel_of_inputs_with_themselves_is_symmetric_and_positive():
    kernel = ntk(MODEL.apply, params_of(), X1)
    np.testing.assert_allclose(kernel, kernel.T, rtol=1e-13)
    assert np.linalg.eigvalsh(kernel).min() > 0


def test_kernels_have_derivatives_forward_and_back():
    """Oracle: finite differences of Θ along a direction, in one block and in several."""
    params = params_of()
    direction = params_of(seed=1)

    @partial(jax.jit, static_argnums=1)
    def both(params, block_size):
        kernel = lambda w: ntk(MODEL.apply, w, X1, block_size=block_size)  # noqa: E731
        _, forward = jax.jvp(kernel, (params,), (direction,))
        back = jax.vjp(kernel, params)[1](jnp.ones((5, 5)))[0]
        return forward, back

    step = 1e-6
    after = ntk(MODEL.apply, jax.tree.map(lambda w, v: w + step * v, params, direction), X1)
    before = ntk(MODEL.apply, jax.tree.map(lambda w, v: w - step * v, params, direction), X1)
    expected = (after - before) / (2 * step)
    for block_size in (None, 2):
        forward, back = both(params, block_size)
        np.testing.assert_allclose(forward, expected, rtol=1e-6, atol=1e-6)
        along = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, back, direction)))
        assert along == pytest.approx(float(jnp.sum(forward)), rel=1e-10)


def test_any_function_will_do():
    """A network by hand, with images for inputs and a number for parameter."""
    images = jax.random.normal(jax.random.key(7), (4, 2, 2, 1))
    apply = lambda w, x: w * jnp.sum(x, axis=(1, 2))  # noqa: E731
    sums = images.sum(axis=(1, 2, 3))
    np.testing.assert_allclose(ntk(apply, jnp.ones(()), images), jnp.outer(sums, sums), rtol=1e-12)


def test_what_cannot_be_compared_is_refused():
    params = params_of()
    with pytest.raises(ValueError, match=r"inputs of one shape, got \(4,\) and \(3,\)"):
        ntk(MODEL.apply, params, X1, jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="x2 must be finite, got NaN or infinity"):
        ntk_full(MODEL.apply, params, X1, X2.at[0, 0].set(jnp.nan))
    with pytest.raises(
        ValueError, match=r"x1 must have shape \(n, ...\) with n >= 1, got \(0, 4\)"
    ):
        ntk(MODEL.apply, params, X1[:0])
    with pytest.raises(ValueError, match=r"x1 must have shape .* got \(4,\)"):
        ntk_vector_product(MODEL.apply, params, X1[0])
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        ntk(MODEL.apply, params, X1, block_size=0)
    with pytest.raises(ValueError, match=r"outputs of shape \(n, k\) for 5 inputs, got \(5,\)"):
        ntk(lambda w, x: x @ w, jnp.ones(4), X1)
    with pytest.raises(ValueError, match="at least one array, got an empty tree"):
        ntk(lambda w, x: x, (), X1)
    unchecked: Any = getattr(ntk, "__wrapped__", ntk)  # the annotation would refuse it, too
    with pytest.raises(ValueError, match=r"method must be one of .* got 'fast'"):
        unchecked(MODEL.apply, params, X1, method="fast")


def test_trees_of_tokens_and_masks_by_every_method():
    """Oracle: the Jacobian of the masked mean over positions, from reverse mode."""
    model = Transformer(5, 3, context=4, width=4, depth=1, num_heads=2)
    params, ids = (
        model.init(jax.random.key(0)),
        jnp.array([[0, 3, 1, 4], [2, 2, 0, 1], [4, 1, 3, 3]]),
    )
    inputs = {"ids": ids, "mask": jnp.arange(4)[None] < jnp.array([[2], [4], [3]])}

    def masked(params, inputs):
        weights = inputs["mask"] / inputs["mask"].sum(axis=1, keepdims=True)
        return jnp.einsum("nt,ntk->nk", weights, model.apply(params, inputs["ids"]))

    def dense(network, inputs):
        leaves = jax.tree.leaves(jax.jacrev(network)(params, inputs))
        jacobian = jnp.concatenate([leaf.reshape(3, 3, -1) for leaf in leaves], axis=2)
        return jnp.einsum("iap,jbp->ijab", jacobian, jacobian)

    full = dense(masked, inputs)
    ways: Any = (("jacobian", None), ("products", 2), ("structured", 2))
    for method, size in ways:
        found = ntk_full(masked, params, inputs, method=method, block_size=size)
        np.testing.assert_allclose(found, full, rtol=1e-10, atol=1e-12)
    first = jax.tree.map(lambda leaf: leaf[:1], inputs)
    crossed = ntk_full(masked, params, first, inputs, method="structured")
    np.testing.assert_allclose(crossed, full[:1], rtol=1e-10, atol=1e-12)
    vector = jax.random.normal(jax.random.key(1), (3, 3))
    for size in (None, 2):
        product = ntk_vector_product(masked, params, inputs, block_size=size)(vector)
        expected = jnp.einsum("ijab,jb->ia", full, vector)
        np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match=r"got \(3, 4, 3\)\. Reduce them with outputs="):
        ntk(model.apply, params, ids)
    last = lambda f: f[:, -1]  # noqa: E731
    expected = jnp.einsum("ijaa->ij", dense(lambda p, x: model.apply(p, x)[:, -1], ids)) / 3
    np.testing.assert_allclose(ntk(model.apply, params, ids, outputs=last), expected, rtol=1e-10)


def test_batch_statistics_are_refused_where_there_are_values():
    """The kernel would be 0: alone, an input is its own mean."""
    model = network(Serial(Dense(8), BatchNorm(), Activation("relu"), Dense(1)), (4,))
    params = model.init(jax.random.key(0))
    for kernel in (ntk, ntk_vector_product, ntk_per_parameter):
        with pytest.raises(ValueError, match=r"treat every input by itself.*Batch statistics"):
            kernel(model.apply, params, X1)
    with pytest.raises(ValueError, match="treat every input by itself"):
        sampled_kernels(model.init, model.apply, X1, None, 2, jax.random.key(1))


def test_a_network_without_a_hash_is_taken_and_what_is_no_array_is_named():
    class Linear:
        __hash__: Any = None

        def __call__(self, w, x):
            return x @ w

    np.testing.assert_allclose(ntk(Linear(), jnp.ones((4, 1)), X1), X1 @ X1.T, rtol=1e-12)
    with pytest.raises(TypeError, match=r"floating arrays only, got an array of int64 at \['n'\]"):
        ntk(lambda w, x: x @ w["w"], {"w": jnp.ones((4, 1)), "n": jnp.arange(2)}, X1)


def test_a_kernel_too_large_for_memory_is_refused_before_any_work(monkeypatch):
    """It says how large, and what can be done."""
    monkeypatch.setattr(empirical, "available_memory", lambda: 1000)
    apply = lambda w, x: x @ w  # noqa: E731
    assert ntk(apply, jnp.ones((4, 3)), X1[:3]).shape == (3, 3)
    with pytest.raises(ValueError, match=r"shape \(5, 5, 3, 3\) that takes 1 kB.*vector_product"):
        ntk_full(apply, jnp.ones((4, 3)), X1)
