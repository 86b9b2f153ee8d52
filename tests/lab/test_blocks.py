"""A run that was stopped goes on where it was, with the numbers of a run that was not."""

import os
import shutil
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import theorylab
from theorylab.blocks import keeping, kept_block
from theorylab.lab.blocks import FORGOTTEN_AFTER, BlockFolder, sweep_forgotten
from theorylab.training import ensemble, seed_blocks

KEYS = jax.random.split(jax.random.key(0), 5)
MODULE = '''
"""Squares of random numbers, one block a seed; a file says when to stop."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least
from theorylab.experiments.drawing import panels
from theorylab.fields import Seeded
from theorylab.training import ensemble

PRECISION = "float32"
FORMULA = "x^2"


@dataclass(frozen=True)
class Config(Seeded):
    """Squares."""


PRESETS = {"smoke": Config()}


class Result(NamedTuple):
    squares: np.ndarray


def run(config: Config) -> Result:
    """One series of blocks, then another, unless the file is there."""
    keys = jax.random.split(jax.random.key(config.seed), 3)
    squares = ensemble(lambda key: jax.random.normal(key) ** 2, keys)
    if Path(__file__).with_name("stop").exists():
        raise RuntimeError("stopped")
    return Result(squares + ensemble(lambda key: jax.random.normal(key) ** 4, keys))


def memory(config: Config) -> int:
    return 100


CLAIMS = (
    Source("zhu", "sgd-match-rate", "p. 1").check(
        "Squares are positive.", lambda r, c: at_least(r.squares.min(), 0.0)
    ),
)


def plot(result: Result, config: Config) -> Figure:
    figure, (axis,) = panels("squares")
    axis.plot(result.squares)
    return figure
'''


class Stopped(Exception):
    pass


class Killing(BlockFolder):
    """A folder whose run is killed when it wants to write a chosen block."""

    def __init__(self, root: Path, fatal: int) -> None:
        super().__init__(root, "abc")
        self.fatal = fatal
        self.computed: list[int] = []

    def write(self, series, block, arrays, seconds):
        self.computed.append(block)
        if block == self.fatal:
            raise Stopped
        super().write(series, block, arrays, seconds=60.0)


def draw(key):
    return {"normal": jax.random.normal(key, (3,)), "count": jax.random.randint(key, (), 0, 99)}


def test_a_stopped_ensemble_goes_on_with_the_same_numbers(tmp_path, monkeypatch):
    """Oracle: an ensemble that nobody stopped. Blocks that are there are not computed again."""
    module = sys.modules["theorylab.training.ensemble"]  # the room's name is the function
    monkeypatch.setattr(module, "_num_cores", lambda: 1)
    expected = ensemble(draw, KEYS)
    first, second = Killing(tmp_path, fatal=3), Killing(tmp_path, fatal=-1)
    with keeping(first), pytest.raises(Stopped):
        ensemble(draw, KEYS)
    assert len(first) == 4
    with keeping(second):
        found = ensemble(draw, KEYS)
    assert second.computed == [3]
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_stopped_blocks_of_seeds_go_on_with_the_same_numbers(tmp_path):
    """Oracle: blocks that nobody stopped; what was finished is not computed again."""
    some = jax.vmap(draw)
    expected = seed_blocks(some, KEYS, 2)
    with keeping(Killing(tmp_path, fatal=2)), pytest.raises(Stopped):
        seed_blocks(some, KEYS, 2)
    second = Killing(tmp_path, fatal=-1)
    with keeping(second):
        found = seed_blocks(some, KEYS, 2)
    assert second.computed == [2, 3]  # the last block ends with the seeds
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_what_runs_inside_a_block_of_seeds_is_no_block_of_its_own(tmp_path):
    """Oracle: the same without a keeper. What follows blocks that are read keeps its number."""

    def members(seeds):
        return ensemble(lambda seed: seed + 1, seeds)

    def run():
        return seed_blocks(members, np.arange(5.0), 2), ensemble(lambda x: 2 * x, np.arange(3.0))

    expected = run()
    for _ in range(2):
        with keeping(Killing(tmp_path, fatal=-1)):
            jax.tree.map(np.testing.assert_array_equal, run(), expected)


