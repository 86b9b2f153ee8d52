import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from theorylab.models import ACTIVATIONS, activation

POINTS = np.linspace(-3, 3, 7)  # 0 is among them

FORMULAS = {
    "identity": lambda z: z,
    "relu": lambda z: z * (z > 0),
    "leaky_relu": lambda z: np.where(z > 0, z, z / 100),
    "abs": np.abs,
    "sign": np.sign,
    "step": lambda z: np.heaviside(z, 0.5),
    "erf": special.erf,
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "sigmoid_like": lambda z: (1 + special.erf(z / 2.4020563531719796)) / 2,
    "gelu": lambda z: z * special.ndtr(z),
    "softplus": lambda z: np.log(1 + np.exp(z)),
    "swish": lambda z: z / (1 + np.exp(-z)),
    "sine": np.sin,
    "cosine": np.cos,
    "gaussian": lambda z: np.exp(-z * z),
    "exponential": np.exp,
    "rbf": lambda z: np.sin(np.sqrt(2) * z) + np.cos(np.sqrt(2) * z),
    "gabor": lambda z: np.sin(z) / np.exp(z * z),
    "square": lambda z: z * z,
    "cube": lambda z: z * z * z,
    "relu_squared": lambda z: z * z * (z > 0),
    "linear": lambda z: z,
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "silu": lambda z: z / (1 + np.exp(-z)),
}


def test_every_activation_has_an_oracle():
    assert FORMULAS.keys() == ACTIVATIONS.keys()


@pytest.mark.parametrize("name", FORMULAS)
def test_activation_is_its_formula(name):
    """Oracle: numpy and scipy."""
    np.testing.assert_allclose(
        activation(name)(jnp.asarray(POINTS)), FORMULAS[name](POINTS), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_divergence_is_not_hidden(name):
    """Whatever is not a number stays so; a ReLU by `where` would make it 0."""
    assert jnp.isnan(activation(name)(jnp.asarray(jnp.nan)))


@pytest.mark.parametrize(("name", "slope"), [("relu", 0), ("abs", 1), ("leaky_relu", 1)])
def test_derivatives_at_kinks_are_as_stated(name, slope):
    derivative = jax.grad(activation(name))
    assert derivative(0.0) == slope
    assert jax.grad(derivative)(0.0) == 0


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"got 'thanh'\. Nearest: tanh"):
        activation("thanh")
    with pytest.raises(ValueError, match=r"got '\?'\. Nearest: abs, cos, cosine"):
        activation("?")
