"""Answers as tables have one row for each entry of their first array."""

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import Sharpness
from theorylab.numerics.spectra import Eigenpairs


def test_a_spectrum_has_a_row_for_each_rank():
    """Oracle: the arrays themselves; vectors, of another shape, are left out."""
    found = Eigenpairs(jnp.array([3.0, 1.0]), jnp.ones((2, 5)), jnp.array([0.1, 0.2]))
    frame = found.to_pandas()
    assert list(frame) == ["rank", "values", "residuals"]
    np.testing.assert_array_equal(frame["rank"], [0, 1])
    np.testing.assert_array_equal(frame["values"], [3.0, 1.0])
    np.testing.assert_array_equal(frame["residuals"], [0.1, 0.2])


def test_a_mapped_answer_has_a_row_for_each_of_its_parts():
    """Oracle: the entry that a row names."""
    top = jnp.array([3.0, 1.0])
    mapped = jax.vmap(lambda scale: Eigenpairs(scale * top, jnp.ones((2, 5)), jnp.ones(2)))
    frame = mapped(jnp.arange(3.0)).to_pandas()
    assert list(frame)[:2] == ["batch", "rank"]
    rows = list(zip(frame["batch"], frame["rank"], frame["values"], strict=True))
    assert rows == [
        (batch, rank, batch * (3.0, 1.0)[rank]) for batch in range(3) for rank in (0, 1)
    ]


def test_a_scalar_answer_is_one_row():
    """Oracle: its numbers."""
    frame = Sharpness(jnp.array(2.5), jnp.array(0.1)).to_pandas()
    assert frame.to_dict("records") == [{"value": 2.5, "residual": 0.1}]


def test_a_table_without_pandas_says_what_to_install(monkeypatch):
    """Oracle: an import that fails, as where pandas is not installed."""
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        Sharpness(jnp.array(2.5), jnp.array(0.1)).to_pandas()


def test_a_traced_answer_has_no_table():
    """Oracle: the message, written out."""
    found = Sharpness(jnp.array(2.5), jnp.array(0.1))
    with pytest.raises(ValueError, match="value must have entries to be tabulated"):
        jax.make_jaxpr(lambda answer: len(answer.to_pandas()))(found)
