from dataclasses import dataclass

import pytest

from theorylab.experiments.checks import refuse_classes, refuse_negative


@dataclass(frozen=True)
class Config:
    sizes: tuple[int, ...] = (1, 0)
    width: int = 3
    rate: float = -0.5
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
