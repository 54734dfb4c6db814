"""Asking a scheduler from outside: `run_now`, `next_due` and `running`, from any thread."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler, pausable, plan_row


def one(**fields: Any) -> tuple[Row, ObservableArray]:
    row = Row(fields, name="a")
    return row, ObservableArray([row])


async def test_run_now_runs_outside_the_schedule() -> None:
    """S9: the run starts at once, due now; the grid stays where it is."""
    journal = Journal()
    row, jobs = one(every="1h")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("20m")
        assert scheduler.run_now(row) is True
        assert scheduler.next_due(row) == START + HOUR
        await journal.clock.advance("100m")
    assert journal.slots == [20 * MINUTE, HOUR, 2 * HOUR]
    assert journal.times == journal.slots


async def test_run_now_of_a_running_row_is_skipped() -> None:
    """S9: it answers no, and is reported to `skipped` with the time it was asked."""
    journal = Journal()
    row, jobs = one(every="1h", takes="10m")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("65m")
        assert scheduler.run_now(row) is False
        await journal.clock.advance("10m")
        assert scheduler.run_now(row) is True
        assert scheduler.run_now(row) is False
        await journal.clock.advance("10m")
    assert journal.slots == [HOUR, 75 * MINUTE]
    assert journal.skips == [("a", 65 * MINUTE), ("a", 75 * MINUTE)]


async def test_slot_during_a_run_by_hand_is_skipped() -> None:
    """S9: a run by hand is a run like any other for the slots that come."""
    journal = Journal()
    row, jobs = one(every="1h", takes="10m")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("55m")
        scheduler.run_now(row)
        await journal.clock.advance("20m")
    assert journal.slots == [55 * MINUTE]
    assert journal.skips == [("a", HOUR)]


@pytest.mark.parametrize(
    "fields",
    [
        {"every": "1h", "paused": True},
        {"at": START - HOUR, "last": {"started": START, "status": "ok"}},
        {},
        {"every": "soon"},
        {"at": START + 90 * HOUR},
    ],
    ids=["paused", "finished", "none", "wrong", "far"],
)
async def test_run_now_works_on_rows_that_are_not_due(fields: dict[str, Any]) -> None:
    """S9: paused, finished and wrong rows run when they are asked to."""
    journal = Journal()
    row, jobs = one(**fields)
    async with journal.scheduler(jobs, plan=pausable(plan_row)) as scheduler:
        await journal.clock.advance("1m")
        before = scheduler.next_due(row)
        assert scheduler.run_now(row) is True
        await journal.clock.advance("1m")
        assert scheduler.next_due(row) == before
    assert journal.slots == [MINUTE]
    assert row["last"]["status"] == "ok"


async def test_run_now_of_a_row_just_inserted() -> None:
    """S9: a row that came in a moment ago runs, and so does one that was never awaited on."""
    journal = Journal()
    jobs = ObservableArray()
    async with journal.scheduler(jobs) as scheduler:
        jobs.append(Row(name="new", every="1h"))
        assert scheduler.run_now(jobs[0]) is True
        await journal.clock.advance("1h")
    assert journal.ran == [("new", 0), ("new", HOUR)]


async def test_run_now_of_a_row_that_is_not_in_the_array() -> None:
    """S9: a row that left, or belongs to another array, is not run."""
    journal = Journal()
    row, jobs = one(every="1h")
    other = ObservableArray([Row(name="other", every="1h")])
    async with journal.scheduler(jobs) as scheduler:
        jobs.remove(row)
        assert scheduler.run_now(row) is False
        assert scheduler.run_now(other[0]) is False
        assert scheduler.run_now(Row(every="1h")) is False
        await journal.clock.advance("1h")
    assert journal.ran == []
    assert journal.skips == []


async def test_row_removed_between_run_now_and_its_start() -> None:
    """S2: a row that leaves at once does not run, or finishes and writes nothing."""
    journal = Journal()
    row, jobs = one(every="1h")
    async with journal.scheduler(jobs) as scheduler:
        assert scheduler.run_now(row) is True
        jobs.remove(row)
        await journal.clock.advance("1h")
        assert scheduler.running(row) == 0
    assert "last" not in row


async def test_run_now_from_a_run() -> None:
    """S9: a run may start another row, and not its own."""
    journal = Journal()
    first, second = Row(name="first", at=START), Row(name="second", every="9h")
    answers: list[bool] = []

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        if job is first:
            answers.extend([scheduler.run_now(second), scheduler.run_now(first)])

    scheduler = Scheduler(
        ObservableArray([first, second]), run, clock=journal.clock, skipped=journal.skipped
    )
    async with scheduler:
        await journal.clock.advance("1h")
    assert answers == [True, False]
    assert journal.ran == [("first", 0), ("second", 0)]
    assert journal.skips == [("first", 0)]


async def test_before_the_start_and_after_the_end() -> None:
    """S9: a scheduler that does not run answers no, `None` and 0."""
    journal = Journal()
    row, jobs = one(every="1h")
    scheduler = journal.scheduler(jobs)
    answers = [scheduler.run_now(row), scheduler.next_due(row), scheduler.running(row)]
    async with scheduler:
        await journal.clock.advance("1h")
        await scheduler.stop()
        answers += [scheduler.run_now(row), scheduler.next_due(row), scheduler.running(row)]
    answers += [scheduler.run_now(row), scheduler.next_due(row), scheduler.running(row)]
    assert answers == [False, None, 0] * 3
    assert journal.slots == [HOUR]
    assert journal.skips == []


async def test_next_due_follows_the_schedule() -> None:
    """S9: it tells the armed slot, and `None` for what is not due any more."""
    journal = Journal()
    periodic, once = Row(every="1h"), Row(at=START + HOUR)
    async with journal.scheduler(ObservableArray([periodic, once])) as scheduler:
        assert scheduler.next_due(periodic) == scheduler.next_due(once) == START + HOUR
        await journal.clock.advance("1h")
        assert scheduler.next_due(periodic) == START + 2 * HOUR
        assert scheduler.next_due(once) is None
        assert scheduler.next_due(Row(every="1h")) is None


async def test_running_counts_the_runs_in_progress() -> None:
    """S9: none before, one during, none after, also when the row has left."""
    journal = Journal()
    row, jobs = one(every="1h", takes="10m")
    async with journal.scheduler(jobs) as scheduler:
        counts = [scheduler.running(row)]
        await journal.clock.advance("1h")
        counts.append(scheduler.running(row))
        jobs.remove(row)
        counts.append(scheduler.running(row))
        await journal.clock.advance("10m")
        counts.append(scheduler.running(row))
    assert counts == [0, 1, 1, 0]


async def test_from_worker_threads() -> None:
    """S9: all three may be asked in any thread."""
    journal = Journal()
    rows = [Row(name=f"{n}", every="1h", takes="10m") for n in range(50)]
    async with journal.scheduler(ObservableArray(rows)) as scheduler:
        for row in rows:
            assert await anyio.to_thread.run_sync(scheduler.run_now, row) is True
            assert await anyio.to_thread.run_sync(scheduler.running, row) == 1
            assert await anyio.to_thread.run_sync(scheduler.next_due, row) == START + HOUR
        await journal.clock.advance("10m")
    assert journal.ran == [(row["name"], 0) for row in rows]


async def test_many_threads_start_a_row_once() -> None:
    """S6: of threads that ask at the same time, one is told yes."""
    journal = Journal()
    row, jobs = one(every="1h", takes="10m")
    answers: list[bool] = []
    async with journal.scheduler(jobs) as scheduler:
        ask = partial(scheduler.run_now, row)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(anyio.to_thread.run_sync, lambda: answers.append(ask()))
        await journal.clock.advance("10m")
    assert sorted(answers) == [False] * 19 + [True]
    assert len(journal.ran) == 1
    assert len(journal.skips) == 19


async def test_run_now_wakes_a_sleeping_scheduler() -> None:
    """S9: it starts at once on the real clock, asked in a thread or not."""
    row, jobs = one(every="900d")
    ran = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        ran.set()

    async with Scheduler(jobs, run) as scheduler:
        await anyio.wait_all_tasks_blocked()
        await anyio.to_thread.run_sync(scheduler.run_now, row)
        with anyio.fail_after(10):
            await ran.wait()
        ran = anyio.Event()
        await anyio.wait_all_tasks_blocked()
        scheduler.run_now(row)
        with anyio.fail_after(10):
            await ran.wait()
