"""A part of the input: some positions, or some channels.

    Index(0)                         y = x[0]              the first position; its axis is gone
    Index(slice(1, 3), ...)          y = x[1:3, ...]       positions 1 and 2
    Index(..., slice(0, 8))          y = x[..., 0:8]       the first eight channels

Entries belong to the axes of one input. Samples are chosen before a network sees them, x[rows]: it
treats every sample alike.
"""

from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from .architecture import Architecture, Shape


@dataclass(frozen=True)
class Span:
    """A slice that can be hashed.

    Example:
        >>> Span(1, 5, 2).slice
        slice(1, 5, 2)
    """

    start: int | None
    stop: int | None
    step: int | None

    @property
    def slice(self) -> slice:
        """The slice."""
        return slice(self.start, self.stop, self.step)


Entry = int | Span | EllipsisType


@dataclass(frozen=True, init=False, repr=False)
class Index(Architecture):
    """What an array gives for an index: x[entries], for every input x.

    Args:
        entries: A whole number or a slice for every axis of one input, from the first; `...` once,
            for all axes in between. What is not named is kept whole. A whole number drops its
            axis, which the channels' cannot be.

    Example: the first row of the left half of an image.
        >>> Index(0, slice(None, 4)).output_shape((8, 8, 3))
        (4, 3)
    """

    entries: tuple[Entry, ...]

    def __init__(self, *entries: Any) -> None:
        if sum(entry is ... for entry in entries) > 1:
            raise ValueError(f"Index takes ... at most once, got {entries}.")
        object.__setattr__(self, "entries", tuple(map(_entry, entries)))

    def __repr__(self) -> str:
        written = (
            "..." if entry is ... else repr(entry.slice if isinstance(entry, Span) else entry)
            for entry in self.entries
        )
        return f"Index({', '.join(written)})"

    def at(self, input_shape: Shape) -> tuple[Any, ...]:
        """Give an entry for every axis of an input.

        Example:
            >>> Index(..., slice(0, 2)).at((8, 3))
            (slice(None, None, None), slice(0, 2, None))
        """
        entries = self.entries if ... in self.entries else (*self.entries, ...)
        place, missing = entries.index(...), len(input_shape) - len(entries) + 1
        if missing < 0:
            raise ValueError(f"{self!r} needs an axis for every entry, got shape {input_shape}.")
        whole = (Span(None, None, None),) * missing
        full = (*entries[:place], *whole, *entries[place + 1 :])
        return tuple(entry.slice if isinstance(entry, Span) else entry for entry in full)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Count what is kept."""
        entries = self.at(input_shape)
        if not entries or not isinstance(entries[-1], slice):
            raise ValueError(
                f"{self!r} must keep the axis of channels of inputs of shape {input_shape}: "
                "slice(c, c + 1) takes a single one."
            )
        kept = []
        for entry, size in zip(entries, input_shape, strict=True):
            if not isinstance(entry, slice):
                if not -size <= entry < size:
                    raise ValueError(
                        f"{self!r} must stay inside inputs of shape {input_shape}, got {entry}."
                    )
                continue
            kept.append(len(range(*entry.indices(size))))
            if not kept[-1]:
                raise ValueError(f"{self!r} must keep something of shape {input_shape}, got none.")
        return tuple(kept)


def _entry(entry: Any) -> Entry:
    if isinstance(entry, slice):
        return Span(entry.start, entry.stop, entry.step)
    if entry is ... or isinstance(entry, Span):
        return entry
    if isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise TypeError(f"Index takes whole numbers, slices and ..., got {entry!r}.")
    return entry.__index__()
