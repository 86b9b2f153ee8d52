"""Modules of Equinox: at inference, mapped over the batch, with and without a state."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import theorylab
from theorylab.bridges import bridge, from_equinox

KEYS = jax.random.split(jax.random.key(0), 4)
X = jax.random.normal(jax.random.key(1), (5, 3))


def test_dropout_is_off_and_the_function_is_mapped():
    """Oracle: the layers by hand."""
    first, second = eqx.nn.Linear(3, 8, key=KEYS[0]), eqx.nn.Linear(8, 2, key=KEYS[1])
    layers = [first, eqx.nn.Lambda(jnp.tanh), eqx.nn.Dropout(0.5), second]
    network = from_equinox(eqx.nn.Sequential(layers))
    expected = jax.vmap(lambda x: second(jnp.tanh(first(x))))(X)
    np.testing.assert_allclose(network.apply(network.params, X), expected)
    assert theorylab.ntk(network.apply, network.params, X).shape == (5, 5)
    leaves = jax.tree.leaves(network.params)
    assert [leaf.shape for leaf in leaves] == [(8, 3), (8,), (2, 8), (2,)]


class Normed(eqx.Module):
    """A linear layer and batch normalisation, with a state."""

    layer: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __call__(self, x, state, scale=1.0):
        """The outputs and the new state."""
        found, state = self.norm(self.layer(x), state)
        return {"scaled": scale * found, "plain": found}, state


def normed():
    """A module with its state after one batch."""
    layer = eqx.nn.Linear(3, 4, key=KEYS[2])
    module, state = eqx.nn.make_with_state(Normed)(
        layer, eqx.nn.BatchNorm(4, axis_name="batch", mode="ema")
    )
    mapped = jax.vmap(module, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    _, state = mapped(X, state)
    return module, state


def test_a_state_is_held():
    """Oracle: one input at a time, at inference, with the same state."""
    module, state = normed()
    network = from_equinox(module, state, outputs="plain")
    still = eqx.nn.inference_mode(module)
    expected = jnp.stack([still(x, state)[0]["plain"] for x in X])
    np.testing.assert_allclose(network.apply(network.params, X), expected, rtol=1e-12)
    alone = network.apply(network.params, X[:1])
    np.testing.assert_allclose(alone, expected[:1], rtol=1e-12)
    assert any(name.startswith("state") for name in network.held)


def test_several_inputs_come_by_place():
    """Oracle: a second argument scales the outputs."""
    module, state = normed()
    still = eqx.nn.inference_mode(module)

    class Scaled(eqx.Module):
        inner: Normed

        def __call__(self, x, scale, *, key):
            return self.inner(x, state, scale)[0]["scaled"]

    network = bridge(Scaled(still))
    scales = jnp.arange(5.0)
    expected = jnp.stack([s * still(x, state)[0]["plain"] for x, s in zip(X, scales, strict=True)])
    np.testing.assert_allclose(network.apply(network.params, (X, scales)), expected, rtol=1e-12)


class Counted(eqx.Module):
    """Whole numbers beside the weights."""

    weight: jax.Array
    order: jax.Array

    def __call__(self, x):
        """A permuted product."""
        return (self.weight @ x)[self.order]


def test_whole_numbers_are_held():
    """Oracle: by hand."""
    network = from_equinox(Counted(jnp.eye(3), jnp.array([2, 0, 1])))
    assert [leaf.tolist() for leaf in network.held.values()] == [[2, 0, 1]]
    np.testing.assert_array_equal(network.apply(network.params, X), X[:, [2, 0, 1]])


@pytest.mark.parametrize("module", [3, eqx.nn.Linear, jnp.tanh])
def test_what_is_no_module_is_refused(module):
    """Oracle: the rule that the error quotes."""
    with pytest.raises(TypeError, match=r"module must be an equinox\.Module"):
        from_equinox(module)
