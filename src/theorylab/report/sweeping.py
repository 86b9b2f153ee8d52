"""How far a sweep is: done, running, failed, how long it takes still.

    with SweepProgress("catapult-1a2b", total=200) as progress:
        drive(..., progress, ...)

On a terminal one line that moves; elsewhere a plain line whenever a tenth more is done.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from theorylab.lab.sweeps.drive import Progress

from .alphabet import Stream, console, printable
from .numbers import duration
from .progress import can_move

_TENTHS = 10


class SweepProgress:
    """Shows a sweep; made for `with`.

    Args:
        name: Of the sweep.
        file: Where it is shown; standard error unless told otherwise.
        clock: Seconds from some fixed moment.
    """

    def __init__(
        self,
        name: str,
        file: Stream | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._clock, self._began = name, clock, clock()
        self._console = console(sys.stderr if file is None else file)
        self._last: Progress | None = None
        self._told = -1  # tenths
        self._heard = clock()
        self._live: Live | None = None
        if can_move(self._console):
            self._live = Live(
                get_renderable=self._view,
                console=self._console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
            )

    def __enter__(self) -> "SweepProgress":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live:
            self._live.stop()
        if self._last is not None:
            elapsed = duration(self._clock() - self._began)
            last = replace(self._last, running=0, seconds_left=None)
            self._line(f"{self._name}: {words(last)} in {elapsed}")

    def show(self, progress: Progress) -> None:
        """Hear how far it is."""
        self._last, self._heard = progress, self._clock()
        ended = progress.read + progress.done + progress.failed
        tenths = _TENTHS * ended // max(progress.total, 1)
        if tenths > self._told and not self._live and ended < progress.total:
            self._line(f"{self._name}: {words(progress)}")
        self._told = max(self._told, tenths)

    def tell(self, text: str) -> None:
        """Hear about one setting."""
        self._line(f"{self._name}: failed: {text}")

    def _line(self, text: str) -> None:
        """Print one line, above what moves."""
        self._console.print(Text(printable(text, self._console.encoding)), soft_wrap=True)

    def _view(self) -> RenderableType:
        """What stands on the terminal now; called by the refreshing thread."""
        progress = self._last
        if progress is None:
            return Text()
        ended = progress.read + progress.done + progress.failed
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=max(progress.total, 1), completed=ended, width=28),
            Text(f"{100 * ended / max(progress.total, 1):3.0f} %"),
            Text(printable(words(progress), self._console.encoding), style="dim"),
        )
        return Group(Text(printable(self._name, self._console.encoding), no_wrap=True), line)


def words(progress: Progress) -> str:
    """How far a sweep is, in words.

    Example:
        >>> words(Progress(200, 50, 30, 1, 4, 61.0))
        '80 of 200 there (50 read), 4 running, 1 failed, about 1 min 1 s left'
    """
    parts = [f"{progress.read + progress.done} of {progress.total} there ({progress.read} read)"]
    if progress.running:
        parts.append(f"{progress.running} running")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.seconds_left:
        parts.append(f"about {duration(float(round(progress.seconds_left)))} left")
    return ", ".join(parts)
