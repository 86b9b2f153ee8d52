"""Strict JAX for every test (float64, no silent broadcasting of ranks), and a small tree to run."""

import gc
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

# XLA deals a batch of factorisations to its pool of threads and waits for them in it: as many
# batches at once as there are threads wait for each other for ever. With one thread it deals none.
os.environ.setdefault("NPROC", "1")
# Threads of linear algebra wait by spinning: with a process for every core they take the tests'
# time, ten times what one thread needs. (Libraries read this when they are loaded.)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import pytest

from theorylab.experiments.tree import Tree
from theorylab.lab.compilation import kept_compilations

TESTS = Path(__file__).parent
MODULES = itertools.count(1)
SLOW = {("test_docs.py",), ("models", "test_network.py")}

# Tests compile thousands of small programs and run each once: with little optimisation they take
# half the time. To unroll loops takes longer than it saves.
QUICK = (
    "--xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"
    " --xla_backend_extra_options=xla_cpu_disable_loop_unrolling=true"
    " --xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level="
)
# Experiments, and networks of full width, run long enough to be worth one level more.
LONG = (TESTS / "experiments", TESTS / "models/test_network.py")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# XLA's own caches (of GPUs) write the folder's path into the key of every program: then no process
# would find what another one has compiled.
jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how much XLA optimises, before anything is compiled; other processes inherit it."""
    if "XLA_FLAGS" not in os.environ and is_understood(config, QUICK + "0"):
        os.environ["XLA_FLAGS"] = QUICK + str(level(config))


def level(config: pytest.Config) -> int:
    """1 if all that was asked for runs long, else 0."""
    asked = [config.invocation_params.dir / str(each).split("::")[0] for each in config.args]
    return int(all(any(path.is_relative_to(long) for long in LONG) for path in asked))


def is_understood(config: pytest.Config, flags: str) -> bool:
    """Whether this version of jaxlib has the flags, which are XLA's own: an unknown one ends it."""
    tried, name = getattr(config, "cache", None), f"xla/{version('jaxlib')}"
    known = tried.get(name, {}) if tried else {}
    if flags not in known:
        program = [sys.executable, "-c", "import jax; jax.numpy.zeros(1)"]
        environment = os.environ | {"XLA_FLAGS": flags}
        ended = subprocess.run(program, env=environment, capture_output=True, check=False)
        known = {flags: ended.returncode == 0}
        if tried:
            tried.set(name, known)
    return known[flags]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file goes to one process as a whole: its tests share what was compiled."""
    from xdist.scheduler import LoadFileScheduling

    if config.getoption("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs experiments, by its path: `pytest -m "not experiments"` is the quick suite."""
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.experiments)


def is_slow(path: Path) -> bool:
    """Whether a test file runs an experiment, all blocks of the docs, or networks of full width."""
    if not path.is_relative_to(TESTS):
        return False
    parts = path.relative_to(TESTS).parts
    return (parts[:1] == ("experiments",) and len(parts) > 2) or parts in SLOW


def pytest_collection_finish() -> None:
    """What was imported stays: looking for garbage in it, over and over, took 4 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def kept_programs(pytestconfig: pytest.Config) -> Iterator[None]:
    """Nearly all of the tests' time is compiling: programs are kept in pytest's cache.

    Every process of pytest-xdist has a folder of its own, for JAX may read what another one has
    half written. It begins with the programs that all processes have finished before, and ends by
    adding its own to them: so it does not matter who runs which test the next time.
    `pytest --cache-clear` forgets them.
    """
    if (cache := getattr(pytestconfig, "cache", None)) is None:
        yield
        return
    folder = cache.mkdir("programs")
    own = folder / os.environ.get("PYTEST_XDIST_WORKER", "alone")
    shutil.rmtree(own, ignore_errors=True)
    link(folder / "finished", own / "compiled")
    with kept_compilations(own):
        yield
    if (own / "compiled").is_dir():  # else one of them was damaged: none is kept
        link(own / "compiled", folder / "finished")
    else:
        shutil.rmtree(folder / "finished", ignore_errors=True)


def link(source: Path, target: Path) -> None:
    """Let a folder have the files of another, under two names each."""
    target.mkdir(parents=True, exist_ok=True)
    have = set(os.listdir(target))
    for name in os.listdir(source) if source.is_dir() else ():
        if name not in have:
            with suppress(OSError):  # another process has done it, or is here no such thing
                os.link(source / name, target / name)


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Thousands of compiled programs fill gigabytes: forget them after every 40 modules."""
    yield
    if next(MODULES) % 40 == 0:
        jax.clear_caches()


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Experiments that take no time."""
    monkeypatch.setattr(sys, "path", [str(TESTS), *sys.path])
    return Tree(TESTS / "toylab/experiments", "toylab.experiments", ("toys/coin", "toys/dice"))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store and a cache of the test's own."""
    monkeypatch.setenv("THEORYLAB_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path
