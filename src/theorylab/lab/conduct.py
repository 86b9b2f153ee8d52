"""Conduct an experiment: run it, judge its claims, draw its figure.

    experiment + config ─► Result ─► findings, arrays, figure ─► Outcome

The precision is set here, never at import. Same config, same numbers.
"""

import dataclasses
import io
import math
import platform
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import matplotlib
import numpy as np
from matplotlib.figure import Figure

import theorylab
from theorylab.answers import Answer
from theorylab.answers.base import fields_of
from theorylab.claims.claim import Claim, Demand, Finding, Verdict
from theorylab.claims.regime import fulfils
from theorylab.experiments.drawing import tidy_ticks
from theorylab.experiments.entry import Entry
from theorylab.experiments.reader import read
from theorylab.numerics.memory import available_memory, readable, traced_bytes
from theorylab.progress import report

from .failure import Refused, RunFailed, one_line
from .key import key
from .outcome import Judged, Outcome
from .requests import as_json

_BYTES_OF_ONE = 64  # a seed's key and some measurements, or a step's


def conduct(experiment: ModuleType, config: Any, preset: str = "default") -> Outcome:
    """Run an experiment, judge every claim, draw.

    A judge or a drawing that fails costs nothing of what was measured: such a claim is
    inconclusive, such a figure is empty, and the outcome says why and is not as expected.

    Args:
        experiment: The module: `Config`, `run`, `CLAIMS`, `plot`.
        config: An instance of its `Config`.
        preset: The preset from which the config was made; only a label.

    Raises:
        Refused: The config needs more memory than there is; nothing was run.
        RunFailed: The run raised; says why.
    """
    entry = read(Path(str(experiment.__file__)))
    require_memory(entry, experiment, config)
    values = as_json(dataclasses.asdict(config))
    return perform(entry, experiment, config, preset, key(entry, experiment.__name__, values))


def perform(
    entry: Entry,
    experiment: ModuleType,
    config: Any,
    preset: str,
    name: str,
    with_figure: bool = True,
) -> Outcome:
    """Run, judge and draw what was read and checked already.

    Args:
        entry: The experiment, read.
        experiment: Its module.
        config: An instance of its `Config`.
        preset: The preset from which the config was made; only a label.
        name: The key, of the code as it was before the run.
        with_figure: Whether to draw. A sweep does not: a figure takes longer than a small run, and
            can be drawn from the arrays at any time.

    Raises:
        RunFailed: The run raised; says why.
    """
    began = time.perf_counter()
    with precision(entry.precision):
        with _naming(f"{entry.name} failed"):
            result = as_numpy(experiment.run(config))
            arrays = arrays_of(result)
        report("judging", 1.0)
        judged = tuple(judge(entry, claim, result, config) for claim in experiment.CLAIMS)
        figure, failure = "", ""
        try:
            figure = draw(experiment, result, config) if with_figure else ""
        except Exception as error:
            failure = f"the figure failed: {reason(error, entry.path)}"
    return Outcome(
        experiment=entry.name,
        title=entry.title,
        description=entry.description,
        formula=entry.formula,
        preset=preset,
        config=as_json(dataclasses.asdict(config)),
        judged=judged,
        arrays=arrays,
        figure=figure,
        seconds=time.perf_counter() - began,
        environment=environment() | {"precision": entry.precision},
        key=name,
        failure=failure,
        sources=dict(entry.sources),
    )


def configure(entry: Entry, experiment: ModuleType, values: Mapping[str, Any]) -> Any:
    """Make a config of an experiment.

    Raises:
        Refused: A value is outside its domain.
    """
    try:
        return experiment.Config(**values)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(f"{entry.name}: {one_line(error)}") from None


def require_memory(entry: Entry, experiment: ModuleType, config: Any) -> None:
    """Refuse a config that would need more memory than there is."""
    available = available_memory()
    needed = counted_bytes(entry, config)
    try:
        # An estimate reads tables of its counts, and must not fill the memory with them.
        if available is None or needed <= available:
            needed += needed_bytes(entry, experiment, config)
    except (OverflowError, MemoryError) as error:
        raise Refused(f"{entry.name}: its sizes are too large ({one_line(error)}).") from None
    if available is not None and needed > available:
        raise Refused(
            f"{entry.name} must fit into the {readable(available)} of memory that are free,"
            f" got a config that needs about {readable(needed)}."
        )


def counted_bytes(entry: Entry, config: Any) -> int:
    """Bytes for what a config counts: steps, seeds and samples are listed somewhere, one by one.

    Estimates speak of the arrays that are large at the presets' sizes; this bounds every other one,
    so that no count comes near what fits into 32 bits.
    """
    counts = [getattr(config, field.name) for field in entry.fields if field.shape.kind is int]
    seed = getattr(config, "seed", 0)
    whole = sum(max(count, default=0) if isinstance(count, tuple) else count for count in counts)
    return _BYTES_OF_ONE * max(whole - seed, 0)


