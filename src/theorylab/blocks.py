"""Blocks of a long run: what is finished is kept, and read when the run is started again.

    with keeping(keeper):
        ensemble(train, keys)     every seed that is done is kept; a second call reads it

`training.ensemble` offers its blocks, and `kept_block` what is no compiled program; the lab's
session keeps those that took long, until the outcome of the run is stored. Nobody keeping costs
nothing; this module imports nothing heavy.
"""

import time
from collections.abc import Callable, Iterator, Sequence
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


def kept_block(compute: Callable[[], "Sequence[np.ndarray]"]) -> "Sequence[np.ndarray]":
    """What a function gives, as one block; nothing inside it is a block of its own.

    For what needs much memory and leaves little: a large kernel is made and solved in one block,
    of which only accuracies are kept.

    Args:
        compute: Gives the arrays to be kept; the same ones whenever it is called.

    Example:
        >>> import numpy as np
        >>> kept_block(lambda: [np.arange(3).sum()])
        [...(3)]
    """
    keeper = _keeper.get()
    if keeper is None:
        return compute()
    series = keeper.series()
    kept = keeper.read(series, 0)
    if kept is not None:
        return kept
    began = time.perf_counter()
    # A block that is read asks for no series, so none inside it may have a number.
    with keeping(None):
        arrays = compute()
    keeper.write(series, 0, arrays, time.perf_counter() - began)
    return arrays


@contextmanager
def keeping(keeper: Keeper | None) -> Iterator[None]:
    """Let a keeper have every block that is offered inside; None: nobody has them."""
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)
