"""What the scheduler costs beside the least that could do the work.

    python benchmarks/core.py [--backend trio] [--quick]

The bare loop is a heap of due times, a dictionary of rows and one task for each fire. Both
are measured in one run, in turns, and the medians are printed with their ratio.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import itertools
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel

from weftjobs import ObservableArray, Row, RunContext, Scheduler

ROUNDS = 5
FAR = 86_400_000


def now() -> int:
    return time.time_ns() // 1_000_000


class BareLoop:
    """A heap, a dictionary, a task for each fire, and nothing else."""

    def __init__(self, run: Callable[[dict[str, Any], int], Awaitable[None]]) -> None:
        self.run = run
        self.rows: dict[int, dict[str, Any]] = {}
        self.heap: list[tuple[int, int]] = []
        self.order = itertools.count()

    def add(self, row: dict[str, Any], due: int) -> None:
        number = next(self.order)
        self.rows[number] = row
        heapq.heappush(self.heap, (due, number))

    async def serve(self, fires: int) -> None:
        async with anyio.create_task_group() as tasks:
            start = native_starter(tasks)
            while fires:
                due, number = self.heap[0]
                late = now() - due
                if late < 0:
                    await anyio.sleep(-late / 1000)
                    continue
                heapq.heappop(self.heap)
                row = self.rows[number]
                start(self.run, row, due)
                fires -= 1
                if "every" in row:
                    heapq.heappush(self.heap, (due + row["every"], number))


def native_starter(tasks: anyio.abc.TaskGroup) -> Callable[..., object]:
    """Start a task as cheaply as the event loop can: anyio's own way costs five times that."""
    loop: Any = anyio.lowlevel.current_token().native_token
    if not hasattr(loop, "create_task"):
        return tasks.start_soon
    held: set[object] = set()

    def start(function: Callable[..., Any], *arguments: object) -> None:
        task = loop.create_task(function(*arguments))
        held.add(task)
        task.add_done_callback(held.discard)

    return start


async def nothing(job: Row, context: RunContext) -> None:
    """A run that does nothing."""


