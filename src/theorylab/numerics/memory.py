"""How much memory is free, so that what cannot fit is refused before any work."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")


def available_memory() -> int | None:
    """Bytes that are free where JAX keeps its arrays; None if the system does not say.

    Example:
        >>> free = available_memory()
        >>> free is None or free > 0
        True
    """
    device = jax.devices()[0].memory_stats()
    if device and "bytes_limit" in device:
        return device["bytes_limit"] - device.get("bytes_in_use", 0)
    limits = [limit for limit in (_free_in_machine(), *_free_in_groups()) if limit is not None]
    return min(limits, default=None)


def traced_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Bytes that a function of JAX needs at most at one time, read off its program, not run.

    The function is traced, and the arrays that are alive together are counted, as if no two
    operations were fused into one: loops need what one of their steps needs.

    Args:
        function: Must be traceable by JAX: it computes with `jax.numpy` alone.
        arguments: What it is called with; these are no tracers, so they may be settings.

    Raises:
        TypeError: It cannot be traced.

    Example:
        >>> traced_bytes(lambda n: jax.numpy.ones((n, n)).sum(), 1000) >= 4_000_000
        True
    """
    try:
        program = jax.make_jaxpr(lambda: function(*arguments))()
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        what = getattr(function, "__module__", function)
        raise TypeError(f"{what} cannot be traced, so it needs memory(config): {error}") from None
    return _peak(program.jaxpr)


def _peak(program: Any) -> int:
    """The largest sum of the sizes of all arrays of a program that are alive together."""
    last = {}
    for place, step in enumerate(program.eqns):
        last |= {id(each): place for each in step.invars}
    last |= {id(each): len(program.eqns) for each in program.outvars}
    alive = {id(each): _bytes(each) for each in (*program.constvars, *program.invars)}
    now = peak = sum(alive.values())
    for place, step in enumerate(program.eqns):
        made = {id(each): _bytes(each) for each in step.outvars}
        inside = max((_peak(inner) - _inputs(inner) for inner in _inner(step)), default=0)
        alive |= made
        now += sum(made.values())
        peak = max(peak, now + inside)
        done = [each for each in alive if last.get(each, place) <= place]
        now -= sum(alive.pop(each) for each in done)
    return peak


def _inner(step: Any) -> Iterator[Any]:
    """The programs inside an operation: bodies of loops, branches, jitted functions."""
    for value in step.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            program = getattr(each, "jaxpr", each)
            if hasattr(program, "eqns"):
                yield program


def _inputs(program: Any) -> int:
    return sum(_bytes(each) for each in program.invars)


def _bytes(variable: Any) -> int:
    aval = variable.aval
    return aval.size * aval.dtype.itemsize if hasattr(aval, "dtype") else 0


def readable(num_bytes: int) -> str:
    """Write a number of bytes with a unit.

    Example:
        >>> readable(512), readable(21_400_000_000), readable(10**30)
        ('512 bytes', '21 GB', '1000000 YB')
    """
    power = min((len(str(num_bytes)) - 1) // 3, len(_UNITS) - 1)
    return f"{num_bytes // 1000**power} {_UNITS[power]}"


def _free_in_machine() -> int | None:
    """Memory that Linux could give out now; elsewhere all there is."""
    with suppress(OSError):  # not on Linux
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _free_in_groups() -> Iterator[int]:
    """What is left to this process of the limits of its control groups: those of a container."""
    mount = Path("/sys/fs/cgroup")
    try:
        inner = Path("/proc/self/cgroup").read_text().partition("0::/")[2].strip()
    except OSError:
        return
    group = mount / inner
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mount):
            break
        try:
            limit = int((folder / "memory.max").read_text())  # "max" where there is no limit
            used = int((folder / "memory.current").read_text())
            statistics = dict(
                line.split() for line in (folder / "memory.stat").read_text().splitlines()
            )
        except (OSError, ValueError):
            continue
        yield max(limit - used + int(statistics.get("inactive_file", 0)), 0)
