"""How much memory there is, so that what cannot fit is refused before any work, and not killed."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import jax

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")


def available_memory() -> int | None:
    """Bytes that are free where JAX keeps its arrays; None if the system does not say."""
    device = jax.devices()[0].memory_stats()
    if device and "bytes_limit" in device:
        return device["bytes_limit"] - device.get("bytes_in_use", 0)
    limits = [limit for limit in (_free_in_machine(), *_free_in_groups()) if limit is not None]
    return min(limits, default=None)


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
