"""How far a run is: whoever works reports, whoever shows it listens.

    with listening(print):
        report("training 40 networks", 0.25)

Nobody listening costs nothing; this module imports nothing heavy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, float], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report(what: str, done: float) -> None:
    """Say what is being done now, and which fraction of the run lies behind.

    Args:
        what: The stage that begins, in a few words.
        done: The fraction of the whole run that is finished, in [0, 1].
    """
    if not 0 <= done <= 1:
        raise ValueError(f"done must be a fraction in [0, 1], got {done}.")
    listener = _listener.get()
    if listener is not None:
        listener(what, done)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hear every report made inside the block.

    Example:
        >>> with listening(lambda what, done: print(what, done)):
        ...     report("half way", 0.5)
        half way 0.5
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def as_part(what: str, start: float, share: float) -> Iterator[None]:
    """Let every report made inside the block be one of a part of the run.

    Args:
        what: What the part is called, whatever is reported in it.
        start: The fraction of the run that lies before it.
        share: The fraction that it is.

    Example:
        >>> with listening(lambda what, done: print(what, done)), as_part("lunch", 0.5, 0.25):
        ...     report("soup", 1.0)
        lunch 0.75
    """
    outer = _listener.get()
    if outer is None:
        yield
        return
    with listening(lambda _, done: outer(what, start + share * done)):
        yield
