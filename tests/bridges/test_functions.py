"""Plain functions and models that take their parameters by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import theorylab
from theorylab.bridges import Bridged, bridge, from_function, from_huggingface
from theorylab.bridges.bridged import arguments, picked, plain
from theorylab.bridges.functions import joined, parted


def deep(params, x):
    """A network with a number of layers and a name among its parameters."""
    for _ in range(params["depth"]):
        x = jnp.tanh(x @ params["weight"])
    return {"features": x, "name": params["name"]}


PARAMS = {"weight": np.array([[0.5, -0.2], [0.1, 0.9]]), "depth": 2, "name": "deep", "shift": 1.5}
X = jnp.array([[1.0, -1.0], [0.5, 2.0]])


def test_leaves_that_cannot_be_trained_are_held():
    """Oracle: the function itself."""
    network = from_function(deep, PARAMS, outputs="features")
    assert {name for name, leaf in network.params.items() if leaf is not None} == {
        "weight",
        "shift",
    }
    assert network.held == {"['depth']": 2}
    np.testing.assert_allclose(network.apply(network.params, X), deep(PARAMS, X)["features"])
    assert theorylab.ntk(network.apply, network.params, X).shape == (2, 2)


def test_a_tree_is_put_together_again():
    """Oracle: the tree that was taken apart."""
    kept, rest = parted(PARAMS)
    whole = joined(kept, rest)
    assert whole.keys() == PARAMS.keys()
    assert (whole["depth"], whole["name"], float(whole["shift"])) == (2, "deep", 1.5)


class Model:
    """Called like the models of transformers in Flax."""

    params: dict

    def __init__(self):
        self.params = {"rows": jnp.arange(8.0).reshape(4, 2)}

    def __call__(self, input_ids, attention_mask=None, params=None, train=True, deep=False):
        assert params is not None
        rows = params["rows"][input_ids] * (0 if train else 1) * (2 if deep else 1)
        mask = jnp.ones(input_ids.shape) if attention_mask is None else attention_mask
        return {"logits": (rows * mask[..., None]).sum(1), "cache": None}


def test_a_model_with_its_parameters_by_name():
    """Oracle: sums of rows by hand; in training mode all would be 0."""
    network = from_huggingface(Model())
    batch = {"input_ids": jnp.array([[1, 3]]), "attention_mask": jnp.array([[True, False]])}
    np.testing.assert_array_equal(network.apply(network.params, batch), [[2, 3]])
    twice = from_huggingface(Model(), {"rows": jnp.ones((4, 2))}, deep=True)
    np.testing.assert_array_equal(twice.apply(twice.params, jnp.array([[1, 3]])), [[4, 4]])
    with pytest.raises(ValueError, match="params must be given"):
        from_huggingface(lambda ids, params: ids)


def test_bridge_takes_a_function():
    """Oracle: from_function."""
    network = bridge(deep, PARAMS, outputs=lambda f: f["features"])
    np.testing.assert_allclose(network.apply(network.params, X), deep(PARAMS, X)["features"])


def test_a_record_prints_its_sizes():
    """Oracle: counted by hand."""
    network = Bridged(jnp.matmul, {"a": jnp.ones((2, 3)), "b": jnp.ones(1)}, {"mean": jnp.ones(2)})
    assert repr(network) == "Bridged(2 arrays with 7 parameters; held: 1 array)"


def test_what_a_network_returns_becomes_plain():
    """Oracle: dictionaries and tuples by hand."""
    assert plain({"a": [1, None], "b": None}) == {"a": (1, None)}
    assert picked((1, 2), 1) == 2
    assert arguments([1, 2]) == ((1, 2), {})
    with pytest.raises(ValueError, match=r"returns, \['a'\], got 'b'"):
        picked({"a": 1}, "b")


@pytest.mark.parametrize(
    ("function", "params", "error", "words"),
    [
        (3, {}, TypeError, "function must be called with"),
        (deep, {"depth": 2}, ValueError, "floating parameters, got none"),
        (deep, {"weight": jnp.array([jnp.inf])}, ValueError, r"NaN or infinity at \['weight'\]"),
    ],
)
def test_what_is_no_network_is_refused(function, params, error, words):
    """Oracle: the rules that the error quotes."""
    with pytest.raises(error, match=words):
        from_function(function, params)


def test_gradients_have_the_tree_of_params():
    """Oracle: the tree."""
    network = from_function(deep, PARAMS, outputs="features")
    gradient = jax.grad(lambda params: network.apply(params, X).sum())(network.params)
    assert jax.tree.structure(gradient) == jax.tree.structure(network.params)
