"""Answers are written shortly: numbers with their errors, arrays by shape and range."""

import html
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.answers.digits import number
from theorylab.answers.text import as_html, described, with_error
from theorylab.curvature import Sharpness
from theorylab.numerics.spectra import Eigenpairs


def pairs(k: int) -> Eigenpairs:
    values = jnp.arange(k, 0, -1, dtype=float)
    return Eigenpairs(values, jnp.ones((k, 10)), jnp.full(k, 2e-7))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (2.56, 2e-6, "2.56 ± 2e-6"),
        (2.5634872, 2e-6, "2.563487 ± 2e-6"),
        (2.5634872, 2.1e-6, "2.563487 ± 3e-6"),  # rounded up: a bound still holds
        (-1234.56, 12.0, "-1235 ± 12"),
        (1.2345e9, 3e5, "1.2345e9 ± 300000"),
        (0.0, 0.5, "0 ± 0.5"),
        (1.0, math.inf, "1 ± ∞"),
        (math.nan, math.nan, "NaN ± NaN"),
        (1 / 3, 0.0, "0.333333333333333 ± 0"),
        (9.99, 0.0996, "9.99 ± 0.1"),
    ],
)
def test_a_number_ends_where_its_error_begins(value, error, text):
    """Oracle: written by hand."""
    assert with_error(value, error) == text


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_right_to_the_error(seed):
    """Oracle: the text read back, by `float`: off by less than the error, which is not smaller."""
    random = np.random.default_rng(seed)
    value, error = random.normal(), 10.0 ** random.uniform(-9, 0)
    written, margin = map(float, with_error(value, error).split(" ± "))
    assert abs(written - value) <= 0.5 * error * (1 + 1e-9)
    assert error * (1 - 1e-5) <= margin <= 2 * error


def test_an_answer_is_short_however_large_its_arrays_are():
    """Oracle: written by hand; a line of at most 200 letters."""
    assert repr(pairs(2)) == (
        "Eigenpairs(values=[2 ± 2e-7, 1 ± 2e-7], vectors=float64[2, 10] in [1, 1])"
    )
    assert "values=float64[5000] in [1, 5000] ± at most 2e-7" in repr(pairs(5000))
    assert len(repr(pairs(5000))) < 200


def test_an_answer_has_words_while_it_is_traced_and_mapped():
    """Oracle: shapes and types, written by hand."""
    seen = []
    found = Sharpness(jnp.array(2.5), jnp.array(1e-3), jnp.array(1e-3))
    jax.make_jaxpr(lambda answer: seen.append(repr(answer)))(found)
    assert seen == ["Sharpness(value=float64, residual=float64)"]
    many = jax.vmap(lambda value: Sharpness(value, 0.1 * value, 0.1 * value))(jnp.arange(1.0, 9.0))
    assert (
        repr(many)
        == "Sharpness(value=float64[8] in [1, 8] ± at most 0.8, residual=float64[8] in [0.1, 0.8])"
    )
    assert repr(jax.eval_shape(lambda: found)) == "Sharpness(value=float64, residual=float64)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([True, False] * 5), "bool[10], 5 true"),
        (np.array([np.nan, 1.0, np.inf] * 5), "float64[15] in [1, 1], 10 not finite"),
        (np.zeros((0, 3)), "float64[0, 3]"),
        (jnp.ones((3, 3), jnp.bfloat16), "bfloat16[3, 3] in [1, 1]"),
        (jax.random.split(jax.random.key(0), 3), "key<fry>[3]"),
        ({"weight": jnp.ones((2, 3)), "bias": jnp.ones(3)}, "dict of 2 arrays with 9 entries"),
        (None, "None"),
        ("word " * 100, f"'{'word ' * 11}wor…"),
        (np.int32(7), "7"),
    ],
)
def test_a_field_is_told_whatever_is_in_it(value, text):
    """Oracle: written by hand."""
    assert described(value) == text


def test_html_shows_words_as_they_are():
    """Oracle: Python's own escaping; no colour of its own that only one theme could show."""
    evil = "<script>alert('1')</script>"
    page = as_html(evil, {evil: evil}, {})
    assert "<script>" not in page
    assert page.count(html.escape(evil)) == 3  # caption, name, value
    assert "#" not in page.replace("&#x27;", "")
    found = Sharpness(jnp.array(2.56), jnp.array(2e-6), jnp.array(2e-6))
    assert found._repr_html_().count("2.56 ± 2e-6") == 1


def test_whole_numbers_are_whole_and_large_ones_have_exponents():
    """Oracle: written by hand."""
    told = [number(value) for value in (1e5, 123456.7, -2e-5, 0.001234567)]
    assert told == ["100000", "123457", "-2e-5", "0.001235"]