def test_series_are_told_apart_and_other_shapes_are_not_read(tmp_path):
    """Oracle: the functions themselves."""
    for power in (1, 2):
        with keeping(Killing(tmp_path, fatal=-1)):
            plain = ensemble(lambda x: x, np.arange(4.0))
            other = ensemble(lambda x, p=power: np.ones(p) * x**2, np.arange(4.0))
        np.testing.assert_array_equal(plain, np.arange(4.0))
        np.testing.assert_array_equal(other, np.arange(4.0)[:, None] ** 2 * np.ones((1, power)))


def test_what_is_no_compiled_program_is_a_block_too_and_has_none_inside(tmp_path):
    """Oracle: the same without a keeper. What follows a block that is read keeps its number."""
    computed = []

    def run():
        def whole():
            computed.append(len(computed))
            return [np.asarray(ensemble(lambda x: x + 1, np.arange(3.0)))]

        first = kept_block(whole)[0]
        return first, np.asarray(ensemble(lambda x: 2 * x, np.arange(3.0)))

    expected = run()
    for _ in range(2):
        with keeping(Killing(tmp_path, fatal=-1)):
            found = run()
        np.testing.assert_array_equal(found, expected)
    assert len(computed) == 2  # without a keeper, and once with one
    assert sorted(file.name for file in BlockFolder(tmp_path, "abc").path.iterdir()) == [
        "0-0.npz",
        "1-0.npz",
        "1-1.npz",
        "1-2.npz",
    ]


def test_a_damaged_block_is_computed_again(tmp_path):
    keeper = Killing(tmp_path, fatal=-1)
    with keeping(keeper):
        expected = ensemble(draw, KEYS)
    for file in keeper.path.iterdir():
        file.write_bytes(file.read_bytes()[:-30])
    with keeping(Killing(tmp_path, fatal=-1)):
        found = ensemble(draw, KEYS)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_short_blocks_are_not_kept_and_old_ones_swept(tmp_path):
    short = BlockFolder(tmp_path, "abc")
    short.write(0, 0, [np.ones(2)], seconds=0.1)
    assert len(short) == 0
    short.write(0, 0, [np.ones(2)], seconds=60.0)
    read = (short.read(0, 0) or [])[0]
    np.testing.assert_array_equal(read, np.ones(2))
    sweep_forgotten(tmp_path)
    assert len(short) == 1
    long_ago = time.time() - FORGOTTEN_AFTER - 60
    os.utime(short.path, (long_ago, long_ago))
    sweep_forgotten(tmp_path)
    assert len(short) == 0


def test_the_session_keeps_blocks_until_the_outcome_is_stored(folders, monkeypatch, capsys):
    """Oracle: the same run, never stopped, in another store."""
    monkeypatch.setattr("theorylab.lab.blocks.WORTH_KEEPING", 0.0)
    module = folders / "squares.py"
    module.write_text(MODULE.lstrip())
    (folders / "stop").touch()
    with pytest.raises(theorylab.lab.RunFailed, match="stopped"):
        theorylab.run(module, progress=False)
    (kept,) = (folders / "store/.blocks").iterdir()
    assert len(list(kept.glob("*.npz"))) == 3
    (folders / "stop").unlink()
    capsys.readouterr()
    outcome = theorylab.run(module)
    assert "goes on where it was stopped: 3 blocks are finished" in capsys.readouterr().err
    assert not (folders / "store/.blocks").exists()
    fresh = theorylab.run(module, progress=False, store=folders / "another")
    np.testing.assert_array_equal(outcome.arrays["squares"], fresh.arrays["squares"])
    shutil.rmtree(folders / "another")
