"""Finite networks with layers of the user's."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models import Activation, Dense, Residual, Serial, network, summary
from theorylab.models.custom_layer import CustomLayer


@dataclass(frozen=True)
class Mine(CustomLayer):
    """Dense, with an offset, as a user would write it."""

    width: int
    outputs = "new"

    def output_shape(self, input_shape):
        return (*input_shape[:-1], self.width)

    def init(self, key, input_shape):
        weight = jax.random.normal(key, (input_shape[-1], self.width))
        return {"weight": weight, "offset": jnp.zeros((1, self.width))}

    def apply(self, params, x):
        return x @ params["weight"] + params["offset"].repeat(x.shape[0], axis=0)


def test_its_parameters_stand_among_the_others():
    """Oracle: the layers' own formulas, from the parameters of the network."""
    model = network(Serial(Mine(4), Activation("relu"), Residual(Mine(4)), Dense(2)), (3,))
    params = model.init(jax.random.key(0))
    assert jax.tree.structure(model.learning_rates(params)) == jax.tree.structure(params)
    first, inner, last = params[0], params[2]["branch"], params[3]
    assert not np.array_equal(first["weight"][:3], inner["weight"][:3])  # draws of their own
    x = jnp.ones((5, 3))
    hidden = jax.nn.relu(x @ first["weight"])
    expected = (hidden + hidden @ inner["weight"]) @ last["weight"] / 2
    np.testing.assert_allclose(model.apply(params, x), expected, rtol=1e-12)


def test_new_weights_make_a_wide_layer_and_may_be_the_last():
    """Oracle: the table of roles in `models.parts`."""
    after, before = Serial(Mine(4), Dense(2)), Serial(Dense(2), Mine(4))
    assert network(after, (3,)).parameters[1]["weight"].role == "output"
    assert network(before, (3,)).parameters[0]["weight"].role == "input"


def test_a_summary_names_them():
    told = summary(network(Serial(Mine(4), Dense(2)), (3,)).parameters)
    assert "0.weight   3 × 4    12  own" in told
    assert told.splitlines()[-1].split() == ["all", "24"]
    assert "weight" in summary(network(Mine(4), (3,)).parameters)


def test_outputs_of_another_shape_are_refused_in_words():
    class Wrong(Mine):
        def apply(self, params, x):
            return x

    model = network(Wrong(4), (3,))
    with pytest.raises(ValueError, match=r"apply of Wrong must give outputs of shape \(5, 4\)"):
        model.apply(model.init(jax.random.key(0)), jnp.ones((5, 3)))
