"""Layers with parameters, graphs or noise in their place, against NumPy and their symmetries."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import (
    NTK,
    Activation,
    Aggregate,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    Model,
    MuP,
    Residual,
    SelfAttention,
    Serial,
    Standard,
    network,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.mixing import Upsample
from theorylab.models.parameters import Parameter
from theorylab.models.parts import Bias
from theorylab.models.windows import convolve_locally, convolve_transposed

RNG = np.random.default_rng(0)
TOKENS = RNG.normal(size=(2, 5, 3))  # 5 positions, 3 channels
GRAPH = ((0.0, 1.0, 0.5), (2.0, 0.0, 0.0), (1.0, -1.0, 3.0))


def drawn(model: Model, seed=0):
    """Parameters from NumPy, as JAX arrays and as NumPy arrays."""
    rng = np.random.default_rng(seed)
    params = jax.tree.map(
        lambda parameter: rng.normal(size=parameter.shape),
        model.parameters,
        is_leaf=lambda node: isinstance(node, Parameter),
    )
    return jax.tree.map(jnp.asarray, params), params


def outputs(model, params, *inputs):
    return jax.jit(model.apply)(params, *map(jnp.asarray, inputs))


def test_attention_and_aggregation_do_not_see_the_order_of_positions():
    """Invariance: positions, and nodes with their edges, permuted before or after."""
    order = np.array([3, 1, 4, 0, 2])
    attention = network(Serial(SelfAttention(4, 2, 3), Activation("relu"), Dense(2)), (5, 3))
    params, _ = drawn(attention)
    permuted = outputs(attention, params, TOKENS[:, order])
    np.testing.assert_allclose(permuted, outputs(attention, params, TOKENS)[:, order], rtol=1e-12)

    aggregation = network(Serial(Aggregate(), Dense(2)), (5, 3))
    params, _ = drawn(aggregation)
    graphs = RNG.normal(size=(2, 5, 5))
    turned = outputs(aggregation, params, TOKENS[:, order], graphs[:, order][:, :, order])
    straight = outputs(aggregation, params, TOKENS, graphs)
    np.testing.assert_allclose(turned, straight[:, order], rtol=1e-12)


def test_aggregation_is_a_sum_over_neighbours():
    """Oracle: A x for every input; the one graph of all, or one for each."""
    x = RNG.normal(size=(2, 3, 4))
    graph = np.array(GRAPH)
    expected = np.stack([graph @ each for each in x])
    np.testing.assert_allclose(outputs(network(Aggregate(GRAPH), (3, 4)), (), x), expected)
    graphs = np.stack([graph, graph.T])
    expected = np.stack([a @ each for a, each in zip(graphs, x, strict=True)])
    model = network(Residual(Serial(Aggregate())), (3, 4))
    params = {"branch": ((),), "shortcut": ()}
    np.testing.assert_allclose(outputs(model, params, x, graphs), x + expected)


def test_local_and_transposed_convolutions_have_weights_and_biases_as_stated():
    """Oracle: the convolution of `windows`, times σ_w/√(window · channels), plus σ_b b."""
    x = RNG.normal(size=(2, 5, 4, 3))
    settings = ((3, 2), (2, 1), "same")
    scales = NTK(weight_scale=1.5, bias_scale=0.3)
    for layer, convolution, copies in (
        (Conv(4, *settings, shared=False), convolve_locally, (3, 4)),
        (ConvTranspose(4, *settings), convolve_transposed, ()),
    ):
        model = network(layer, (5, 4, 3), scales, bias="normal")
        params, p = drawn(model)
        assert p["weight"].shape == (*copies, 3, 2, 3, 4)
        assert p["bias"].shape == (*copies, 4)
        product = convolution(jnp.asarray(x), params["weight"], *settings[1:])
        expected = 1.5 / math.sqrt(3 * 2 * 3) * np.asarray(product) + 0.3 * p["bias"]
        np.testing.assert_allclose(outputs(model, params, x), expected, rtol=1e-12)


def test_sums_products_and_upsampling_are_their_formulas():
    """Oracle: NumPy."""
    x = RNG.normal(size=(2, 4, 3))
    pooled = x.reshape(2, 2, 2, 3).sum(axis=2)
    np.testing.assert_allclose(outputs(network(AvgPool((2,), reduce="sum"), (4, 3)), (), x), pooled)
    summed = x.sum(axis=1)
    np.testing.assert_allclose(outputs(network(GlobalPool(reduce="sum"), (4, 3)), (), x), summed)
    gate = network(Product(Activation("tanh")), (4, 3))
    gated = outputs(gate, {"branch": (), "shortcut": ()}, x)
    np.testing.assert_allclose(gated, x * np.tanh(x), rtol=1e-12)
    spread = outputs(network(Upsample((2,)), (4, 3)), (), x)
    np.testing.assert_array_equal(spread, x.repeat(2, axis=1))


def test_dropout_is_noise_in_training_only():
    """Every coordinate is 0 or x/keep, a share keep is kept; layers and keys are independent."""
    layers = (Dropout(0.25), Flatten(), Dropout(0.5))
    model = network(Serial(*layers), (30, 20))
    x = jnp.ones((4, 30, 20))
    params = ((), (), ())
    np.testing.assert_array_equal(model.apply(params, x), np.ones((4, 600)))
    noisy = jax.jit(model.noisy)
    one, other = (noisy(params, x, jax.random.key(seed)) for seed in range(2))
    assert set(np.unique(one)) == {0.0, 8.0}
    assert np.mean(one > 0) == pytest.approx(1 / 8, abs=4 * math.sqrt(7 / 64 / 2400))
    assert np.mean((one > 0) & (other > 0)) == pytest.approx(
        1 / 64, abs=4 * math.sqrt(1 / 64 / 2400)
    )


def test_noise_differs_between_the_ways():
    """With keep ½, two ways of one key would be both kept or both dropped."""
    x = jnp.ones((1, 4000))
    model = network(Residual(Dropout(0.5), Dropout(0.5)), (4000,))
    y = model.noisy({"branch": (), "shortcut": ()}, x, jax.random.key(0))
    shares = [float(np.mean(np.asarray(y) == value)) for value in (0.0, 2.0, 4.0)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=4 * 0.5 / math.sqrt(4000))


def declared(architecture, shape, parametrization, bias: Bias = "none"):
    """Role and scaling of every array, in the order of the tree."""
    parameters = network(architecture, shape, parametrization, bias).parameters
    leaves = jax.tree.leaves(parameters, is_leaf=lambda node: isinstance(node, Parameter))
    return [(leaf.role, leaf.scaling) for leaf in leaves]


def test_layers_may_have_scales_of_their_own():
    """In place of the parametrization's; a layer without keeps them."""
    layers = (
        Dense(4, weight_scale=3.0, bias_scale=0.1),
        Conv(4, (2,), weight_scale=5.0),
        ConvTranspose(4, (2,), bias_scale=0.2),
        Dense(2),
    )
    ntk = declared(Serial(*layers), (6, 9), NTK(weight_scale=2.0, bias_scale=0.7), "normal")
    multipliers = [scaling.multiplier for _, scaling in ntk]
    root = math.sqrt(8)
    expected = [0.1, 3 / 3, 0.7, 5 / root, 0.2, 2 / root, 0.7, 2 / 2]
    np.testing.assert_allclose(multipliers, expected)
    standard = declared(
        Serial(*layers), (6, 9), Standard(weight_scale=2.0, bias_scale=0.7), "normal"
    )
    np.testing.assert_allclose([scaling.initial for _, scaling in standard], expected)