def needed_bytes(entry: Entry, experiment: ModuleType, config: Any) -> int:
    """Estimate how many bytes a run needs.

    An experiment may say it in `memory(config)`; where it does not, they are counted in the program
    that its `run` is.
    """
    if hasattr(experiment, "memory"):
        return int(experiment.memory(config))
    with precision(entry.precision):
        return traced_bytes(experiment.run, config)


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Compute in "float64" or "float32", on every device in all its digits."""
    with jax.enable_x64(name == "float64"), jax.default_matmul_precision("highest"):
        yield


def judge(entry: Entry, claim: Claim, result: Any, config: Any) -> Judged:
    """Judge one claim by what was measured; a judge that fails leaves it inconclusive."""
    try:
        if not fulfils(dataclasses.asdict(config), claim.regime):
            needed = f"needs {claim.regime}"
            finding = _without_number(Verdict.NOT_JUDGED, needed)
        else:
            finding = claim.judge(result, config)
        if not isinstance(finding, Finding):
            raise TypeError(f"a judge must return a Finding, got {type(finding).__name__}.")
    except Exception as error:
        why = f"the judge failed: {reason(error, entry.path)}"
        finding = _without_number(Verdict.INCONCLUSIVE, why)
    return Judged(
        statement=claim.statement,
        formula=claim.formula,
        source=claim.source,
        kind=claim.kind,
        expected=Verdict(claim.expected),
        finding=finding,
        quote=claim.quote,
        regime=claim.regime,
        why=claim.why,
        demand=claim.demand,
    )


def _without_number(verdict: Verdict, why: str) -> Finding:
    return Finding(math.nan, math.nan, math.nan, Demand(), verdict, why)


def as_numpy(result: Any) -> Any:
    """A result with NumPy's arrays in place of JAX's, in all its records.

    Example:
        >>> as_numpy({"loss": jax.numpy.ones(2), "name": "mlp"})
        {'loss': array([1., 1.]), 'name': 'mlp'}
    """
    if isinstance(result, jax.Array):
        return np.asarray(result)
    if isinstance(result, Answer):
        return result.replace(**as_numpy(fields_of(result)))
    if hasattr(result, "_asdict"):
        return type(result)(**{name: as_numpy(value) for name, value in result._asdict().items()})
    if isinstance(result, dict):
        return {name: as_numpy(value) for name, value in result.items()}
    return result


def arrays_of(result: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Everything a `Result` holds, by name; a result inside a result gives "outer.inner".

    Example:
        >>> arrays_of({"loss": [1.0, 0.5], "fit": {"slope": -0.5}})
        {'loss': array([1. , 0.5]), 'fit.slope': array(-0.5)}
    """
    arrays: dict[str, np.ndarray] = {}
    for name, value in _parts(result).items():
        if hasattr(value, "_asdict") or isinstance(value, dict | Answer):
            arrays |= arrays_of(value, f"{prefix}{name}.")
            continue
        array = np.asarray(value)
        if array.dtype.kind not in "biufcU":
            must = "must be numbers or text to be stored without pickle"
            raise TypeError(f"{prefix}{name} {must}, got {array.dtype}.")
        arrays[prefix + name] = array
    return arrays


def _parts(result: Any) -> dict[str, Any]:
    """What a record or a dict holds, by name."""
    if isinstance(result, Answer):
        return fields_of(result)
    return result._asdict() if hasattr(result, "_asdict") else result


def draw(experiment: ModuleType, result: Any, config: Any) -> str:
    """The figure as SVG; the same bytes whenever and wherever the result is the same."""
    file = io.StringIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "theorylab"
        drawn_figure(experiment, result, config).savefig(
            file, format="svg", metadata={"Date": None}
        )
    return file.getvalue()


def drawn_figure(experiment: ModuleType, result: Any, config: Any) -> Figure:
    """The figure of an experiment, with its ticks set."""
    figure = experiment.plot(result, config)
    tidy_ticks(figure)
    return figure


def environment() -> dict[str, str]:
    """What the numbers were computed with."""
    return {
        "theorylab": theorylab.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": jax.default_backend(),
    }


def reason(error: Exception, path: Path) -> str:
    """What was raised, and where in the experiment's file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
    place = f" ({path.name}:{lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {one_line(error)}{place}"


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Say what failed, whatever is raised."""
    try:
        yield
    except Exception as error:
        raise RunFailed(f"{what}: {type(error).__name__}: {one_line(error)}") from error
