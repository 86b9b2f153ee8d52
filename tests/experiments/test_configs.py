"""Every field of every experiment, given what it cannot be: a config that fits, or one line.

Nothing is run. A config is made of the smoke preset with one field changed, and its memory is
estimated as before a run, except where that would trace the whole program. A field gets three
values, drawn once and for all; all of them are tried on many fields.
"""

import itertools
import random
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from theorylab.experiments.entry import Entry, Field
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.fields import LARGEST, MOST
from theorylab.lab.conduct import (
    conduct,
    configure,
    counted_bytes,
    needed_bytes,
    require_memory,
)
from theorylab.lab.failure import Refused

MEMORY = 8 * 10**9  # bytes that count as free
SECONDS = 1.0  # of CPU that an estimate may take
LARGE_MACHINE = 20 * 10**9  # bytes into which the source's own scale must fit
WRONG = (None, "", "a", b"a", True, -1, 0, 2**31, 2**63, 10**400, 1j, object(), {}, [])
WRONG += (0.0, -1.0, 1e-300, 5e-324, 0.5, 1e300, float("inf"), float("nan"))
LARGE = (10**6, 10**8, LARGEST)


@pytest.fixture(params=EXPERIMENTS.names())
def experiment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple:
    """An experiment, read and imported, on a machine of a certain memory."""
    monkeypatch.setattr(sys.modules[conduct.__module__], "available_memory", lambda: MEMORY)
    return EXPERIMENTS.entry(request.param), EXPERIMENTS.load(request.param)


def values_of(field: Field) -> Iterator[Any]:
    """Values for a field: of every type, and as large as its own type allows."""
    yield from (*WRONG, *LARGE)
    yield from ((each,) for each in (*WRONG, *LARGE))
    yield from itertools.pairwise((*WRONG, 1, *LARGE))
    if field.shape.several:
        yield tuple(map(field.shape.kind, range(1, MOST + 1)))
        yield tuple(map(field.shape.kind, range(MOST + 1)))
        yield tuple(map(field.shape.kind, range(LARGEST - MOST, LARGEST)))


def answer(entry: Entry, module: ModuleType, values: dict[str, Any], estimated: bool) -> str:
    """What becomes of a config: "fits", "refused", or what is wrong."""
    began = time.process_time()
    try:
        config = configure(entry, module, values)
        if estimated:
            require_memory(entry, module, config)
        said = "fits"
    except Refused as error:
        said = "refused" if len(str(error).splitlines()) == 1 else f"several lines: {error}"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    seconds = time.process_time() - began
    return said if seconds < SECONDS else f"slow: {seconds:.1f} s"


def test_any_value_of_any_field_fits_or_is_refused_on_one_line(experiment):
    """Oracle: the two answers that a user may get, each within a second."""
    entry, module = experiment
    estimated, drawn = hasattr(module, "memory"), random.Random(entry.name)
    for field in entry.fields:
        for value in drawn.sample(list(values_of(field)), 3):
            said = answer(entry, module, entry.presets["smoke"] | {field.name: value}, estimated)
            assert said in ("fits", "refused"), f"--{field.name} {str(value)[:60]}: {said}"


def test_the_scale_of_the_source_fits_into_20_gb(experiment):
    """Oracle: the number that is promised; an estimate runs and downloads nothing."""
    entry, module = experiment
    if "paper" not in module.PRESETS:
        pytest.skip("has no such preset")
    config = module.PRESETS["paper"]
    needed = counted_bytes(entry, config) + needed_bytes(entry, module, config)
    assert 0 < needed <= LARGE_MACHINE


def test_no_count_comes_near_what_fits_into_32_bits(experiment):
    """Oracle: an array of as many bytes as are counted there would not fit."""
    entry, module = experiment
    for field in entry.fields:
        if field.shape.kind is int and field.name != "seed" and not field.choices:
            value = (1, LARGEST) if field.shape.several else LARGEST
            said = answer(entry, module, entry.presets["smoke"] | {field.name: value}, True)
            assert said == "refused", f"--{field.name}: {said}"


def test_presets_count_little():
    """Oracle: an eighth of a small machine's memory; every preset stays as it was."""
    for entry in EXPERIMENTS.entries():
        module = EXPERIMENTS.load(entry.name)
        for values in entry.presets.values():
            assert counted_bytes(entry, module.Config(**values)) < 10**9