def test_roles_follow_from_the_place():
    """Queries, keys and values are never last; what comes from inputs is no hidden layer."""
    attention = SelfAttention(2, 2, 4)
    roles = [role for role, _ in declared(attention, (5, 3), NTK())]
    assert roles == ["input", "output", "input", "input"]  # key, output, query, value
    roles = [role for role, _ in declared(Serial(Dense(4), attention, Dense(1)), (5, 3), NTK())]
    assert roles == ["input", "hidden", "hidden", "hidden", "hidden", "output"]
    gate = Product(Dense(4), Conv(4, (3,), padding="same", shared=False))
    roles = [role for role, _ in declared(Serial(gate, ConvTranspose(1, (2,))), (5, 3), NTK())]
    assert roles == ["input", "input", "output"]


def test_maximal_updates_scale_attention_as_dense_layers():
    """Oracle: the factors of μP for input (fan-out 8) and output (fan-in 8)."""
    scalings = dict(declared(SelfAttention(2, 2, 4), (5, 3), MuP()))
    assert scalings["input"] == MuP().scaling("input", 3, 8)
    assert scalings["output"] == MuP().scaling("output", 8, 2)


def test_wrong_graphs_are_refused():
    model = network(Concatenate(Serial(Aggregate())), (3, 4))
    params, x = ((),), jnp.ones((2, 3, 4))
    with pytest.raises(ValueError, match="graphs must be given"):
        model.apply(params, x)
    with pytest.raises(ValueError, match=r"graphs must have shape \(2, 3, 3\), got \(3, 3\)"):
        model.apply(params, x, jnp.ones((3, 3)))
    with pytest.raises(ValueError, match="graphs must not be given"):
        network(Aggregate(GRAPH), (3, 4)).apply((), x, jnp.ones((2, 3, 3)))
    with pytest.raises(ValueError, match=r"inputs must have shape \(n, 3, 4\), got \(2, 4, 4\)"):
        model.noisy(params, jnp.ones((2, 4, 4)), jax.random.key(0))
