"""What the contestants are put to. Each workload returns its figures by name."""

from __future__ import annotations

import gc
import math
import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from benchmarks.contestants import Entry, now

Figures = dict[str, float]

MANY = 10_000
"""How many jobs there are, unless a workload says otherwise."""


def ignore(due: int) -> None:
    """Do nothing in a run that is never due."""


def cpu(work: Callable[[], object]) -> float:
    """Return how many seconds of CPU some work takes."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


async def churn(entry: Entry, count: int = MANY) -> Figures:
    """Add jobs, reschedule each, remove each from the last to the first: µs of CPU for one."""
    async with entry.start(ignore, 0, False) as contestant:
        warm = [contestant.reschedule(contestant.add(-n), n) for n in range(1, 300)]
        for job in warm:
            contestant.remove(job)
        jobs: list[object] = []

        def add() -> None:
            jobs.extend(map(contestant.add, range(count)))

        def reschedule() -> None:
            jobs[:] = map(contestant.reschedule, jobs, range(count))

        def remove() -> None:
            for job in reversed(jobs):
                contestant.remove(job)

        steps = {"add": add, "reschedule": reschedule, "remove": remove}
        figures = {}
        for name, step in steps.items():
            figures[name] = cpu(step) / count * 1e6
            await anyio.lowlevel.checkpoint()
        return figures


async def memory(entry: Entry) -> Figures:
    """Bytes that a job takes, all allocations of the process counted."""
    async with entry.start(ignore, 0, False) as contestant:
        contestant.add(0)
        await anyio.sleep(0.1)
        tracemalloc.start()
        jobs = [contestant.add(number) for number in range(1, MANY + 1)]
        await anyio.sleep(0.1)
        del jobs
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return {"bytes": size / MANY}


class Meter:
    """Counts runs, takes down how late in ms each started, and tells when all have."""

    def __init__(self, count: int) -> None:
        self.late: list[float] = []
        self.left = count

    def fired(self, due: int) -> None:
        self.late.append(time.time_ns() / 1e6 - due)
        self.left -= 1

    async def wait(self) -> None:
        while self.left > 0:  # noqa: ASYNC110 - a run may be in a thread
            await anyio.sleep(0.01)


async def at_once(entry: Entry, *, wait: float, lead: int) -> tuple[float, float]:
    """Have all jobs due at one instant; return the CPU of it in seconds, and the last start."""
    meter = Meter(MANY)
    async with entry.start(meter.fired, wait, False) as contestant:
        due = now() + lead
        for _ in range(MANY):
            contestant.add_at(due)
        await contestant.begin()
        gc.collect()
        left = due / 1000 - time.time() - 0.1
        assert left > 0, "adding took longer than the lead"
        await anyio.sleep(left)
        start = time.process_time()
        await meter.wait()
        spent = time.process_time() - start
        # Those that wait end of themselves: none is cancelled.
        await anyio.sleep(2 * wait)
    assert meter.left == 0, "a job ran twice"
    return spent, max(meter.late)


async def burst(entry: Entry) -> Figures:
    """Run all jobs at one instant, each doing nothing: µs of CPU for a run."""
    spent, _ = await at_once(entry, wait=0, lead=3_000)
    return {"burst": spent / MANY * 1e6}


async def controllers(entry: Entry) -> Figures:
    """Run as many methods at one instant, each doing nothing: µs of CPU for a run."""
    spent, _ = await at_once(entry, wait=0, lead=8_000)
    return {"method": spent / MANY * 1e6}


async def waiting(entry: Entry) -> Figures:
    """Run all jobs at one instant, each waiting 0.3 s: ms until the last has started."""
    _, last = await at_once(entry, wait=0.3, lead=3_000)
    return {"last start": last}


async def trickle(entry: Entry, seconds: int = 5) -> Figures:
    """Run 1,000 jobs a second, one each ms: lateness in ms, CPU in ms a second, faults."""
    dues: Counter[int] = Counter()
    meter = Meter(1000 * seconds)

    def fired(due: int) -> None:
        dues[due] += 1
        meter.fired(due)

    async with entry.start(fired, 0, True) as contestant:
        start = now() + 3_000
        for number in range(1000):
            contestant.add_every(1000, start + number)
        await contestant.begin()
        gc.collect()
        await anyio.sleep(start / 1000 - time.time() - 0.1)
        before = time.process_time()
        await anyio.sleep(start / 1000 + seconds + 0.2 - time.time())
        spent = time.process_time() - before
    planned = range(start, start + 1000 * seconds)
    return {
        "p99 late": statistics.quantiles(meter.late, n=100)[-1],
        "trickle cpu": spent * 1000 / (seconds + 0.2),
        "missed": sum(1 for due in planned if not dues[due]),
        "repeated": sum(count - 1 for count in dues.values()),
    }


async def idle(entry: Entry) -> Figures:
    """Have 100,000 jobs far from due: ms of CPU in 10 s."""
    async with entry.start(ignore, 0, False) as contestant:
        for number in range(100_000):
            contestant.add(number)
        await contestant.begin()
        await anyio.sleep(1)
        gc.collect()
        gc.freeze()
        before = time.process_time()
        await anyio.sleep(10)
        return {"idle cpu": (time.process_time() - before) * 1000}


async def growth(entry: Entry) -> Figures:
    """Churn with 1,000 and with 100,000 jobs: how steeply the cost of a step grows.

    A slope of 0 is a cost that stays the same, 1 one in proportion to the number of jobs.
    """
    small = [await churn(entry, 1_000) for _ in range(5)]
    large = await churn(entry, 100_000)
    return {
        f"{name} slope": math.log10(cost / statistics.median(each[name] for each in small)) / 2
        for name, cost in large.items()
    }


WORKLOADS: dict[str, Callable[[Entry], Awaitable[Figures]]] = {
    "churn": churn,
    "memory": memory,
    "burst": burst,
    "waiting": waiting,
    "trickle": trickle,
    "idle": idle,
    "growth": growth,
    "controllers": controllers,
}
