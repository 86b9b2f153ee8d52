"""Who needs pairs of positions, and what new weights make uncorrelated."""

import pytest

from theorylab.kernels.infinite.needs import is_fresh, needs_graphs, needs_pairs
from theorylab.models import (
    Activation,
    Aggregate,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    Residual,
    Serial,
)
from theorylab.models.architecture import Product
from theorylab.models.mixing import Upsample

RELU, CONV = Activation("relu"), Conv(1, (3,))


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Serial(CONV, RELU, Flatten()), False),
        (Serial(CONV, RELU, GlobalPool()), True),
        (Serial(CONV, AvgPool((2,)), Flatten()), True),
        (Serial(Conv(1, (3,), shared=False), GlobalPool()), False),
        (Serial(Residual(Serial(CONV, GlobalPool())), Flatten()), True),
        (Serial(Upsample((2,), "linear"), Flatten()), True),
        (Serial(Upsample((2,)), Flatten()), False),
        (Serial(Concatenate(CONV), GlobalPool()), True),
    ],
)
def test_pooling_needs_pairs_of_positions_and_flattening_does_not(network, expected):
    assert needs_pairs(network, wanted=False) is expected


def test_new_weights_make_outputs_fresh():
    assert is_fresh(Serial(RELU, Dense(1), GlobalPool()))
    assert not is_fresh(Serial(Dense(1), RELU))
    assert not is_fresh(Residual(Dense(1)))  # x comes through
    assert is_fresh(Residual(Dense(1), Dense(1)))
    assert is_fresh(Product(Dense(1)))
    assert not is_fresh(Concatenate(Dense(1)))


def test_graphs_are_needed_where_a_layer_has_none():
    assert needs_graphs(Serial(Dense(1), Residual(Aggregate())))
    assert not needs_graphs(Concatenate(Aggregate(((1.0,),))))
