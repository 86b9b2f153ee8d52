"""The figure of an outcome, drawn again from its arrays: to be changed, or saved in another format.

arrays by name ─► Result ─► plot(result, config) ─► a figure of matplotlib
"""

import dataclasses
import typing
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from theorylab.answers import Answer
from theorylab.answers.base import made
from theorylab.experiments.entry import Entry
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.typing import Figure

from .conduct import draw, drawn_figure, precision
from .outcome import Outcome


def redraw(outcome: Outcome) -> Figure:
    """Draw the figure of an outcome of this version of the experiment.

    Raises:
        ValueError: The experiment is none of theorylab's, or has changed since.
    """
    if outcome.experiment not in EXPERIMENTS.names():
        raise ValueError(
            f"plot needs an experiment of theorylab, got {outcome.experiment}: "
            "its figure is there as SVG, outcome.figure."
        )
    module = EXPERIMENTS.load(outcome.experiment)
    entry = EXPERIMENTS.entry(outcome.experiment)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in outcome.config.items()}
    with precision(entry.precision):
        result = restored(typing.get_type_hints(module.run)["return"], outcome.arrays)
        return drawn_figure(module, result, module.Config(**values))


def redrawn(
    entry: Entry, experiment: ModuleType, config: Any, arrays: Mapping[str, np.ndarray]
) -> str:
    """The figure as SVG, of the arrays of an outcome that was not drawn when it was run."""
    with precision(entry.precision):
        result = restored(typing.get_type_hints(experiment.run)["return"], arrays)
        return draw(experiment, result, config)


def restored(kind: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The record, or dict, whose arrays have these names; the reverse of `arrays_of`.

    Args:
        kind: A named tuple, an `Answer`, or a type of dicts.
        arrays: By name; those of a record inside it are called "outer.inner".

    Example:
        >>> class Fit(typing.NamedTuple):
        ...     slope: float
        >>> restored(dict[str, Fit], {"loss.slope": np.array(-0.5)})
        {'loss': Fit(slope=array(-0.5))}
    """
    hints = _fields(kind, arrays)
    values = {}
    for name, hint in hints.items():
        if name in arrays:
            values[name] = arrays[name]
            continue
        start = f"{name}."
        inner = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
        if not inner:
            raise ValueError(f"an outcome must have its arrays to be drawn, and {name} is missing.")
        values[name] = restored(hint, inner)
    if isinstance(kind, type) and issubclass(kind, Answer):
        return made(kind, values)
    return kind(**values) if hasattr(kind, "_fields") else values


def _fields(kind: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields of a record with their types; of a dict, the names that are there."""
    if isinstance(kind, type) and issubclass(kind, Answer):
        hints = typing.get_type_hints(kind)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        return {name: hints[name] for name in kind._fields}
    arguments = typing.get_args(kind)
    inner = arguments[1] if len(arguments) == 2 else dict
    return dict.fromkeys((name.partition(".")[0] for name in arrays), inner)
