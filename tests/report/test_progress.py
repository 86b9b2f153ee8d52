import io
import re

import pytest

from theorylab.report.progress import LiveProgress, Pace


class Clock:
    """Goes when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def show(file, seconds=4.0):
    """Two runs, of which the first reports twice."""
    clock = Clock()
    with LiveProgress(total=2, file=file, clock=clock) as progress:
        progress.start("dynamics/catapult", expected_seconds=None)
        clock.now += seconds
        progress.update("training 40 networks", 0.25)
        progress.update("training 40 networks", 0.3)
        if progress._live:
            progress._live.refresh()
        clock.now += seconds
        progress.finish("dynamics/catapult")
        progress.start("bias/diagonal_network", expected_seconds=75.0)
        progress.finish("bias/diagonal_network", "from the store")
    return file.getvalue()


PLAIN = """\
[1/2] dynamics/catapult
[1/2] dynamics/catapult: training 40 networks (25 %)
[1/2] dynamics/catapult: done in 8 s
[2/2] bias/diagonal_network, about 1 min 15 s
[2/2] bias/diagonal_network: from the store
"""


def test_a_pipe_gets_a_plain_line_for_each_stage():
    assert show(io.StringIO()) == PLAIN


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_it_plain_gets_it_plain(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert show(Terminal()) == PLAIN


def test_a_terminal_shows_what_runs_how_far_and_how_long_still():
    """4 s are 30 %, so that 9.3 s are left."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", show(Terminal()))
    assert "[1/2] dynamics/catapult  training 40 networks" in text
    assert re.search(r"30 % 4 s, about 9 s left", text)
    assert "[1/2] dynamics/catapult: done in 8 s" in text


def test_the_terminal_is_left_clean_when_a_run_breaks_off():
    file = Terminal()

    def run():
        with LiveProgress(total=1, file=file) as progress:
            progress.start("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert file.getvalue().rfind("\x1b[?25h") > file.getvalue().rfind("\x1b[?25l")


def test_time_left_comes_from_the_earlier_run_then_from_the_reports():
    pace = Pace(expected_seconds=20.0, reported_at=8.0, done=0.25)
    assert pace.seconds_left(elapsed=12.0) == 8.0
    assert pace.seconds_left(elapsed=24.0) == 8.0  # outlasts 20 s; the report says 32 s
    assert pace.seconds_left(elapsed=40.0) is None
    assert Pace().seconds_left(elapsed=1.0) is None


def test_the_fraction_grows_between_reports_and_never_reaches_the_end():
    pace = Pace(reported_at=10.0, done=0.5)
    fractions = [pace.fraction(elapsed) for elapsed in (10.0, 12.0, 15.0, 19.0)]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.5
    assert Pace(done=1.0, reported_at=5.0).fraction(elapsed=9.0) == 0.99
    assert Pace(expected_seconds=10.0).fraction(elapsed=5.0) == 0.5


def test_a_total_below_zero_is_refused():
    with pytest.raises(ValueError, match="total must be at least 0, got -1"):
        LiveProgress(total=-1)
