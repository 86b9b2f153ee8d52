from dataclasses import dataclass, make_dataclass

import pytest

from theorylab.experiments.checks import (
    count_fields,
    refuse_below,
    refuse_classes,
    refuse_negative,
    refuse_nonpositive,
)


@dataclass(frozen=True)
class Config:
    sizes: tuple[int, ...] = (1, 0)
    width: int = 3
    rate: float | tuple[float, ...] = -0.5
    name: str = "x"
    seed: int = -4


def test_negative_counts_are_named():
    refuse_negative(Config())
    with pytest.raises(ValueError, match="width must not be negative, got -1"):
        refuse_negative(Config(width=-1))
    with pytest.raises(ValueError, match=r"sizes must not be negative, got \(2, -1\)"):
        refuse_negative(Config(sizes=(2, -1)))


@pytest.mark.parametrize("classes", [(1,), (1, 1), (1, 2, 3), (3, 10), (-1, 3)])
def test_classes_are_two_of_ten(classes):
    refuse_classes((0, 9))
    with pytest.raises(ValueError, match="classes must be two different ones from 0 to 9, got"):
        refuse_classes(classes)


@pytest.mark.parametrize("sizes", [(), (2, 1), (float("nan"),)])
def test_what_is_too_small_is_named(sizes):
    refuse_below(Config(sizes=(2, 3)), 2, "width", "sizes")
    with pytest.raises(ValueError, match=r"sizes must be at least 2 each, got \("):
        refuse_below(Config(sizes=sizes), 2, "width", "sizes")
    with pytest.raises(ValueError, match="width must be at least 4, got 3"):
        refuse_below(Config(), 4, "width")


@pytest.mark.parametrize("rate", [0.0, -0.5, float("inf"), float("nan"), (), (1.0, 0.0)])
def test_what_is_not_positive_is_named(rate):
    refuse_nonpositive(Config(rate=0.5), "rate", "width")
    with pytest.raises(ValueError, match="rate must be positive, got "):
        refuse_nonpositive(Config(rate=rate), "rate")


def test_fields_that_count_are_found_by_their_name():
    made = make_dataclass("Made", ["width", "num_seeds", "number", "num_steps"])(1, 2, 3, 4)
    assert count_fields(made) == ("num_seeds", "num_steps")


def test_more_than_two_classes_may_be_allowed():
    refuse_classes((0, 4, 9), 10)
    with pytest.raises(ValueError, match="classes must be two to 10 different ones from 0 to 9"):
        refuse_classes((4,), 10)
