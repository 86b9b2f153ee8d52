"""The axes of a sweep: which values a field takes.

    64,128,256            these values
    1:5:0.25              from 1 to 5, both among them, in steps of 0.25
    log:1e-3:1:9          9 values from 0.001 to 1, each the same factor times the one before
    random:0:1:20         20 values drawn at random between 0 and 1
    sobol:0:1:32          the same, spread evenly; all such axes are one Sobol sequence

Grids are multiplied with each other; all axes that are drawn at random advance together, one draw
for every point, and so do all Sobol axes. Whole-numbered fields round what is drawn or spaced. A
field that holds several numbers takes one number at each point. The values are held to the domain
of the field, in the words that `run` uses.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from theorylab.experiments.entry import Field, Literals
from theorylab.lab.failure import Refused, one_line

Kind = Literal["grid", "random", "sobol"]
Reading = Callable[[Field, Any], Literals]

MOST_VALUES = 100_000  # of one axis, and points of a sweep
_FORMS = "values, LOW:HIGH:STEP, log:LOW:HIGH:N, random:LOW:HIGH:N or sobol:LOW:HIGH:N"


@dataclass(frozen=True)
class Axis:
    """A field and its values, or how they are drawn."""

    field: Field
    kind: Kind
    values: tuple[Any, ...] = ()  # of a grid
    low: float = 0.0
    high: float = 0.0
    number: int = 0  # of values that are drawn

    @property
    def length(self) -> int:
        """How many values it has."""
        return len(self.values) if self.kind == "grid" else self.number


def axis(field: Field, given: Any, reading: Reading) -> Axis:
    """Read an axis as the user wrote it: a text as above, or a sequence of values.

    Args:
        field: The field that varies.
        given: "1:5:0.25", or (64, 128).
        reading: Makes a value of the field from one entry, or refuses it.

    Raises:
        Refused: It is none of the forms, or a value is outside the field's domain.

    Example:
        >>> from theorylab.fields import Positive
        >>> from theorylab.lab.requests import python_value
        >>> axis(Field("ratio", Positive, 1.0), "1:2:0.25", python_value).values
        (1.0, 1.25, 1.5, 1.75, 2.0)
    """
    if not isinstance(given, str):
        return _grid(field, listed_values(given), reading)
    text = given.strip()
    head, _, rest = text.partition(":")
    if head in ("log", "random", "sobol"):
        low, high, number = _numbers(field, given, rest.split(":"), 3)
        count = _count(field, given, number)
        if head == "log":
            spaced = _log_spaced(field, given, low, high, count)
            return _grid(field, _fitting(field, spaced), reading)
        return _drawn(field, given, head, low, high, count, reading)
    if ":" in text:
        low, high, step = _numbers(field, given, text.split(":"), 3)
        return _grid(field, _fitting(field, _spaced(field, given, low, high, step)), reading)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return _grid(field, [_of_text(field, part) for part in parts], reading)


def points(axes: Sequence[Axis], seed: int = 0) -> list[dict[str, Any]]:
    """Every point of a sweep: the values of all fields that vary.

    Args:
        axes: At least one.
        seed: Of what is drawn.

    Raises:
        Refused: There are too many, or axes that are drawn together differ in length.

    Example:
        >>> from theorylab.fields import Count
        >>> field = Field("width", Count, 1)
        >>> points([Axis(field, "grid", (64, 128))])
        [{'width': 64}, {'width': 128}]
    """
    parts: list[list[dict[str, Any]]] = [
        [{each.field.name: value} for value in each.values] for each in axes if each.kind == "grid"
    ]
    drawn: tuple[tuple[str, Callable[[int, int, int], Any]], ...] = (
        ("random", _random_draws),
        ("sobol", _sobol_draws),
    )
    for kind, draws in drawn:
        together = [each for each in axes if each.kind == kind]
        if together:
            parts.append(_together(kind, together, draws, seed))
    total = math.prod(map(len, parts))
    if total > MOST_VALUES:
        raise Refused(f"a sweep must have at most {MOST_VALUES} settings, got {total}.")
    return [
        {name: value for part in chosen for name, value in part.items()}
        for chosen in itertools.product(*parts)
    ]


def _together(
    kind: str, axes: Sequence[Axis], draws: Callable[[int, int, int], Any], seed: int
) -> list[dict[str, Any]]:
    """The points of all axes that are drawn together: one column of the unit cube for each."""
    number = axes[0].number
    if any(each.number != number for each in axes):
        lengths = ", ".join(f"{each.field.flag} {each.number}" for each in axes)
        raise Refused(f"all {kind} axes must have the same number of values, got {lengths}.")
    cube = draws(number, len(axes), seed)
    return [
        {
            each.field.name: _fitting(each.field, [each.low + (each.high - each.low) * float(u)])[0]
            for each, u in zip(axes, row, strict=True)
        }
        for row in cube
    ]


def _random_draws(number: int, dimensions: int, seed: int) -> Any:
    import numpy as np  # slow to import, and a wrong request is refused before

    return np.random.default_rng(seed).random((number, dimensions))


def _sobol_draws(number: int, dimensions: int, seed: int) -> Any:
    from scipy.stats import qmc

    exponent = max(0, math.ceil(math.log2(number)))
    return qmc.Sobol(dimensions, scramble=True, rng=seed).random_base2(exponent)[:number]


def _grid(field: Field, values: Iterable[Any], reading: Reading) -> Axis:
    """An axis of listed values, each once, each in the field's domain."""
    read = tuple(dict.fromkeys(reading(field, value) for value in values))
    if not read:
        raise Refused(f"{field.flag} must vary over one value or more, got none.")
    if len(read) > MOST_VALUES:
        raise Refused(f"{field.flag} must have at most {MOST_VALUES} values, got {len(read)}.")
    return Axis(field, "grid", read)


