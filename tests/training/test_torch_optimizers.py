"""PyTorch's optimisers: the recurrences of its documentation, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.training import torch_optimizer
from theorylab.training.torch_optimizers import select_optimizer

NAMES = ("sgd", "momentum", "adadelta", "adagrad", "rmsprop", "adam")
RATE, NUM_STEPS = 0.3, 4
# Gradients of all sizes, down to where 10⁻⁸ and 10⁻⁶ matter.
GRADIENTS = np.random.default_rng(0).normal(size=(NUM_STEPS, 5)) * [1e2, 1.0, 1e-2, 1e-6, 1e-9]


def by_hand(name):
    """The weights after every step, from 0."""
    w, u, v, a = np.zeros((4, 5))
    weights = []
    for step, g in enumerate(GRADIENTS, start=1):
        match name:
            case "sgd":
                move = g
            case "momentum":
                u = move = 0.9 * u + g
            case "adadelta":
                v = 0.9 * v + 0.1 * g**2
                move = g * np.sqrt(a + 1e-6) / np.sqrt(v + 1e-6)
                a = 0.9 * a + 0.1 * move**2
            case "adagrad":
                v = v + g**2
                move = g / (np.sqrt(v) + 1e-10)
            case "rmsprop":
                v = 0.99 * v + 0.01 * g**2
                move = g / (np.sqrt(v) + 1e-8)
            case "adam":
                u, v = 0.9 * u + 0.1 * g, 0.999 * v + 0.001 * g**2
                move = u / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
            case _:
                raise ValueError(f"no formula for {name}")
        w = w - RATE * move
        weights.append(w)
    return np.array(weights)


@jax.jit
def weights_of(index, gradients):
    """The weights after every step, from 0, with the optimiser of this number."""
    optimizer = select_optimizer([torch_optimizer(name, RATE) for name in NAMES], index)

    def step(state, gradient):
        params, memory = state
        updates, memory = optimizer.update(gradient, memory, params)
        params = optax.apply_updates(params, updates)
        return (params, memory), params

    start = jnp.zeros(5)
    return jax.lax.scan(step, (start, optimizer.init(start)), gradients)[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_recurrence_is_that_of_the_documentation(name):
    """Oracle: NumPy. Adagrad's 10⁻¹⁰ stands elsewhere, which matters as gradients come near it."""
    weights = np.asarray(weights_of(NAMES.index(name), jnp.asarray(GRADIENTS)))
    expected = by_hand(name)
    tolerances = 1e-9 * np.abs(expected)
    if name == "adagrad":  # its steps are all about as large as the learning rate
        tolerances = RATE * np.array([1e-9, 1e-8, 1e-6, 1e-2, 0.5])[None]
    assert np.all(np.abs(weights - expected) <= tolerances)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="learning_rate must be positive, got 0"):
        torch_optimizer("adam", 0.0)
    with pytest.raises(ValueError, match="needs at least one optimizer, got none"):
        select_optimizer([], 0)