def measured(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


async def add(count: int) -> Iterator[float]:
    """Microseconds to add one row far ahead: bare, then scheduled."""
    bare = BareLoop(lambda row, due: anyio.lowlevel.checkpoint())

    def add_bare() -> None:
        for number in range(count):
            bare.add({"name": "job", "every": FAR + number % 500}, now() + FAR + number)

    jobs = ObservableArray()

    def add_rows() -> None:
        for number in range(count):
            jobs.append(Row(name="job", every=FAR + number % 500))

    async with Scheduler(jobs, nothing):
        return iter([measured(add_bare) / count * 1e6, measured(add_rows) / count * 1e6])


async def edit(count: int) -> float:
    """Microseconds to edit the schedule of one of so many rows."""
    jobs = ObservableArray(Row(name="job", every=FAR + number % 500) for number in range(count))
    rows = list(jobs)[:: max(count // 1000, 1)]

    def edit_rows() -> None:
        for row in rows:
            row["every"] = row["every"] + 1

    async with Scheduler(jobs, nothing):
        return measured(edit_rows) / len(rows) * 1e6


async def size(count: int) -> Iterator[float]:
    """Bytes that a row takes: bare, then scheduled."""
    sizes = []
    tracemalloc.start()
    bare = BareLoop(lambda row, due: anyio.lowlevel.checkpoint())
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        bare.add({"name": "job", "every": FAR + number % 500}, now() + FAR + number)
    sizes.append((tracemalloc.get_traced_memory()[0] - before) / count)
    jobs = ObservableArray()
    async with Scheduler(jobs, nothing):
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            jobs.append(Row(name="job", every=FAR + number % 500))
        sizes.append((tracemalloc.get_traced_memory()[0] - before) / count)
    tracemalloc.stop()
    return iter(sizes)


async def burst(count: int) -> Iterator[float]:
    """Microseconds of CPU a fire takes when all are due at once: bare, then scheduled."""
    left = count
    done = anyio.Event()

    def fired() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async def bare_run(row: dict[str, Any], due: int) -> None:
        fired()

    async def run(job: Row, context: RunContext) -> None:
        fired()

    due = now() + 300
    bare = BareLoop(bare_run)
    for _ in range(count):
        bare.add({"name": "job", "at": due}, due)
    gc.collect()
    start = time.process_time()
    await bare.serve(count)
    await done.wait()
    costs = [(time.process_time() - start) / count * 1e6]

    left, done = count, anyio.Event()
    due = now() + 600
    jobs = ObservableArray(Row(name="job", at=due) for _ in range(count))
    async with Scheduler(jobs, run):
        gc.collect()
        start = time.process_time()
        await done.wait()
        costs.append((time.process_time() - start) / count * 1e6)
    return iter(costs)


async def lateness(seconds: int) -> Iterator[float]:
    """The 99th percentile, in ms, of how late 1,000 rows a second start: bare, then scheduled."""
    fires = 1000 * seconds
    late: list[float] = []
    full = anyio.Event()

    def fired(due: int) -> None:
        late.append(time.time_ns() / 1e6 - due)
        if len(late) == fires:
            full.set()

    async def bare_run(row: dict[str, Any], due: int) -> None:
        fired(due)

    async def run(job: Row, context: RunContext) -> None:
        fired(context.due)

    start = now() + 500
    bare = BareLoop(bare_run)
    for number in range(1000):
        bare.add({"name": "job", "every": 1000}, start + number)
    await bare.serve(fires)
    await full.wait()
    results = [statistics.quantiles(late, n=100)[-1]]

    late, full = [], anyio.Event()
    start = now() + 500
    jobs = ObservableArray(
        Row(name="job", every=1000, phase=start + number) for number in range(1000)
    )
    async with Scheduler(jobs, run, plan=phased):
        await full.wait()
    results.append(statistics.quantiles(late[:fires], n=100)[-1])
    return iter(results)


def phased(row: Row) -> Any:
    from weftjobs import Every

    return Every(row["every"], origin=row["phase"])


async def compare(name: str, unit: str, aim: str, work: Callable[[], Awaitable[Any]]) -> None:
    pairs = [tuple(await work()) for _ in range(ROUNDS)]
    bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    row = f"{name:<34}{bare:>10.2f}{ours:>12.2f} {unit:<6}{ours / bare:>7.2f}   {aim}"
    print(row.rstrip(), flush=True)


async def growth(name: str, work: Callable[[int], Awaitable[float]]) -> None:
    small, large = [], []
    for _ in range(ROUNDS):
        small.append(await work(1_000))
        large.append(await work(100_000))
    few, many = statistics.median(small), statistics.median(large)
    print(f"{name:<34}{few:>10.2f}{many:>12.2f} {'µs':<6}{many / few:>7.2f}", flush=True)


async def added(count: int) -> float:
    return list(await add(count))[1]


async def main(quick: bool) -> None:
    count = 10_000 if quick else 100_000
    print(f"{'':<34}{'bare loop':>10}{'weftjobs':>12} {'':<6}{'ratio':>7}   aim")
    await compare("add a row", "µs", "<= 6", lambda: add(count))
    await compare("bytes per row", "B", "", lambda: size(count))
    await compare("burst of 10,000, a fire", "µs", "<= 2", lambda: burst(10_000))
    seconds = 1 if quick else 3
    await compare("1,000 rows a second, p99 late", "ms", "<= 2", lambda: lateness(seconds))
    print(f"\n{'growth':<34}{'1,000 rows':>10}{'100,000':>12} {'':<6}{'ratio':>7}")
    await growth("add a row", added)
    await growth("edit the schedule of a row", edit)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    anyio.run(main, arguments.quick, backend=arguments.backend)
