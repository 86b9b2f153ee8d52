"""What cannot be examined is refused before any work, on one line that says what must hold."""

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.checkup import examine
from theorylab.checkup.given import OPTIMIZERS
from theorylab.checkup.subject import subject_of
from theorylab.cli import commands

W = jnp.ones((3, 2))
X = jax.random.normal(jax.random.key(0), (5, 3))
Y = np.array([0, 1, 0, 1, 1])


def line(w, x):
    return x @ w


class Tensor:
    """An array of another library, on a device of its own."""

    dtype, shape, ndim, device = "torch.float32", (3, 2), 2, "meta"


class Ghost:
    """Knows its length, and refuses its entries."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("cannot copy out of a\nmeta tensor")


def deleted():
    array = jnp.ones((3, 2))
    array.delete()
    return array


BAD = {
    # the parameters
    "integers": ({"params": jnp.ones((3, 2), int)}, "params must hold floating arrays only"),
    "no params": ({"params": {}}, "params must hold at least one array, got an empty tree"),
    "None": ({"params": None}, "params must hold at least one array"),
    "words": ({"params": {"w": W, "act": "relu"}}, r"got str at \['act'\]"),
    "NaN": ({"params": W.at[0, 0].set(jnp.nan)}, "params must be finite, got NaN or infinity"),
    "torch": ({"params": Tensor()}, "params must hold arrays of JAX or NumPy, got a Tensor on met"),
    "shapes": ({"params": jax.ShapeDtypeStruct((3, 2), float)}, "got a ShapeDtypeStruct"),
    "deleted": ({"params": deleted()}, "got one that was deleted"),
    # the inputs
    "empty batch": ({"x": X[:0], "y": Y[:0]}, r"x must have shape .* with n >= 1, got \(0, 3\)"),
    "x list": ({"x": [[1.0, 2.0, 3.0]] * 5}, r"x\[0\]\[0\] must be an array"),
    "x words": ({"x": np.array([["a"] * 3] * 5)}, "x must hold real numbers"),
    "x None": ({"x": None}, "x must hold at least one array"),
    "x NaN": ({"x": X.at[0, 0].set(jnp.nan)}, "x must be finite"),
    "x torch": ({"x": Tensor()}, "x must hold arrays of JAX or NumPy, got a Tensor on meta"),
    # the targets
    "too many classes": ({"y": Y + 1}, "y must hold class numbers from 0 to 1"),
    "negative class": ({"y": Y - 1}, "y must hold class numbers from 0 to 1"),
    "values for classes": ({"y": np.ones(5)}, "y must be class numbers or rows of 2 prob"),
    "no probabilities": ({"y": np.ones((5, 2))}, "y must have rows that sum to 1"),
    "three columns": ({"y": np.ones((5, 3)), "loss": "mse"}, "y must have 2 columns"),
    "no signs": ({"y": np.full((5, 2), 3.0), "loss": "logistic"}, "y must hold ±1, or 0 and 1"),
    "y words": ({"y": ["a", "b"] * 2 + ["a"]}, "y must hold finite real numbers, got an array of"),
    "y None": ({"y": None}, "y must have a target for each of the 5 inputs"),
    "y short": ({"y": Y[:3]}, r"y must have a target for each of the 5 inputs.* \(3,\)"),
    "y ragged": ({"y": [[1, 2], [1], [1], [1], [1]]}, "y must be an array of numbers, got a list"),
    "y meta": ({"y": Ghost()}, "y must be an array of numbers, got a Ghost"),
    "y NaN": ({"y": np.full((5, 2), np.nan), "loss": "mse"}, "got NaN or infinity"),
    "y complex": ({"y": np.ones((5, 2)) * 1j, "loss": "mse"}, "got an array of complex128"),
    "loss": ({"loss": "crossentropy"}, "loss must be one of cross_entropy, mse, logistic"),
    "loss function": ({"loss": lambda f, y: 0.0}, "loss must be one of"),
    # the network
    "apply one": ({"apply": lambda w: w}, "apply must take these params and inputs"),
    "apply three": ({"apply": lambda w, x, key: x @ w}, "apply must take these params and inputs"),
    "apply swapped": ({"apply": lambda x, w: x @ w}, "apply must take these params and inputs"),
    "one input": ({"apply": lambda w, x: x.reshape(3) @ w}, r"give jax.vmap\(apply"),
    "batch statistics": (
        {"apply": lambda w, x: (x - x.mean(0, keepdims=True)) @ w},
        "apply must treat every input by itself",
    ),
    "positions": (
        {"apply": lambda w, x: jnp.stack([x @ w] * 4, 1)},
        r"apply must give outputs of shape \(n, k\) for 5 inputs, got \(5, 4, 2\). Reduce them",
    ),
    "no outputs": ({"apply": lambda w, x: (x @ w)[:, 0]}, "Give them a second axis with outputs="),
    "pair": ({"apply": lambda w, x: (x @ w, 1)}, "apply must give one array"),
    "NaN outputs": ({"apply": lambda w, x: jnp.nan * (x @ w)}, "apply must give finite outputs"),
    "classes": ({"apply": lambda w, x: (x @ w).astype(int)}, "apply must give real floating outp"),
    "complex": ({"apply": lambda w, x: 1j * (x @ w)}, "apply must give real floating outputs"),
    # what is known of the training
    "unknown": ({"learning_rat": 0.1}, "got learning_rat. Did you mean learning_rate?"),
    "rate array": ({"learning_rate": jnp.ones(3)}, r"got an array of shape \(3,\)"),
    "rate word": ({"learning_rate": "0.1"}, "learning_rate must be a positive number, got '0.1'"),
    "rate 0": ({"learning_rate": 0}, "learning_rate must be a positive number, got 0"),
    "rate NaN": ({"learning_rate": float("nan")}, "must be a positive number, got nan"),
    "rate infinite": ({"learning_rate": float("inf")}, "must be a positive number, got inf"),
    "rate True": ({"learning_rate": True}, "must be a positive number, got True"),
    "schedule": ({"learning_rate": lambda step: 0.1}, "A schedule has a value at a step"),
    "momentum": ({"momentum": 2.0}, r"momentum must be a number in \[0, 1\), got 2.0"),
    "batch size": ({"batch_size": 2.5}, "batch_size must be a whole number of at least 1, got 2.5"),
    "budget": ({"budget": -1}, "budget must be a positive number, got -1"),
    "optimizer": ({"optimizer": "Adam W"}, "optimizer must be one of sgd, .*, got 'Adam W'"),
    "optax": ({"optimizer": object()}, "optimizer must be one of sgd, .*, got a object"),
    "by_width": ({"by_width": 3}, "by_width must be a function, width ─► "),
    "initial shapes": ({"initial_params": W[:2]}, r"got \(2, 2\) where params have \(3, 2\)"),
    "initial tree": ({"initial_params": {"w": W}}, "initial_params must be a tree like params"),
    "initial NaN": ({"initial_params": jnp.nan * W}, "initial_params must be finite"),
    "checkpoint": ({"checkpoint": "run.ckpt"}, "checkpoint must hold floating arrays only"),
    "test alone": ({"x_test": X}, "x_test and y_test must be given together, got x_test alone"),
    "test lengths": ({"x_test": X, "y_test": Y[:2]}, "y_test must have a target for each of the 5"),
    "test shapes": (
        {"x_test": X[:, :2], "y_test": Y},
        "x_test must hold inputs of the shape of x",
    ),
    "test words": ({"x_test": X, "y_test": ["a"] * 5}, "y_test must hold finite real numbers"),
    # what is asked
    "row": ({"only": ["sharpnes"]}, "got 'sharpnes'. Did you mean sharpness?"),
    "no row": ({"only": []}, "only must name at least one row"),
    "forced": ({"force": ["sharpnes"]}, "force must name rows out of"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_examined_is_refused_on_one_line(name):
    """Oracle: the words, each written by hand; no measure was asked."""
    changes, words = BAD[name]
    given = {"apply": line, "params": W, "x": X, "y": Y} | changes
    first = [given.pop(each) for each in ("apply", "params", "x", "y")]
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        examine(*first, **given)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_numbers_of_arrays_become_numbers_of_python():
    known: Any = {"learning_rate": jnp.asarray(0.5), "batch_size": np.int64(3)}
    subject = subject_of(line, W, X, Y, jax.random.key(0), **known)
    assert (type(subject.learning_rate), subject.learning_rate) == (float, 0.5)
    assert (type(subject.batch_size), subject.batch_size) == (int, 3)


def test_held_out_targets_become_what_the_loss_takes():
    """Oracle: one-hot rows by NumPy."""
    subject = subject_of(line, W, X, Y, jax.random.key(0), x_test=X[:2], y_test=[1, 0])
    assert subject.y_test is not None
    np.testing.assert_array_equal(subject.y_test, np.eye(2)[[1, 0]])


def test_the_command_knows_the_same_optimizers():
    assert commands.OPTIMIZERS == OPTIMIZERS


DEVICES = """
import jax, jax.numpy as jnp
from theorylab.checkup.subject import subject_of
one, two = jax.devices()
w, x, y = jnp.ones((3, 2)), jnp.ones((5, 3)), jnp.zeros((5, 2))
def examined(params, x, **known):
    return subject_of(lambda w, x: x @ w, params, x, y, jax.random.key(0), loss="mse", **known)
