"""Work in a thread, so that Ctrl-C is heard while compiled code runs."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

NAME = "theorylab run"


def in_background(work: Callable[[], T]) -> T:
    """Do the work in another thread and wait for it.

    Python hears a signal between two steps of its main thread only, and one step of a run may be
    a compiled program that takes minutes. So the main thread waits, and is free to be interrupted.
    """
    future: Future[T] = Future()

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=target, name=NAME, daemon=True).start()
    while True:
        try:
            return future.result(timeout=0.2)
        except TimeoutError:
            if future.done():
                raise  # it is the work's own


def is_busy() -> bool:
    """Whether work is still going on."""
    return any(thread.name == NAME for thread in threading.enumerate())
