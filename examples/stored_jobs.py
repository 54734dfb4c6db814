"""A schedule that survives a restart: an edit, a one-off, and what became of it all.

The program runs three lives of the same schedule over one file. Time is driven by hand, so
that it ends at once.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime

import anyio

from weftjobs import Row, RunContext, Scheduler
from weftjobs.stores import Run, open_store
from weftjobs.testing import VirtualClock

clock = VirtualClock("2026-03-01T08:00:00Z")


def at(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%d %b %H:%M}"


async def run(job: Row, context: RunContext) -> None:
    print(f"  {at(clock.now())}  {job['name']}")
    if job["name"] == "mail":
        raise ConnectionError("the server is away")


async def failed(job: Row, error: Exception) -> None:
    print(f"  {job['name']} failed: {error}")


async def first_life(url: str) -> None:
    async with open_store(url, clock=clock) as store:
        jobs = await store.open("jobs")
        jobs.extend([Row(name="tidy", every="1h"), Row(name="mail", cron="0 12 * * *", tz="UTC")])
        async with Scheduler(jobs, run, failed=failed, clock=clock):
            await clock.advance("2h")
            jobs[0]["every"] = "3h"  # an operator's edit
            jobs.append(Row(name="remind", at="2026-03-02T09:00:00Z"))  # a one-off


async def second_life(url: str) -> None:
    async with open_store(url, clock=clock) as store:
        jobs = await store.open("jobs")
        print(f"  found {[job['name'] for job in jobs]}, tidy every {jobs[0]['every']}")
        async with Scheduler(jobs, run, failed=failed, clock=clock):
            await clock.advance("1d")


async def third_life(url: str) -> None:
    async with open_store(url, clock=clock) as store:
        jobs = await store.open("jobs")
        async with Scheduler(jobs, run, failed=failed, clock=clock):
            await clock.advance("1h")  # the one-off has run, and does not run again
        print("The latest runs:")
        async for entry in store.history("jobs", limit=5):
            if isinstance(entry, Run):
                print(f"  {at(entry.at)}  row {entry.row}  {entry.status}  {entry.error or ''}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, life in enumerate((first_life, second_life, third_life), 1):
            print(f"Life {number}, at {at(clock.now())}:")
            await life(f"sqlite:///{folder}/jobs.db")
            clock.jump("30m")  # the process is down


if __name__ == "__main__":
    anyio.run(main)
