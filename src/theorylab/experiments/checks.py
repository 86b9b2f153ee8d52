"""What every config refuses: counts below zero, named by their field."""

from dataclasses import fields
from typing import Any


def refuse_negative(config: Any) -> None:
    """Raise if a whole number of a config, or one of several, is negative; the seed may be.

    Args:
        config: A dataclass.

    Example:
        >>> from dataclasses import make_dataclass
        >>> refuse_negative(make_dataclass("Config", ["width"])(-1))
        Traceback (most recent call last):
        ValueError: width must not be negative, got -1.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        counts = value if isinstance(value, tuple) else (value,)
        negative = any(isinstance(count, int) and count < 0 for count in counts)
        if negative and field.name != "seed":
            raise ValueError(f"{field.name} must not be negative, got {value}.")


def refuse_classes(classes: tuple[int, ...]) -> None:
    """Raise unless these are two different classes among ten.

    Args:
        classes: Those to tell apart.

    Example:
        >>> refuse_classes((3, 3))
        Traceback (most recent call last):
        ValueError: classes must be two different ones from 0 to 9, got (3, 3).
    """
    if len(classes) != 2 or len(set(classes)) != 2 or not set(classes) <= set(range(10)):
        raise ValueError(f"classes must be two different ones from 0 to 9, got {classes}.")
