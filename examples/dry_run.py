"""Two days of schedule over a change of the clocks, restarts and live edits, in milliseconds.

Nothing here waits: a `VirtualClock` drives the time. The program checks its own result.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import anyio

from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.stores import open_store
from weftjobs.testing import VirtualClock

BERLIN = ZoneInfo("Europe/Berlin")
CLOCK = VirtualClock("2026-10-24T00:00:00+02:00")

JOBS = ObservableArray(
    [
        Row(name="hourly", every="1h"),
        Row(name="nightly", cron="30 2 * * *", tz="Europe/Berlin"),
        Row(name="remind", at="2026-10-24T12:00:00+02:00"),
    ]
)
HOURLY, NIGHTLY, REMIND = JOBS
RUNS: Counter[str] = Counter()


async def run(job: Row, context: RunContext) -> None:
    """Print the slot as the wall clock in Berlin shows it, with the offset."""
    due = datetime.fromtimestamp(context.due / 1000, UTC).astimezone(BERLIN)
    late = (CLOCK.now() - context.due) // 3_600_000
    RUNS[job["name"]] += 1
    if job["name"] != "hourly":
        print(f"{due:%a %d %b %H:%M %z}  {job['name']}" + (f"  ({late} h late)" if late else ""))


def check(when: str, **expected: int) -> None:
    """Compare how often each job ran since the last check with what was expected."""
    print(f"-- {when}: {dict(RUNS)}")
    if dict(RUNS) != expected:
        raise SystemExit(f"{when}: expected {expected}, but {dict(RUNS)} ran")
    RUNS.clear()


async def main() -> None:
    """Play it."""
    async with Scheduler(JOBS, run, clock=CLOCK):
        await CLOCK.advance("24h")
        check("an ordinary day", hourly=24, nightly=1, remind=1)

        await CLOCK.advance("25h")
        check("the clocks went back: 02:30 came twice, in 25 hours", hourly=25, nightly=2)

        REMIND["at"] = "2026-10-26T12:00:00+01:00"
        NIGHTLY["cron"] = "0 5 * * *"
        HOURLY["every"] = "30m"
        await CLOCK.advance("6h")
        check("three edits, followed at once", hourly=12, nightly=1)

    CLOCK.jump("3d")
    async with Scheduler(JOBS, run, clock=CLOCK):
        await CLOCK.advance("1h")
        check("restarted after three days: only the one-off is made up for", hourly=2, remind=1)

        CLOCK.jump("3d")
        await CLOCK.advance(0)
        check("three days asleep: one late run each", hourly=1, nightly=1)

        del JOBS[0]
        await CLOCK.advance("24h")
        check("one row removed", nightly=1)

    with tempfile.TemporaryDirectory() as folder:
        await play_over_a_store(f"sqlite:///{folder}/jobs.db")
    print("All as expected.")


async def play_over_a_store(url: str) -> None:
    """Play a restart of the process: the rows, their edits and what ran are in a file."""
    async with open_store(url, clock=CLOCK) as store:
        jobs = await store.open("jobs")
        jobs.extend([Row(name="hourly", every="1h"), Row(name="remind", at=CLOCK.now() + 1)])
        async with Scheduler(jobs, run, clock=CLOCK):
            await CLOCK.advance("2h")
            jobs[0]["every"] = "30m"
        check("stored rows", hourly=2, remind=1)

    CLOCK.jump("1h")
    async with open_store(url, clock=CLOCK) as store:
        async with Scheduler(await store.open("jobs"), run, clock=CLOCK):
            await CLOCK.advance("1h")
        check("the process started again: edited, and the one-off is done", hourly=2)


if __name__ == "__main__":
    anyio.run(main)
