"""A worker of a Dask cluster on this machine: it ends with the sweep that has started it."""

import asyncio
import sys

from .process import end_with_driver


def main() -> None:
    """Work for the scheduler whose address is the argument."""
    end_with_driver()
    asyncio.run(_work(sys.argv[1]))


async def _work(address: str) -> None:
    from distributed import Worker

    async with Worker(address, nthreads=1, memory_limit=0, dashboard=False) as worker:
        await worker.finished()
