import dataclasses

import pytest

from theorylab.models import (
    Activation,
    AvgPool,
    BatchNorm,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    Serial,
    cnn,
    densenet,
    mlp,
)
from theorylab.models.architecture import check_sizes

RELU = Activation("relu")


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (Dense(5), (3,), (5,)),
        (Dense(5), (8, 6, 3), (8, 6, 5)),
        (Conv(5, (3, 3)), (8, 6, 2), (6, 4, 5)),
        (Conv(5, (3,), (2,), "same"), (9, 2), (5, 5)),
        (Conv(5, (3,), (2,), "circular"), (9, 2), (5, 5)),
        (AvgPool((2, 2)), (8, 6, 2), (4, 3, 2)),
        (AvgPool((2,), (1,)), (8, 2), (7, 2)),
        (GlobalPool(), (8, 6, 2), (2,)),
        (GlobalPool(), (2,), (2,)),
        (Flatten(), (8, 6, 2), (96,)),
        (RELU, (8, 6, 2), (8, 6, 2)),
        (LayerNorm(), (3,), (3,)),
        (Residual(Dense(3)), (3,), (3,)),
        (Residual(Dense(4), Dense(4)), (3,), (4,)),
        (Concatenate(Dense(4)), (3,), (7,)),
        (Concatenate(Conv(4, (3, 3), padding="same")), (5, 5, 2), (5, 5, 6)),
        (mlp([7, 8], 2), (3,), (2,)),
        (densenet([7, 8], 2), (3,), (2,)),
        (cnn([7, 8], (3, 3), 2), (5, 5, 1), (2,)),
        (Serial(), (3,), (3,)),
    ],
)
def test_shapes(layer, shape, expected):
    assert layer.output_shape(shape) == expected


def test_an_architecture_is_a_value():
    """Equal when equal, hashable, frozen: it can be a key, or stand in a config."""
    assert mlp([8]) == Serial(Dense(8), RELU, Dense(1))
    assert hash(mlp([8])) == hash(mlp([8]))
    assert mlp([8]) != mlp([9])
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dense(8).width = 9  # pyright: ignore[reportAttributeAccessIssue]
    assert eval(repr(densenet([4]))) == densenet([4])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(0), "width must be at least 1, got 0"),
        (lambda: Conv(-1, (3,)), "channels must be at least 1, got -1"),
        (lambda: Conv(1, ()), r"window must have at least one axis, got \(\)"),
        (lambda: Conv(1, (0,)), "window must be at least 1, got 0"),
        (lambda: check_sizes("widths", [8, 32.0]), r"widths must be a whole number, got 32\.0"),
        (lambda: check_sizes("window", 3), r"window must be a tuple .* such as \(3,\), got 3"),
        (lambda: check_sizes("window", "33"), r"window must be a tuple .*, got '33'"),
        (lambda: AvgPool((2, 2), (1,)), r"one number per axis of \(2, 2\), got \(1,\)"),
        (lambda: AvgPool((2,), (0,)), "strides must be at least 1, got 0"),
        (lambda: Activation("rulu"), "got 'rulu'. Nearest: relu"),
        (lambda: LayerNorm(epsilon=-1.0), "epsilon must be at least 0, got -1.0"),
        (lambda: LayerNorm(axes=()), r"axes must have at least one axis, got \(\)"),
        (lambda: BatchNorm(epsilon=-1.0), "epsilon must be at least 0, got -1.0"),
    ],
)
def test_a_bad_layer_is_refused_when_it_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (Dense(5), (), r"Dense needs inputs with a channel axis, got shape \(\)"),
        (Conv(5, (3, 3)), (64,), r"needs inputs with 2 position axes .* got shape \(64,\)"),
        (AvgPool((9, 9)), (8, 8, 1), r"at least the window \(9, 9\), got \(8, 8\)"),
        (LayerNorm(axes=(0, 3)), (8, 8, 1), r"axes of inputs .*\(8, 8, 1\), got \(0, 3\)"),
        (LayerNorm(axes=(0, -2)), (8, 1), r"must be different axes of .*, got \(0, -2\)"),
        (Residual(Dense(4)), (3,), r"one shape, got \(4,\) and \(3,\)"),
        (Concatenate(Flatten()), (4, 4, 1), r"keeps the positions, got \(4, 4, 1\) in and \(16,\)"),
        (Serial(Dense(8), Residual(Dense(9))), (3,), r"one shape, got \(9,\) and \(8,\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer.output_shape(shape)
