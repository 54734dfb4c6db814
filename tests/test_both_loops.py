"""One program, two event loops."""

from __future__ import annotations

import anyio

from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.testing import VirtualClock


async def play() -> list[tuple[object, ...]]:
    """A day of rows that run, fail, overlap themselves, in threads too, and are edited."""
    clock = VirtualClock("2026-10-24T12:00:00Z")
    log: list[tuple[object, ...]] = []
    jobs = ObservableArray(
        [
            Row(name="hourly", every="1h"),
            Row(name="slow", every="3h", takes="4h"),
            Row(name="nightly", cron="30 2 * * *", tz="Europe/Berlin"),
            Row(name="broken", every="6h"),
            Row(name="wrong", cron="every day", tz="UTC"),
        ]
    )

    async def run(job: Row, context: RunContext) -> None:
        log.append(("run", job["name"], context.due))
        if job["name"] == "broken":
            raise ValueError("no rows")
        if "takes" in job:
            await clock.sleep(job["takes"])

    async with Scheduler(
        jobs,
        run,
        failed=lambda job, error: log.append(("failed", job["name"], str(error))),
        skipped=lambda job, due: log.append(("skipped", job["name"], due)),
        clock=clock,
    ):
        await clock.advance("12h")
        jobs[0]["every"] = "30m"
        del jobs[3]
        await clock.advance("13h30m")
    log.extend((row["name"], row.get("last")) for row in jobs)
    return log


def test_both_loops_do_the_same() -> None:
    """Z1: a program gives the same on asyncio and on trio, to the order within an instant."""
    on_asyncio = anyio.run(play, backend="asyncio")
    assert on_asyncio == anyio.run(play, backend="trio")
    assert [entry[2] for entry in on_asyncio if entry[:2] == ("run", "nightly")] == [
        1792888200000,
        1792891800000,
    ]
