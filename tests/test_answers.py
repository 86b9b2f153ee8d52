"""Answers are frozen records that JAX can map, and that keep what is fixed."""

import dataclasses

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


def test_paths_of_leaves_are_the_names_of_fields():
    """Oracle: the names, written out."""
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(pair())]
    assert paths == [".values", ".size"]
