"""What configs refuse, named by the field.

    refuse_below(config, 1, "width", "num_seeds")    a field, or one of its entries, is smaller
    refuse_nonpositive(config, "learning_rate")      it is not a positive, finite number
    refuse_unordered(config, 2, "widths")            fewer, or they do not grow
    refuse_negative(config)                          any whole number but the seed is below 0
    refuse_classes(classes)                          these are not two or more of ten classes

`__post_init__` calls these, and then checks what is its own.
"""

import math
from dataclasses import fields
from typing import Any


def refuse_below(config: Any, least: int | float, *names: str) -> None:
    """Raise unless these fields are at least so large; of several numbers there must be one.

    Args:
        config: A dataclass.
        least: The least that is allowed, of every entry.
        names: Which fields.

    Example:
        >>> from dataclasses import make_dataclass
        >>> config = make_dataclass("Config", ["width", "depths"])(4, (3, 0))
        >>> refuse_below(config, 1, "width", "depths")
        Traceback (most recent call last):
        ValueError: depths must be at least 1 each, got (3, 0).
    """
    for name in names:
        value = getattr(config, name)
        several = isinstance(value, tuple)
        if not (value and all(each >= least for each in value) if several else value >= least):
            each = " each" if several else ""
            raise ValueError(f"{name} must be at least {least}{each}, got {value}.")


def refuse_nonpositive(config: Any, *names: str) -> None:
    """Raise unless these fields are positive and finite; of several numbers there must be one.

    Args:
        config: A dataclass.
        names: Which fields.

    Example:
        >>> from dataclasses import make_dataclass
        >>> refuse_nonpositive(make_dataclass("Config", ["ridge"])(0.0), "ridge")
        Traceback (most recent call last):
        ValueError: ridge must be positive, got 0.0.
    """
    for name in names:
        value = getattr(config, name)
        entries = value if isinstance(value, tuple) else (value,)
        if not entries or not all(0 < each < math.inf for each in entries):
            raise ValueError(f"{name} must be positive, got {value}.")


def refuse_unordered(config: Any, fewest: int, *names: str) -> None:
    """Raise unless these fields are so many numbers or more, each greater than the one before.

    Args:
        config: A dataclass.
        fewest: How many numbers there must be, at least.
        names: Which fields.

    Example:
        >>> from dataclasses import make_dataclass
        >>> refuse_unordered(make_dataclass("Config", ["widths"])((8, 4)), 2, "widths")
        Traceback (most recent call last):
        ValueError: widths must be two or more and grow, got (8, 4).
    """
    words = ("one", "two", "three", "four")
    for name in names:
        value = getattr(config, name)
        if len(value) < fewest or tuple(sorted(set(value))) != value:
            number = words[fewest - 1] if fewest <= len(words) else str(fewest)
            raise ValueError(f"{name} must be {number} or more and grow, got {value}.")


def count_fields(config: Any) -> tuple[str, ...]:
    """Name the fields that count something, `num_…`.

    Args:
        config: A dataclass.

    Example:
        >>> from dataclasses import make_dataclass
        >>> count_fields(make_dataclass("Config", ["width", "num_seeds"])(4, 6))
        ('num_seeds',)
    """
    return tuple(field.name for field in fields(config) if field.name.startswith("num_"))


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


def refuse_classes(classes: tuple[int, ...], most: int = 2) -> None:
    """Raise unless these are different classes among ten, two of them or more.

    Args:
        classes: Those to tell apart.
        most: How many may be.

    Example:
        >>> refuse_classes((3, 3))
        Traceback (most recent call last):
        ValueError: classes must be two different ones from 0 to 9, got (3, 3).
    """
    different = len(set(classes)) == len(classes) and set(classes) <= set(range(10))
    if not different or not 2 <= len(classes) <= most:
        number = "two" if most == 2 else f"two to {most}"
        raise ValueError(f"classes must be {number} different ones from 0 to 9, got {classes}.")


def refuse_batch_sizes(sizes: tuple[int, ...], num_train: int, exactly_two: bool = False) -> None:
    """Raise unless sizes increase from 1 on to at most the training set.

    Args:
        sizes: Of batches.
        num_train: The number of training samples.
        exactly_two: Whether there must be two of them, and no more.

    Example:
        >>> refuse_batch_sizes((50, 5), 100)
        Traceback (most recent call last):
        ValueError: batch_sizes must be two or more and increasing, got (50, 5).
    """
    increasing = len(sizes) >= 2 and min(sizes) >= 1 and list(sizes) == sorted(set(sizes))
    if not increasing or (exactly_two and len(sizes) != 2):
        number = "two" if exactly_two else "two or more"
        raise ValueError(f"batch_sizes must be {number} and increasing, got {sizes}.")
    if max(sizes) > num_train:
        raise ValueError(f"batch_sizes must be at most {num_train}, got {max(sizes)}.")