def _drawn(
    field: Field, given: str, kind: Any, low: float, high: float, number: int, reading: Reading
) -> Axis:
    """An axis that is drawn between two values of the field's domain."""
    if not low < high:
        raise Refused(f"{field.flag} must rise from LOW to HIGH, got {given!r}.")
    for end in _fitting(field, [low, high]):
        reading(field, end)
    return Axis(field, kind, (), low, high, number)


def listed_values(given: Any) -> list[Any]:
    """What a Python user wrote as values: a list, a range, an array, or a single one."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        given = [given]
    return list(itertools.islice(given, MOST_VALUES + 1))


def _of_text(field: Field, text: str) -> Any:
    """One entry as the kind of the field has it; what is none is refused by the field's domain."""
    kind = field.shape.kind
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _numbers(field: Field, given: str, parts: Sequence[str], expected: int) -> list[float]:
    """The numbers of a range."""
    if field.shape.kind not in (int, float):
        raise Refused(f"{field.flag} is {field.domain}, and has no range, got {given!r}.")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != expected or not all(map(math.isfinite, numbers)):
        raise Refused(f"{field.flag} must vary over {_FORMS}, got {one_line(repr(given), 80)}.")
    return numbers


def _count(field: Field, given: str, number: float) -> int:
    if number != int(number) or not 1 <= number <= MOST_VALUES:
        must = f"N must be a whole number from 1 to {MOST_VALUES}"
        raise Refused(f"{field.flag}: {must}, got {given!r}.")
    return int(number)


def _spaced(field: Field, given: str, low: float, high: float, step: float) -> list[float]:
    """From low to high; high belongs to it, should rounding miss it by a millionth of a step."""
    if not (step > 0 and low <= high):
        raise Refused(f"{field.flag} must rise in positive steps, got {given!r}.")
    steps = math.floor((high - low) / step + 1e-6)
    if steps >= MOST_VALUES:
        raise Refused(f"{field.flag} must have at most {MOST_VALUES} values, got {given!r}.")
    return [float(f"{low + index * step:.12g}") for index in range(steps + 1)]


def _log_spaced(field: Field, given: str, low: float, high: float, number: int) -> list[float]:
    if not 0 < low <= high:
        raise Refused(f"{field.flag} must rise from a positive LOW to HIGH, got {given!r}.")
    if number == 1:
        return [low]
    inner = [low * (high / low) ** (index / (number - 1)) for index in range(1, number - 1)]
    return [low, *(float(f"{value:.12g}") for value in inner), high]


def _fitting(field: Field, values: Sequence[float]) -> list[float | int]:
    """Whole numbers where the field has whole numbers."""
    return [round(value) for value in values] if field.shape.kind is int else list(values)
