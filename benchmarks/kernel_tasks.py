"""What `kernels.py` and `kernels_neural_tangents.py` share: the tasks, their data, the measuring.

Needs NumPy only, so that it runs in both environments.
"""

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CORNER = 20  # of a kernel, by which contenders are compared


class Task(NamedTuple):
    """A kernel to be computed, in float32.

    Args:
        kind: dense, flat, myrtle or pooled (infinite width); mlp or cnn (finite); sampled.
        limit: What share of its time we may take.
        num_samples: n; the kernel is n × n.
        size: Of images, in pixels.
        width: Of finite networks.
        num_outputs: Of finite networks.
        batch: In what pieces Neural Tangents is to do it, where memory demands it; 0: in one.
        ways: The implementations of Neural Tangents that are run; the best one counts.
    """

    kind: str
    limit: float
    num_samples: int
    size: int = 0
    width: int = 0
    num_outputs: int = 1
    batch: int = 0
    ways: tuple[str, ...] = ("default",)


FACTORS, ANY = ("structured", "auto"), ("jacobian", "structured", "auto")
TASKS = {
    "dense n=5000": Task("dense", 1 / 3, 5000),
    "flat 8px": Task("flat", 1 / 2, 100, 8),
    "flat 16px": Task("flat", 1 / 2, 100, 16),
    "flat 28px": Task("flat", 1 / 2, 100, 28),
    "myrtle 8px": Task("myrtle", 1 / 10, 40, 8),
    "myrtle 16px": Task("myrtle", 1 / 10, 20, 16, batch=10),
    "myrtle 28px": Task("myrtle", 1 / 10, 8, 28, batch=4),
    "pooled 8px": Task("pooled", 1 / 10, 40, 8),
    "pooled 16px": Task("pooled", 1 / 10, 20, 16, batch=10),
    "pooled 28px": Task("pooled", 1 / 10, 4, 28),
    "mlp 512, 1 output": Task("mlp", 1, 200, width=512, ways=FACTORS),
    "mlp 512, 10 outputs": Task("mlp", 1, 200, width=512, num_outputs=10, ways=FACTORS),
    "mlp 2048, 1 output": Task("mlp", 1, 200, width=2048, ways=FACTORS),
    "mlp 2048, 10 outputs": Task("mlp", 1, 200, width=2048, num_outputs=10, ways=FACTORS),
    "cnn, 1 output": Task("cnn", 1, 100, 16, 32, ways=ANY),
    "cnn, 10 outputs": Task("cnn", 1, 100, 16, 32, 10, ways=ANY),
    "sampled, 16 draws": Task("sampled", 1 / 4, 100, width=512),
}


def inputs(task: Task) -> np.ndarray:
    """Random vectors of 784 numbers, or colour images."""
    shape = (task.size, task.size, 3) if task.size else (784,)
    generator = np.random.default_rng(0)
    return generator.normal(size=(task.num_samples, *shape)).astype(np.float32)


def weights(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Standard normal numbers, the same for everybody."""
    generator = np.random.default_rng(1)
    return [generator.normal(size=shape).astype(np.float32) for shape in shapes]


def measure(compute: Callable[[], Any], wait: Callable[[Any], Any], corner: Path) -> str:
    """Run the first time and again, and say the seconds of all threads and the peak of memory.

    Args:
        compute: Makes the kernel.
        wait: Waits until it is there.
        corner: Where the first rows and columns go, to be compared.
    """
    _forget_peak()
    before, start = _memory("VmRSS"), _cpu()
    kernel = np.asarray(wait(compute()))
    first = _cpu() - start
    peak = _memory("VmHWM") - before - kernel.nbytes / 2**20
    np.save(corner, kernel[:CORNER, :CORNER])
    del kernel
    times, begin = [], time.perf_counter()
    while len(times) < 5 and (not times or time.perf_counter() - begin < 20):
        start = _cpu()
        wait(compute())
        times.append(_cpu() - start)
    return json.dumps({"first": first, "again": min(times), "peak": peak})


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")  # Linux; see proc(5)


def _memory(field: str) -> float:
    """Resident megabytes: now (VmRSS), or at their peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1]) / 1024
