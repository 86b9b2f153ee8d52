"""Answers are frozen records that JAX can map, and that keep what is fixed."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from theorylab.answers import Answer, fixed


class Pair(Answer):
    """Two arrays, a word, and how they came about."""

    values: Array
    size: Array
    word: str = "pair"
    how: tuple[str, ...] = fixed(default=("by", "hand"))


def pair() -> Pair:
    return Pair(jnp.arange(3.0), jnp.array(2.0), word="two")


def test_an_answer_passes_through_jit_and_vmap():
    """Oracle: the same arithmetic on the arrays themselves."""
    doubled = jax.jit(lambda answer: jax.tree.map(lambda leaf: 2 * leaf, answer))(pair())
    np.testing.assert_array_equal(doubled.values, [0, 2, 4])
    assert (doubled.word, doubled.how) == ("two", ("by", "hand"))
    many = jax.vmap(lambda scale: pair().replace(size=scale))(jnp.arange(4.0))
    np.testing.assert_array_equal(many.size, np.arange(4.0))
    assert many.values.shape == (4, 3)


def test_an_answer_cannot_be_changed():
    """Oracle: the contract of a frozen dataclass."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair().word = "three"  # type: ignore[misc]
    assert pair().replace(word="three").word == "three"


def test_replace_names_a_field_that_is_not_there():
    """Oracle: the message, written out."""
    with pytest.raises(TypeError, match=r"fields of Pair, \['values', .*\], got \['length'\]"):
        pair().replace(length=3)


def test_paths_of_leaves_are_the_names_of_fields():
    """Oracle: the names, written out."""
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(pair())]
    assert paths == [".values", ".size"]


def test_an_answer_is_unpacked_in_the_order_of_its_fields():
    """Oracle: the fields by name."""
    values, size, word, how = found = pair()
    assert values is found.values
    assert size is found.size
    assert (word, how) == ("two", ("by", "hand"))


def test_a_class_that_tells_about_a_field_it_does_not_have_is_refused():
    """Oracle: the message, written out."""
    with pytest.raises(TypeError, match=r"tells about: \['deviation'\]"):

        class Wrong(Answer, errors={"value": "deviation"}):
            value: Array


def test_importing_the_package_loads_neither_jax_nor_what_draws_and_tabulates():
    """Oracle: the modules that a new process has after the import; an answer loads JAX alone."""
    script = (
        "import sys, theorylab.answers as answers\n"
        "heavy = {'jax', 'matplotlib', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "answers.Answer\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "['jax']"]
