import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.models import (
    ABC,
    NTK,
    Activation,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    LayerNorm,
    MeanField,
    MuP,
    Residual,
    Serial,
    Standard,
    mlp,
    network,
    regime,
)
from theorylab.models.parametrization import Exponents, Scaling, Torch
from theorylab.training import with_learning_rates

TANH = Activation("tanh")
MUP_FOR_ADAM = ABC(Exponents(), Exponents(b=0.5, c=1.0), Exponents(a=1.0))
HALF_WAY = ABC(Exponents(-0.25, 0.25), Exponents(0.25, 0.25), Exponents(0.5, 0.25))


@pytest.mark.parametrize(
    ("parametrization", "role", "initial", "multiplier", "learning_rate"),
    [
        # A layer from 4 to 16 channels; σ_w = 3, σ_b = 5.
        (Standard(weight_scale=3.0, bias_scale=5.0), "input", 3 / 2, 1, 1),
        (Standard(weight_scale=3.0, bias_scale=5.0), "hidden", 3 / 2, 1, 1),
        (Standard(weight_scale=3.0, bias_scale=5.0), "output", 3 / 2, 1, 1),
        (Standard(weight_scale=3.0, bias_scale=5.0), "fixed", 3 / 2, 1, 1),
        (Standard(weight_scale=3.0, bias_scale=5.0), "bias", 5, 1, 1),
        (Standard(weight_scale=3.0, bias_scale=5.0), "output_bias", 5, 1, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "input", 1, 3 / 2, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "hidden", 1, 3 / 2, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "output", 1, 3 / 2, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "fixed", 1, 3 / 2, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "bias", 1, 5, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "output_bias", 1, 5, 1),
        (NTK(weight_scale=3.0, bias_scale=5.0), "gain", 1, 1, 1),
        (Torch(bias_scale=5.0), "input", 1 / 12**0.5, 1, 1),
        (Torch(bias_scale=5.0), "hidden", 1 / 12**0.5, 1, 1),
        (Torch(bias_scale=5.0), "bias", 5 / 2, 1, 1),
        (Torch(bias_scale=5.0), "output_bias", 5 / 2, 1, 1),
        (MeanField(), "input", 1, 1 / 2, 16),
        (MeanField(), "output", 1, 1 / 4, 4),
        (MeanField(), "bias", 1, 1, 16),
        (MuP(), "input", 1, 1 / 2, 16),
        (MuP(), "hidden", 1 / 2, 1, 1),
        (MuP(), "output", 1, 1 / 4, 4),
        (MuP(), "fixed", 1, 1 / 2, 1),
        (MuP(), "bias", 1, 1, 16),
        (MuP(), "output_bias", 1, 1, 1),
        (MuP(), "gain", 1, 1, 16),
        (ABC(Exponents(1, 2, 3), Exponents(), Exponents()), "input", 1 / 256, 1 / 32, 1 / 4096),
        (ABC(Exponents(), Exponents(1, 2, 3), Exponents()), "hidden", 1 / 16, 1 / 4, 1 / 64),
        (ABC(Exponents(), Exponents(), Exponents(1, 2, 3)), "output", 1 / 16, 1 / 4, 1 / 64),
    ],
)
def test_scalings(parametrization, role, initial, multiplier, learning_rate):
    """Oracle: the table of the module, worked out by hand."""
    expected = Scaling(initial, multiplier, learning_rate)
    assert parametrization.scaling(role, fan_in=4, fan_out=16) == pytest.approx(expected)


def test_torch_weights_and_biases_are_uniform_up_to_one_over_root_fan_in():
    """Oracle: PyTorch's documentation, U(±1/√fan-in); the largest of many comes near the bound."""
    model = network(mlp([500]), (16,), Torch(), bias="uniform", law="uniform")
    first, _, last = model.init(jax.random.key(0))
    for values, fan_in in (
        (first["weight"], 16),
        (first["bias"], 16),
        (last["weight"], 500),
        (last["bias"], 500),
    ):
        largest = float(jnp.abs(values).max() * math.sqrt(fan_in))
        assert largest <= 1
        assert values.size == 1 or largest > 0.97


def test_roles_follow_from_the_place():
    """The weights' roles, in the order of the tree, in each kind of layer."""

    def roles(*layers, shape=(3,)):
        declared = network(Serial(*layers), shape, bias="zero").parameters
        flat = jax.tree.leaves(declared, is_leaf=lambda node: hasattr(node, "role"))
        return [parameter.role for parameter in flat if len(parameter.shape) > 1], [
            parameter.role for parameter in flat if len(parameter.shape) == 1
        ]

    assert roles(Dense(1)) == (["fixed"], ["output_bias"])
    assert roles(*mlp([4, 4]).layers) == (
        ["input", "hidden", "output"],
        ["bias", "bias", "output_bias"],
    )
    assert roles(Dense(4), Residual(Serial(Dense(4), TANH, Dense(4))), Dense(1))[0] == [
        "input",
        "hidden",
        "hidden",
        "output",
    ]
    assert roles(Concatenate(Dense(4)), Concatenate(Dense(4)), Dense(1))[0] == [
        "input",
        "hidden",
        "output",
    ]
    image = (5, 5, 1)
    assert roles(Conv(4, (3, 3)), Flatten(), Dense(1), shape=image)[0] == ["input", "output"]
    assert roles(Dense(4), Dense(2), TANH, LayerNorm(affine=True))[0] == ["input", "output"]


