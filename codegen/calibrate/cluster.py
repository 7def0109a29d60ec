"""Many cards at once through dask.distributed: one worker a card, fresh processes below it, results as they come.

A worker states what it has: `dask worker ADDRESS --nthreads 1 --resources "GPU=1 sm90=1"`, with CUDA_VISIBLE_DEVICES
set to its card. A task takes the whole GPU, so no cell is timed while another one runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .measure import MeasureError, patient

CHUNK = 16
"""Cells of a task: a lost worker costs so many at most, and a process starts once for so many."""
RETRIES = 3


def chunk(job: dict[str, Any]) -> list[dict[str, Any]]:
    """What a task runs on its worker."""
    return list(patient(job))


@contextmanager
def cluster_runner(address: str, arch: str) -> Iterator[Callable[[dict[str, Any]], Iterator[dict[str, Any]]]]:
    """A runner of jobs on the workers of a scheduler that have a card of this arch. MeasureError without any."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise MeasureError("--scheduler needs the package distributed (pip install distributed)") from None
    try:
        client = Client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise MeasureError(f"there is no scheduler at {address}: {error}") from None
    with client:
        needed = {"GPU": 1, arch: 1}
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if not any(all(w["resources"].get(k, 0) >= v for k, v in needed.items()) for w in workers):
            stated = " ".join(f"{k}={v}" for k, v in needed.items())
            raise MeasureError(f'no worker of {address} states the resources "{stated}"')

        def run(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
            items = job["items"]
            parts = [{**job, "items": items[i : i + CHUNK]} for i in range(0, len(items), CHUNK)]
            futures = client.map(chunk, parts, resources=needed, retries=RETRIES, pure=False)
            for future in as_completed(futures):
                try:
                    found = future.result()
                except Exception as error:
                    client.cancel(futures)
                    raise MeasureError(f"a task failed on its worker: {error}") from error
                yield from found

        yield run