put = jax.device_put
print(examined(put(w, two), put(x, two)).num_params, examined(put(w, two), x).num_params)
for given in [(put(w, two), put(x, one), {}), (put(w, two), x, {"checkpoint": put(w, one)})]:
    try:
        examined(given[0], given[1], **given[2])
    except ValueError as error:
        print(error)
"""


def test_arrays_on_two_devices_are_refused_in_words(monkeypatch):
    """Oracle: a process with two devices; on one of them, whichever, all is well."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    done = subprocess.run(
        [sys.executable, "-c", DEVICES], capture_output=True, text=True, check=True
    )
    fine, both, checkpoint = done.stdout.splitlines()
    assert fine == "6 6"
    assert "params and x must be on one device, got params on" in both
    assert "params and checkpoint must be on one device" in checkpoint


UNTYPED = """
import jax, jax.numpy as jnp
from theorylab.checkup import examine
w, x, y = jnp.ones((3, 2)), jnp.ones((5, 3)), jnp.zeros(5, int)
line = lambda w, x: x @ w
keys = jax.random.split(jax.random.key(0))
for apply, known in [
    (None, {}), (line, {"outputs": x}), (line, {"key": 0}), (line, {"key": keys}),
    (line, {"only": 3}),
]:
    try:
        examine(apply, w, x, y, **known)
    except (TypeError, ValueError) as error:
        print(error)
"""


def test_what_type_checkers_would_see_is_refused_in_words_without_them():
    """Oracle: a process of its own, in which nobody checks types."""
    done = subprocess.run(
        [sys.executable, "-c", UNTYPED], capture_output=True, text=True, check=True
    )
    assert [line.partition(", got")[0] for line in done.stdout.splitlines()] == [
        "apply must be a function (params, x) ─► outputs",
        "outputs must be a function of the outputs, such as lambda f: f[:, -1]",
        "key must be a random key, such as jax.random.key(0)",
        "key must be a random key, such as jax.random.key(0)",
        "only must be a list of names of rows",
    ]
