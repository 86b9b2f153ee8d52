"""Killed before any file operation whatever: nothing is lost, nothing is left lying about.

Python tells an audit hook of every file operation before it is done: there it kills itself.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and SIGKILL")

HARNESS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from made_up import made_up
from theorylab.lab import Store
from theorylab.lab.timings import remember
from theorylab.report.page import write_page
assert "jax" not in sys.modules  # its threads do not survive a fork
root = Path(sys.argv[1])

OPERATIONS = {{"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.scandir",
    "tempfile.mkstemp", "tempfile.mkdtemp", "shutil.rmtree"}}

def survives(work, moment):
    "Whether work ends before it has done so many operations; else it is killed."
    child = os.fork()
    if child == 0:
        count = 0
        def hook(event, arguments):
            nonlocal count
            if event in OPERATIONS:
                count += 1
                if count == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

def at_every_moment(work, check):
    moment = 1
    while not survives(work, moment):
        check(moment)
        moment += 1
    check(moment)
    print(moment)
"""


def killed(tmp_path: Path, script: str) -> int:
    """Run a script after the harness; gives the number of moments at which it was killed."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", HARNESS.format(here=here) + script, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


FORCED = """
store = Store(root)
store.prepare()
old, new = made_up(seconds=1.0), made_up(seconds=2.0)
store.write(old)

def check(moment):
    # Whoever comes next, `run` or `report`, finds one of the two whole.
    heard = []
    if moment % 2:
        found = Store(root).outcomes(heard.append)
        assert len(found) == 1 and found[0].seconds in (1.0, 2.0), (moment, found)
    store.prepare()
    found = store.recall(old.experiment, old.key, heard.append)
    assert found is not None and found.seconds in (1.0, 2.0), moment
    assert heard == [], (moment, heard)
    assert os.listdir(root) == ["toys"], (moment, os.listdir(root))
    assert os.listdir(root / "toys/coin") == [old.key], moment
    store.write(old, replace=True)

at_every_moment(lambda: store.write(new, replace=True), check)
"""


def test_an_outcome_that_is_replaced_is_never_missing(tmp_path):
    assert killed(tmp_path, FORCED) > 30


RECOVERED = """
store = Store(root)
old, new = made_up(seconds=1.0), made_up(seconds=2.0)

def interrupted():
    store.prepare()
    store.write(old)
    rename = Path.rename
    def stop(path, goal):
        rename(path, goal)
        if goal.name == "replaced":
            os.kill(os.getpid(), signal.SIGKILL)
    Path.rename = stop
    store.write(new, replace=True)

def check(moment):
    store.prepare()
    found = store.recall(old.experiment, old.key, print)
    assert found is not None and found.seconds == 2.0, moment
    assert os.listdir(root) == ["toys"]

assert not survives(interrupted, 0)
assert not (root / "toys/coin" / old.key).exists()
moment = 1
while not survives(store.prepare, moment):  # who mends it may be killed too
    moment += 1
check(moment)
print(moment)
"""


def test_who_finishes_what_another_began_may_be_killed_too(tmp_path):
    assert killed(tmp_path, RECOVERED) > 10


TIMED = """
remember(root, "toys/coin", "smoke", 1.0)

def check(moment):
    remember(root, "toys/coin", "smoke", 1.0)
    assert os.listdir(root) == ["timings.json"], (moment, os.listdir(root))

at_every_moment(lambda: remember(root, "toys/coin", "smoke", 2.0), check)
"""

REPORTED = """
page = root / "report.html"
write_page([made_up()], page)
text = page.read_bytes()

def check(moment):
    assert page.read_bytes() in (text, new), moment
    write_page([made_up()], page)
    assert os.listdir(root) == ["report.html"], (moment, os.listdir(root))

write_page([], page)
new = page.read_bytes()
at_every_moment(lambda: write_page([], page), check)
"""


@pytest.mark.parametrize("script", [TIMED, REPORTED], ids=["timings", "report"])
def test_the_next_writer_sweeps_what_the_killed_one_left(tmp_path, script):
    assert killed(tmp_path, script) > 4
