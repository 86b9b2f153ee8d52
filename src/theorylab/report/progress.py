"""How far the runs are: what runs, which of how many, how long it took and how long it takes still.

    with LiveProgress(total=5) as progress:
        progress.start("dynamics/catapult", expected_seconds=20.0)
        with listening(progress.update):
            ...
        progress.finish("dynamics/catapult")

On a terminal a line that moves by itself between the reports; elsewhere a plain line for each.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .alphabet import Stream, console, printable
from .numbers import duration


@dataclass(frozen=True)
class Pace:
    """What is known about the speed of a run.

    Args:
        expected_seconds: What an earlier run took, if there was one.
        reported_at: The seconds after the start at which the last report came.
        done: The fraction that this report called finished.
    """

    expected_seconds: float | None = None
    reported_at: float = 0.0
    done: float = 0.0

    def seconds_left(self, elapsed: float) -> float | None:
        """How long it takes still: by the earlier run, or else by the last report.

        Example:
            >>> Pace(reported_at=10.0, done=0.25).seconds_left(elapsed=15.0)
            25.0
            >>> Pace(expected_seconds=20.0).seconds_left(elapsed=15.0)
            5.0
            >>> Pace().seconds_left(elapsed=15.0) is None
            True
        """
        totals = [self.expected_seconds] if self.expected_seconds else []
        if self.done > 0:
            totals.append(self.reported_at / self.done)
        # A run that outlasts one estimate is judged by the next; one that outlasts all, by none.
        return next((total - elapsed for total in totals if total > elapsed), None)

    def fraction(self, elapsed: float) -> float:
        """How much is done, between two reports as well, and never all of it.

        Example:
            >>> Pace(reported_at=10.0, done=0.25).fraction(elapsed=20.0)
            0.5
        """
        left = self.seconds_left(elapsed)
        guess = elapsed / (elapsed + left) if left is not None else 0.0
        return min(max(guess, self.done), 0.99)


class LiveProgress:
    """Shows one run after the other; made for `with`.

    Args:
        total: How many runs there are.
        file: Where it is shown; standard error unless told otherwise.
        clock: Seconds from some fixed moment.
    """

    def __init__(
        self,
        total: int,
        file: Stream | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if total < 0:
            raise ValueError(f"total must be at least 0, got {total}.")
        self._total, self._clock = total, clock
        self._console = console(sys.stderr if file is None else file)
        self._number = 0
        self._name = self._what = ""
        self._began, self._pace = clock(), Pace()
        self._live: Live | None = None
        if can_move(self._console):
            self._live = Live(
                get_renderable=self._view,
                console=self._console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,  # data goes where it belongs
            )

    def __enter__(self) -> "LiveProgress":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._name = ""
        if self._live:
            self._live.stop()

    def start(self, name: str, expected_seconds: float | None = None) -> None:
        """Say that a run begins, and how long it took the last time."""
        self._number += 1
        self._began, self._pace = self._clock(), Pace(expected_seconds)
        self._name, self._what = name, ""
        if not self._live:
            known = f", about {duration(expected_seconds)}" if expected_seconds else ""
            self._line(f"{self._position} {name}{known}")

    def update(self, what: str, done: float) -> None:
        """Hear what is being done now, and which fraction of the run lies behind."""
        elapsed = self._clock() - self._began
        self._pace = Pace(self._pace.expected_seconds, reported_at=elapsed, done=done)
        news, self._what = what != self._what, what
        if news and not self._live:
            self._line(f"{self._position} {self._name}: {what} ({100 * done:.0f} %)")

    def finish(self, name: str, note: str = "") -> None:
        """Say that a run is over, and what else there is to say: "from the store"."""
        elapsed = duration(self._clock() - self._began)
        self._name = self._what = ""
        if self._live:
            self._live.refresh()
        self._line(f"{self._position} {name}: {note or f'done in {elapsed}'}")

    @property
    def _position(self) -> str:
        return f"[{self._number}/{self._total}]"

    def _line(self, text: str) -> None:
        """Print one line, above what moves."""
        self._console.print(Text(printable(text, self._console.encoding)), soft_wrap=True)

    def _view(self) -> RenderableType:
        """What stands on the terminal now; called by the refreshing thread."""
        if not self._name:
            return Text()
        elapsed = self._clock() - self._began
        left = self._pace.seconds_left(elapsed)
        still = "" if left is None else f", about {_seconds(left)} left"
        fraction = self._pace.fraction(elapsed)
        heading = printable(f"{self._position} {self._name}  {self._what}", self._console.encoding)
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=1.0, completed=fraction, width=28, complete_style="cyan"),
            Text(f"{100 * fraction:3.0f} %"),
            Text(f"{_seconds(elapsed)}{still}", style="dim"),
        )
        return Group(Text(heading, no_wrap=True, overflow="crop"), line)


def can_move(console: Console) -> bool:
    """Whether it is a terminal that may be drawn upon."""
    terminal = console.is_terminal and not console.is_dumb_terminal
    return terminal and not os.environ.get("NO_COLOR")


def _seconds(seconds: float) -> str:
    """A time span that ticks: whole seconds."""
    return duration(float(round(seconds)))
