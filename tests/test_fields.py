"""The domains of settings: every type, every way to be wrong."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from theorylab.experiments.tree import EXPERIMENTS
from theorylab.fields import (
    AboveOne,
    Checked,
    Classes,
    Count,
    Fraction,
    Increasing,
    NonNegative,
    Odd,
    OpenFraction,
    Plural,
    Positive,
    Real,
    Seeded,
    Several,
    SeveralClasses,
    Whole,
    fitted,
    shape,
    within,
)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Whole, [0, 5, 2**31 - 1], [-1, 2**31, 1.0, True, "1", None]),
        (Count, [1, 7], [0, -3]),
        (Plural, [2], [1]),
        (Odd, [1, 3], [2, -1]),
        (Real, [-1.5, 0.0], [math.inf, math.nan, "a"]),
        (Positive, [1e-9, 2.0], [0.0, -1.0, math.inf, math.nan]),
        (NonNegative, [0.0], [-1e-9, math.nan]),
        (AboveOne, [1.5], [1.0, math.inf]),
        (Annotated[int, within(2, 64)], [2, 64], [1, 65, 2.5]),
        (Annotated[float, within(0.5)], [0.5, 1e9], [0.4, math.nan]),
        (Several[Annotated[int, within(2, 64)]], [(2,)], [(), (65,)]),
        (Fraction, [0.0, 1.0], [-0.1, 1.1]),
        (OpenFraction, [0.5], [0.0, 1.0]),
        (Several[Positive], [(1.0,)], [(), (0.0,), 1.0, (math.nan,), (1.0,) * 1001]),
        (Increasing[Count], [(1, 2)], [(1,), (2, 1), (1, 1), (0, 1), (1.5, 2.5)]),
        (Classes, [(3, 0)], [(3, 3), (3, 10), (1, 2, 3)]),
        (SeveralClasses, [(1, 2, 3)], [(1,), (1, 1)]),
        (Literal["relu", "erf"], ["erf"], ["tanh", 1]),
        (bool, [True], [1, "true"]),
        (str, ["any"], [1]),
    ],
)
def test_a_domain_takes_what_it_names_and_refuses_the_rest(hint, good, bad):
    for value in good:
        assert fitted("x", hint, value) == value
    for value in bad:
        with pytest.raises(ValueError, match=r"^x must be .*, got .*\.$"):
            fitted("x", hint, value)


def test_whole_numbers_are_floats_where_a_float_is_meant_and_lists_are_tuples():
    assert type(fitted("x", Positive, 3)) is float
    assert fitted("x", Several[Positive], [1, 2]) == (1.0, 2.0)


def test_an_error_is_one_line_however_long_the_value_is():
    with pytest.raises(ValueError, match="x must be one of a, b, got ") as caught:
        fitted("x", Literal["a", "b"], "two\nlines" + "c" * 1000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120


def test_types_that_no_flag_can_have_are_refused():
    for hint in (list[int], tuple[int, int], Literal[1, 2], dict):
        with pytest.raises(TypeError, match="a field must be"):
            shape(hint)


@dataclass(frozen=True)
class Settings(Seeded):
    width: Count = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width > 10 * self.num_seeds:
            raise ValueError("too wide")


def test_settings_are_checked_when_they_are_made():
    assert Settings(num_seeds=3).seed == 0
    with pytest.raises(ValueError, match="width must be a whole number, at least 1, got 0"):
        Settings(width=0)
    with pytest.raises(ValueError, match="too wide"):
        Settings(width=40, num_seeds=1)


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_config_refuses_what_its_fields_types_exclude(name):
    """A `__post_init__` that forgets to call its base would take anything."""
    config = EXPERIMENTS.load(name).Config
    if not issubclass(config, Checked):
        pytest.skip("its domains are checked in its own __post_init__")
    # Values of the right type for Python, which the checks of shapes under test let through.
    wrongs = {int: 2**31, float: math.nan}
    for field in EXPERIMENTS.entry(name).fields:
        empty_is_fine = field.shape.several and not field.shape.whole
        if field.shape.kind not in wrongs or empty_is_fine:
            continue
        wrong = () if field.shape.several else wrongs[field.shape.kind]
        with pytest.raises(ValueError, match=rf"^{field.name} must be "):
            config(**{field.name: wrong})
