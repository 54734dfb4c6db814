"""A long life: an hour of real time, or a million runs and 100,000 edits on virtual time.

python -m benchmarks.soak --minutes 60
python -m benchmarks.soak --virtual
"""

from __future__ import annotations

import argparse
import gc
import os
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
from croniter import croniter

from weftjobs import ObservableArray, Row, RunContext, Scheduler, plan_row
from weftjobs.testing import VirtualClock

INTERVALS = (1, 2, 3, 5, 7, 10, 15, 30, 60)
"""Seconds; there are 20 rows of each."""

CRONS = ("* * * * *", "*/2 * * * *", "*/5 * * * *", "30 * * * *")
"""There are 5 rows of each."""

LATE = 50
"""So many ms after its slot a run counts as late."""

RUNS, EDITS, STEPS = 1_000_000, 100_000, 10

Note = dict[str, int]


def rows() -> list[Row]:
    """Return 200 rows, a third of which do nothing, wait, or run in a thread."""
    schedules = [{"every": 1000 * seconds} for seconds in INTERVALS for _ in range(20)]
    schedules += [{"cron": cron, "tz": "UTC"} for cron in CRONS for _ in range(5)]  # type: ignore[dict-item]
    kinds = ("at once", "waits", "thread")
    return [Row(each, kind=kinds[n % 3]) for n, each in enumerate(schedules)]


def slots(row: Row, start: int) -> Iterator[int]:
    """Yield the slots of a row past a start, found without the library."""
    if "every" in row:
        interval = row["every"]
        slot = start // interval * interval
        while True:
            slot += interval
            yield slot
    for moment in croniter(row["cron"], datetime.fromtimestamp(start / 1000, UTC)).all_next(float):
        yield round(moment * 1000)


class Log:
    """What has been run, against what was planned, in memory that does not grow."""

    def __init__(self, jobs: ObservableArray, start: int) -> None:
        self.planned = {row: slots(row, start) for row in jobs}
        self.next = {row: next(self.planned[row]) for row in jobs}
        self.fired = self.late = self.unplanned = self.missed = self.failed = 0
        self.worst = 0.0

    def take(self, row: Row, due: int) -> None:
        lateness = time.time_ns() / 1e6 - due
        self.fired += 1
        self.late += lateness > LATE
        self.worst = max(self.worst, lateness)
        self.skip_to(row, due)
        if due == self.next[row]:
            self.next[row] = next(self.planned[row])
        else:
            self.unplanned += 1

    def skip_to(self, row: Row, due: int) -> None:
        """Count as missed what was planned before."""
        while self.next[row] < due:
            self.missed += 1
            self.next[row] = next(self.planned[row])


def resident() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def soak(minutes: float) -> None:
    jobs = ObservableArray(rows())
    log = Log(jobs, time.time_ns() // 1_000_000)

    async def run(job: Row, context: RunContext) -> None:
        log.take(job, context.due)
        if job["kind"] == "waits":
            await anyio.sleep(0.3)
        elif job["kind"] == "thread":
            await anyio.to_thread.run_sync(time.sleep, 0.01)

    def failed(job: Row, error: Exception) -> None:
        log.failed += 1

    # Half a second past a full one, nothing is due when it ends.
    end = time.time_ns() // 1_000_000_000 * 1000 + round(minutes * 60_000) + 500
    before = time.process_time()
    memory = [resident()]
    print(f"{datetime.now(UTC):%H:%M} begins with {memory[0]:.1f} MB", flush=True)
    scheduler = Scheduler(jobs, run, failed=failed, plan=partial(plan_row, origin=0))
    async with scheduler:
        while (left := end / 1000 - time.time()) > 0:
            await anyio.sleep(min(left, 60))
            memory.append(resident())
            counts = f"{log.fired} fired, {log.late} late, worst {log.worst:.1f} ms"
            print(f"{datetime.now(UTC):%H:%M} {counts}, {memory[-1]:.1f} MB", flush=True)
    for row in jobs:
        log.skip_to(row, end)
    spent = time.process_time() - before
    planned = log.fired - log.unplanned + log.missed
    print(f"""
| over {minutes:g} minutes, 200 rows | |
|---|---|
| fires planned | {planned:,} |
| fired | {log.fired:,} |
| missed | {log.missed} |
| repeated, or not planned | {log.unplanned} |
| failed | {log.failed} |
| late by more than {LATE} ms | {log.late} |
| latest start | {log.worst:.1f} ms |
| memory at the start | {memory[0]:.1f} MB |
| memory after a minute | {memory[1]:.1f} MB |
| memory at the end | {memory[-1]:.1f} MB |
| CPU | {spent / (minutes * 60):.2%} of a core |""")


async def virtual() -> None:
    print("| runs | edits | memory, kB | timers in the heap |")
    print("|---|---|---|---|")
    clock = VirtualClock(0)
    jobs = ObservableArray([Row(every=1), Row(every="1h")])
    count = 0

    async def run(job: Row, context: RunContext) -> None:
        nonlocal count
        count += 1

    async with Scheduler(jobs, run, clock=clock) as scheduler:
        await clock.advance(1000)
        tracemalloc.start()
        count = 0
        for step in range(STEPS + 1):
            gc.collect()
            memory = tracemalloc.get_traced_memory()[0] / 1000
            heap = len(scheduler._timers._heap)
            print(f"| {count:,} | {step * EDITS // STEPS:,} | {memory:.1f} | {heap} |", flush=True)
            if step == STEPS:
                break
            for edit in range(EDITS // STEPS):
                jobs[1]["every"] = 3_600_000 + edit
            await clock.advance(RUNS // STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long on the real clock")
    parser.add_argument("--virtual", action="store_true", help="on virtual time instead")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    given = parser.parse_args()
    if given.minutes <= 0:
        parser.error(f"--minutes: {given.minutes:g} is not more than 0")
    work = virtual if given.virtual else partial(soak, given.minutes)
    anyio.run(work, backend=given.backend)


if __name__ == "__main__":
    main()
