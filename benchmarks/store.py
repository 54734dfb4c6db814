"""What keeping the rows in a file costs.

    python benchmarks/store.py [--quick]

Commits with and without a store, at 100 and at 100,000 rows; a burst of runs with and without
it; and how long a long list takes to open. Medians of five rounds, in turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.stores import open_store

ROUNDS = 5

Use = Callable[[ObservableArray], Awaitable[float]]


async def in_memory(use: Use, rows: int) -> float:
    return await use(ObservableArray(Row(n=number, every="30d") for number in range(rows)))


async def stored(use: Use, rows: int, options: str = "") -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"sqlite:///{folder}/jobs.db{options}") as store:
            jobs = await store.open("jobs")
            jobs.extend([Row(n=number, every="30d") for number in range(rows)])
            await store.settled()
            return await use(jobs)


async def durable(use: Use, rows: int) -> float:
    return await stored(use, rows, "?synchronous=full")


async def microseconds_per_commit(jobs: ObservableArray) -> float:
    jobs.observe(lambda commit: None)
    row, count = jobs[len(jobs) // 2], 2_000
    begun = time.perf_counter()
    for number in range(count):
        row["n"] = -number
    return (time.perf_counter() - begun) / count * 1e6


async def microseconds_per_run(jobs: ObservableArray) -> float:
    done = 0
    count = len(jobs)
    finished = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        nonlocal done
        done += 1
        if done == count:
            finished.set()

    async with Scheduler(jobs, run) as scheduler:
        begun = time.perf_counter()
        for row in jobs:
            scheduler.run_now(row)
        await finished.wait()
        took = time.perf_counter() - begun
    return took / count * 1e6


async def seconds_to_open(rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        async with open_store(url) as store:
            (await store.open("jobs")).extend([Row(n=n, every="30d") for n in range(rows)])
        begun = time.perf_counter()
        async with open_store(url) as store:
            await store.open("jobs")
            return time.perf_counter() - begun


async def main(rounds: int) -> None:
    kinds = {"memory": in_memory, "store": stored, "synchronous=full": durable}
    cases: dict[str, tuple[Use, int]] = {
        "a commit at 100 rows, µs": (microseconds_per_commit, 100),
        "a commit at 100,000 rows, µs": (microseconds_per_commit, 100_000),
        "a run in a burst of 5,000, µs": (microseconds_per_run, 5_000),
    }
    print(f"{'':<34}" + "".join(f"{kind:>18}" for kind in kinds))
    for name, (use, rows) in cases.items():
        figures: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, place in kinds.items():
                figures[kind].append(await place(use, rows))
        medians = (statistics.median(each) for each in figures.values())
        print(f"{name:<34}" + "".join(f"{median:>18.1f}" for median in medians))
    took = statistics.median([await seconds_to_open(100_000) for _ in range(rounds)])
    print(f"{'open 100,000 rows, s':<34}{'':>18}{took:>18.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    anyio.run(main, 1 if parser.parse_args().quick else ROUNDS)
