"""Blocks of a long run: what is finished is kept, and read when the run is started again.

    with keeping(keeper):
        ensemble(train, keys)     every seed that is done is kept; a second call reads it

`training.ensemble` offers its blocks; the lab's session keeps those that took long, until the
outcome of the run is stored. Nobody keeping costs nothing; this module imports nothing heavy.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np


@runtime_checkable
class Keeper(Protocol):
    """Keeps the blocks of one run; called from several threads."""

    def series(self) -> int:
        """The number of the next series of blocks: a run asks for its series in the same order."""
        ...

    def read(self, series: int, block: int) -> "Sequence[np.ndarray] | None":
        """The arrays of a block that an earlier run finished, or None."""
        ...

    def write(
        self, series: int, block: int, arrays: "Sequence[np.ndarray]", seconds: float
    ) -> None:
        """Take the arrays of a block, and how long they took."""
        ...


_keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


def current_keeper() -> Keeper | None:
    """Who keeps the blocks of this run, if anybody."""
    return _keeper.get()


@contextmanager
def keeping(keeper: Keeper) -> Iterator[None]:
    """Let a keeper have every block that is offered inside."""
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)
