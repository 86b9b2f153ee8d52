"""Modules of Flax: Linen with its variables, and NNX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.bridges import bridge, from_flax

nn = pytest.importorskip("flax.linen", reason="needs Flax; .ci/run has an environment with it")
nnx = pytest.importorskip("flax.nnx", reason="needs Flax; .ci/run has an environment with it")

X = jax.random.normal(jax.random.key(1), (5, 3), jnp.float32)


class Network(nn.Module):
    """Batch normalisation and dropout, in training mode unless told otherwise."""

    @nn.compact
    def __call__(self, x, train=True, scale=1.0):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x))
        x = nn.Dropout(0.5, deterministic=not train)(nn.relu(x))
        return {"scores": scale * nn.Dense(2)(x), "hidden": x}


@pytest.fixture(scope="module")
def variables():
    found = Network().init({"params": jax.random.key(0), "dropout": jax.random.key(2)}, X)
    statistics = jax.tree.map(lambda leaf: leaf + 0.3, found["batch_stats"])
    return {**found, "batch_stats": statistics}


def test_linen_is_evaluated_with_its_statistics(variables):
    """Oracle: the module with train=False. The switch is found in the signature."""
    network = from_flax(Network(), variables, outputs="scores")
    expected = Network().apply(variables, X, train=False)["scores"]
    np.testing.assert_array_equal(network.apply(network.params, X), expected)
    np.testing.assert_allclose(network.apply(network.params, X[:1]), expected[:1], rtol=1e-5)
    assert set(network.params) == {"Dense_0", "BatchNorm_0", "Dense_1"}
    assert len(network.held) == 2


def test_arguments_are_passed_on(variables):
    """Oracle: twice the scores."""
    network = bridge(Network(), variables, outputs="scores")
    twice = from_flax(Network(), variables, outputs="scores", scale=2.0)
    expected = 2 * network.apply(network.params, X)
    np.testing.assert_allclose(twice.apply(twice.params, X), expected, rtol=1e-6)


def test_parameters_alone_will_do():
    """Oracle: the module."""
    module = nn.Dense(2)
    found = module.init(jax.random.key(0), X)
    network = from_flax(module, found["params"])
    np.testing.assert_array_equal(network.apply(network.params, X), module.apply(found, X))


class Layers(nnx.Module):
    """The same in NNX."""

    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(3, 8, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)])
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.layers[1](self.drop(nnx.relu(self.norm(self.layers[0](x)))))


def test_nnx_is_evaluated_and_unchanged():
    """Oracle: a copy of the module in evaluation mode."""
    module = Layers(nnx.Rngs(0))
    module.norm.mean[...] = module.norm.mean[...] + 0.3
    network = from_flax(module)
    assert not module.drop.deterministic
    assert not module.norm.use_running_average
    copy = nnx.clone(module)
    copy.eval()
    np.testing.assert_allclose(network.apply(network.params, X), copy(X), rtol=1e-6)
    assert network.params["layers"][0]["kernel"].shape == (3, 8)
    assert "['norm']['mean']" in network.held


def test_nnx_can_be_differentiated_and_forgets_its_module():
    """Oracle: the gradient of NNX's own, from before the module was changed."""
    module = Layers(nnx.Rngs(0))
    network = bridge(module)
    copy = nnx.clone(module)
    copy.eval()
    expected = nnx.grad(lambda module: (module(X) ** 2).sum())(copy)
    module.layers[0].kernel[...] = jnp.zeros((3, 8), jnp.float32)
    module.norm.mean[...] = jnp.ones(8, jnp.float32)
    found = jax.jit(jax.grad(lambda params: (network.apply(params, X) ** 2).sum()))(network.params)
    leaves = jax.tree.leaves(nnx.to_pure_dict(expected))
    for one, other in zip(jax.tree.leaves(found), leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("module", "variables", "error", "words"),
    [
        (jnp.tanh, None, TypeError, "module must be a module of Flax"),
        (Network, None, TypeError, "got the class Network"),
        (Network(), None, ValueError, "variables of a Linen module must be given"),
        (Layers(nnx.Rngs(0)), {"params": 1}, ValueError, "variables must be left out"),
    ],
)
def test_what_is_no_module_is_refused(module, variables, error, words):
    """Oracle: the rules that the error quotes."""
    with pytest.raises(error, match=words):
        from_flax(module, variables)