def test_fan_in_of_a_convolution_counts_the_window():
    model = network(Serial(Conv(4, (3, 3)), Conv(6, (2, 2)), Flatten(), Dense(1)), (5, 5, 2))
    multipliers = [layer["weight"].scaling.multiplier for layer in model.parameters if layer]
    expected = [1 / math.sqrt(fan_in) for fan_in in (3 * 3 * 2, 2 * 2 * 4, 2 * 2 * 6)]
    assert multipliers == pytest.approx(expected)


# --- Training -------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(6, 3))
Y = jnp.asarray(np.random.default_rng(1).normal(size=(6, 1)))


def train(model, params, optimizer, x, y, num_steps=1):
    """Train on half the mean squared error, with the factors of the parametrization."""
    optimizer = with_learning_rates(optimizer, model.learning_rates(params))

    def loss(params):
        return jnp.mean((model.apply(params, jnp.asarray(x)) - y) ** 2) / 2

    def step(carry, _):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), length=num_steps)
    return params


@pytest.mark.parametrize("adam", [False, True])
def test_equivalent_exponents_train_the_same_network(adam):
    """Symmetry: (a + θ, b − θ, c − 2θ) in every role, exactly; for Adam (without ε) c − θ."""
    plain = ABC(Exponents(0.1, -0.1, 0.2), Exponents(0.3, 0.2, -0.1), Exponents(0.5, 0.0, 0.3))

    def shift(exponents, theta):
        shifted = exponents.shifted(theta)
        return shifted._replace(c=exponents.c - theta) if adam else shifted

    shifted = ABC(shift(plain.input, 0.4), shift(plain.hidden, -0.3), shift(plain.output, 0.7))
    architecture = Serial(
        Dense(8), LayerNorm(affine=True), TANH, Residual(Dense(8)), TANH, Dense(1)
    )
    optimizer = optax.adam(0.01, eps=0.0) if adam else optax.sgd(0.1, momentum=0.9)

    def trained_outputs(parametrization):
        model = network(architecture, (3,), parametrization, bias="normal")

        @jax.jit
        def run(key):
            params = train(model, model.init(key), optimizer, X, Y, num_steps=6)
            return model.apply(params, jnp.asarray(X))

        return run(jax.random.key(0))

    untrained = network(architecture, (3,), plain, bias="normal")
    start = jax.jit(lambda key: untrained.apply(untrained.init(key), jnp.asarray(X)))(
        jax.random.key(0)
    )
    one, other = map(trained_outputs, (plain, shifted))
    np.testing.assert_allclose(one, other, rtol=1e-9)
    assert np.abs(one - start).max() > 0.05  # there was something to compare


def test_mup_step_is_the_one_of_the_source():
    """Oracle: golikov · mup-step · Eqs 1.20–1.27 (as corrected) in numpy, biases and all."""
    n, eta, y = 16, 0.3, 2.0
    model = network(mlp([n, n], 1, "tanh"), (3,), MuP(), bias="normal")
    params = jax.jit(model.init)(jax.random.key(0))
    p = jax.tree.map(np.asarray, params)
    w1, b1, w2, b2 = p[0]["weight"].T, p[0]["bias"], p[2]["weight"].T, p[2]["bias"]
    v, u = p[4]["weight"][:, 0], p[4]["bias"]

    x = X[0] / np.sqrt(3)  # the source has no 1/√d
    h1 = w1 @ x + b1
    h2 = w2 @ np.tanh(h1) + b2
    error = v @ np.tanh(h2) / n + u - y
    g2 = v * error * (1 - np.tanh(h2) ** 2)
    g1 = (w2.T @ g2) * (1 - np.tanh(h1) ** 2)
    expected = (
        {"weight": (w1 - eta * np.outer(g1, x)).T, "bias": b1 - eta * g1},
        (),
        {"weight": (w2 - eta * np.outer(g2, np.tanh(h1)) / n).T, "bias": b2 - eta * g2},
        (),
        {"weight": (v - eta * error * np.tanh(h2))[:, None], "bias": u - eta * error},
    )
    trained = jax.jit(lambda p: train(model, p, optax.sgd(eta), X[:1], y))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), trained, expected)


