"""Threads of XLA, which must be enough before it starts.

XLA on CPUs deals a batch of factorisations (a mapped `eigh`, `cholesky` or `solve`) to its pool of
threads and waits for them in it. As many batches at once as there are threads wait for each other
for ever; on two cores, two do. The size of the pool is read from the environment once, when the
first array is made; so importing `theorylab` sees to it, for whoever computes without the shell.
"""

import os

LEAST_THREADS = 4  # of XLA's pool


def ready_threads() -> None:
    """See to it that XLA has threads enough, if it has not started and nobody said how many.

    Example:
        >>> ready_threads()
        >>> (os.cpu_count() or 1) >= LEAST_THREADS or "NPROC" in os.environ
        True
    """
    if (os.cpu_count() or 1) < LEAST_THREADS:
        os.environ.setdefault("NPROC", str(LEAST_THREADS))


ready_threads()