def test_mean_field_is_an_average_over_particles_that_move_at_the_speed_of_one():
    """Oracle: golikov · mean-field-2l · Eqs 1.12–1.18: v̇ = φ(w·x)(y − f), ẇ = x φ'(w·x)(y − f)v."""
    n, eta, y = 16, 0.3, 2.0
    model = network(mlp([n], 1, "tanh"), (3,), MeanField())
    params = jax.jit(model.init)(jax.random.key(0))
    w, v = np.asarray(params[0]["weight"]).T, np.asarray(params[2]["weight"])[:, 0]
    x = X[0] / np.sqrt(3)
    h = w @ x
    f = np.mean(v * np.tanh(h))
    residual = y - f
    np.testing.assert_allclose(model.apply(params, jnp.asarray(X[:1]))[0, 0], f, rtol=1e-12)
    trained = jax.jit(lambda p: train(model, p, optax.sgd(eta), X[:1], y))(params)
    np.testing.assert_allclose(
        trained[2]["weight"][:, 0], v + eta * residual * np.tanh(h), rtol=1e-11
    )
    expected = w + eta * residual * np.outer(v * (1 - np.tanh(h) ** 2), x)
    np.testing.assert_allclose(trained[0]["weight"].T, expected, rtol=1e-11)


def test_mean_field_has_no_hidden_weights():
    with pytest.raises(ValueError, match=r"MeanField is for one hidden layer.*MuP continues it"):
        network(mlp([4, 4]), (3,), MeanField())


@pytest.mark.parametrize(
    ("parametrization", "adam", "exponent"),
    [
        (NTK(), False, -0.5),
        (HALF_WAY, False, -0.25),
        (MuP(), False, 0.0),
        (MUP_FOR_ADAM, True, 0.0),
    ],
)
def test_features_move_with_the_width_as_the_dichotomy_says(parametrization, adam, exponent):
    """Coordinate check: the last hidden pre-activations move as n⁻ʳ in one step, r of `regime`.

    The targets are Y away from the outputs that each network has at first, so that residuals are
    alike. With 2048/n networks of width n, slopes scatter by 0.014 over seeds: 5 times that.
    """
    widths = (64, 256, 1024)
    optimizer = optax.adam(0.1) if adam else optax.sgd(0.5)

    def change(width):
        model = network(mlp([width, width], 1, "tanh"), (3,), parametrization)

        def features(params):
            h = jnp.asarray(X)
            for index in (0, 2):
                h = jnp.tanh(h) if index else h
                h = (
                    model.parameters[index]["weight"].scaling.multiplier
                    * h
                    @ params[index]["weight"]
                )
            return h

        def squared_change(key):
            params = model.init(key)
            targets = model.apply(params, jnp.asarray(X)) + Y
            trained = train(model, params, optimizer, X, targets)
            return jnp.mean((features(trained) - features(params)) ** 2)

        keys = jax.random.split(jax.random.key(0), 2048 // width)
        return math.sqrt(float(jax.jit(jax.vmap(squared_change))(keys).mean()))

    slope = np.polyfit(np.log(widths), np.log([change(width) for width in widths]), 1)[0]
    assert slope == pytest.approx(exponent, abs=0.07)
    if not adam:
        assert -regime(parametrization).feature_exponent == pytest.approx(exponent)


@pytest.mark.parametrize("width", [4, 64])
def test_standard_tangent_kernel_grows_with_the_width(width):
    """Closed form, two layers, ReLU: E K(x, x) = n|x|²/2d + |x|²/2, against |x|²/d for NTK."""
    model = network(mlp([width]), (3,), Standard())
    x = jnp.asarray(X[:1])

    def kernel(key):
        gradient = jax.grad(lambda p: model.apply(p, x)[0, 0])(model.init(key))
        return jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]).sum()

    sample = jax.jit(jax.vmap(kernel))(jax.random.split(jax.random.key(0), 4000))
    norm = float(np.sum(X[0] ** 2))
    expected = width * norm / 6 + norm / 2
    assert abs(float(sample.mean()) - expected) < 4 * float(sample.std()) / math.sqrt(4000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NTK(weight_scale=0.0), "weight_scale must be positive and finite, got 0.0"),
        (lambda: MuP(bias_scale=math.nan), "bias_scale must be positive and finite, got nan"),
        (
            lambda: NTK().scaling("input", 0, 4),
            "fan-in and fan-out must be at least 1, got 0 and 4",
        ),
    ],
)
def test_bad_scales_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_scale_of_biases_needs_biases():
    """Zero biases are trained, and their scale multiplies them; without any it does nothing."""
    scales = NTK(bias_scale=0.3)
    for read in (
        lambda bias: network(mlp([2]), (3,), scales, bias),
        lambda bias: infinite_kernels(mlp([2]), jnp.ones((2, 3)), None, scales, bias),
    ):
        with pytest.raises(ValueError, match=r"bias_scale=0.3 has no effect .* bias=\"normal\""):
            read("none")
        read("zero")
    network(mlp([2]), (3,), NTK(weight_scale=2.0), "none")
