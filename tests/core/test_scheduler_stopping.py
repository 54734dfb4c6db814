"""Stopping: nothing fires after it, and it waits for what runs, from wherever it is asked."""

from __future__ import annotations

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler


def rows(*names: str, takes: str = "10m") -> ObservableArray:
    return ObservableArray([Row(name=name, every="1h", takes=takes) for name in names])


async def test_nothing_fires_after_it() -> None:
    """S8: timers are cancelled, and edits are not followed any more."""
    journal = Journal()
    jobs = rows("a")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("30m")
        await scheduler.stop()
        jobs.append(Row(name="b", at=START))
        jobs[0]["every"] = "1m"
        await journal.clock.advance("1d")
        assert scheduler.next_due(jobs[0]) is None
        assert scheduler.run_now(jobs[0]) is False
    assert journal.ran == []
    assert "last" not in jobs[0]


async def test_it_waits_for_the_runs_in_flight() -> None:
    """S8: it returns once they have settled, their records written."""
    journal = Journal()
    jobs = rows("a", "b")
    stopped: list[int] = []

    async def stop() -> None:
        await scheduler.stop()
        stopped.append(journal.clock.now() - START)

    async with journal.scheduler(jobs) as scheduler, anyio.create_task_group() as tasks:
        await journal.clock.advance("65m")
        tasks.start_soon(stop)
        tasks.start_soon(stop)
        await journal.clock.advance("3m")
        assert stopped == []
        await journal.clock.advance("1d")
    assert stopped == [70 * MINUTE, 70 * MINUTE]
    assert [row["last"]["status"] for row in jobs] == ["ok", "ok"]
    assert len(journal.ran) == 2


async def test_it_waits_for_the_handlers_too() -> None:
    """S8: what is being told of a run belongs to it."""
    journal = Journal()
    told: list[int] = []

    async def failed(job: Row, error: Exception) -> None:
        await journal.clock.sleep("5m")
        told.append(journal.clock.now() - START)

    jobs = ObservableArray([Row(name="a", every="1h", raises=ValueError())])
    async with journal.scheduler(jobs, failed=failed) as scheduler:
        await journal.clock.advance("1h")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.clock.advance, "1h")
            await scheduler.stop()
            assert told == [65 * MINUTE]


async def test_leaving_the_block_waits_as_well() -> None:
    """S8: leaving stops it, and waits for the runs in progress."""
    journal = Journal()
    jobs = rows("a")
    async with anyio.create_task_group() as tasks:
        async with journal.scheduler(jobs):
            await journal.clock.advance("65m")
            tasks.start_soon(journal.clock.advance, "1h")
        assert journal.ended == [("a", 70 * MINUTE)]
    assert jobs[0]["last"]["status"] == "ok"


async def test_it_may_be_asked_before_and_after() -> None:
    """S8: before the start and after the end there is nothing to wait for."""
    journal = Journal()
    scheduler = journal.scheduler(rows("a"))
    await scheduler.stop()
    async with scheduler:
        await journal.clock.advance("30m")
        await scheduler.stop()
        await scheduler.stop()
    await scheduler.stop()


async def test_from_inside_a_run() -> None:
    """S8: it waits for the other runs, not for the one that asks."""
    journal = Journal()
    jobs = rows("stops", "b", takes="20m")
    stopped: list[int] = []

    async def run(job: Row, context: RunContext) -> None:
        if job["name"] == "stops":
            await journal.clock.sleep("1m")
            await scheduler.stop()
            stopped.append(journal.clock.now() - START)
            await journal.clock.sleep("1h")
        await journal.run(job, context)

    scheduler = Scheduler(jobs, run, clock=journal.clock, failed=journal.failed)
    async with scheduler:
        await journal.clock.advance("1d")
    assert stopped == [80 * MINUTE]
    assert [row["last"]["status"] for row in jobs] == ["ok", "ok"]
    assert journal.ended == [("b", 80 * MINUTE), ("stops", 160 * MINUTE)]


async def test_two_runs_that_both_stop() -> None:
    """S8: they do not wait for each other, and both wait for a third."""
    journal = Journal()
    jobs = rows("first", "second", "third", takes="20m")
    stopped: list[tuple[str, int]] = []

    async def run(job: Row, context: RunContext) -> None:
        if job["name"] == "third":
            await journal.run(job, context)
            return
        await journal.clock.sleep("5m" if job["name"] == "second" else "1m")
        await scheduler.stop()
        stopped.append((job["name"], journal.clock.now() - START))

    scheduler = Scheduler(jobs, run, clock=journal.clock, failed=journal.failed)
    async with scheduler:
        await journal.clock.advance("1d")
        assert [row["last"]["status"] for row in jobs] == ["ok"] * 3
    assert sorted(stopped) == [("first", 80 * MINUTE), ("second", 80 * MINUTE)]


async def test_run_that_stops_twice() -> None:
    """S8: a run that asks again gets the same answer, also when nothing else runs."""
    journal = Journal()
    jobs = rows("a")

    async def run(job: Row, context: RunContext) -> None:
        await scheduler.stop()
        await scheduler.stop()
        await journal.run(job, context)

    scheduler = Scheduler(jobs, run, clock=journal.clock)
    async with scheduler:
        await journal.clock.advance("1d")
    assert journal.ended == [("a", 70 * MINUTE)]


async def test_run_that_stopped_is_waited_for_by_others_while_it_goes_on() -> None:
    """S8: a run whose own `stop()` has returned is a run in flight like any other."""
    journal = Journal()
    jobs = rows("a")
    stopped: list[int] = []

    async def run(job: Row, context: RunContext) -> None:
        await scheduler.stop()
        await journal.clock.sleep("10m")
        stopped.append(0)

    async def stop() -> None:
        await scheduler.stop()
        stopped.append(1)

    scheduler = Scheduler(jobs, run, clock=journal.clock)
    async with scheduler, anyio.create_task_group() as tasks:
        await journal.clock.advance("1h")
        tasks.start_soon(stop)
        await journal.clock.advance("5m")
        assert stopped == []
        await journal.clock.advance("5m")
    assert stopped == [0, 1]


async def test_from_a_task_that_a_run_started() -> None:
    """S8: a task of the run asks from inside the run as well, and there is no deadlock."""
    journal = Journal()
    jobs = rows("a")

    async def run(job: Row, context: RunContext) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.stop)
        journal.note(job, context)

    scheduler = Scheduler(jobs, run, clock=journal.clock)
    async with scheduler:
        await journal.clock.advance("2h")
        assert jobs[0]["last"]["status"] == "ok"
    assert journal.slots == [HOUR]


async def test_from_worker_threads() -> None:
    """S8: two plain runs that both stop do not wait for each other."""
    journal = Journal()
    jobs = rows("a", "b")

    def run(job: Row, context: RunContext) -> None:
        anyio.from_thread.run(scheduler.stop)
        journal.note(job, context)

    scheduler = Scheduler(jobs, run, clock=journal.clock, failed=journal.failed)
    async with scheduler:
        await journal.clock.advance("1d")
        assert [row["last"]["status"] for row in jobs] == ["ok", "ok"]
    assert journal.slots == [HOUR, HOUR]
    assert journal.failures == []


@pytest.mark.parametrize("handler", ["failed", "skipped"])
async def test_from_a_handler(handler: str) -> None:
    """S8: a handler that stops the scheduler does not wait for itself."""
    journal = Journal()
    raises = {"raises": ValueError()} if handler == "failed" else {}
    jobs = ObservableArray([Row(name="a", every="1h", takes="90m", **raises)])
    stopped: list[int] = []

    async def stop(job: Row, fact: object) -> None:
        await scheduler.stop()
        stopped.append(journal.clock.now() - START)

    scheduler = journal.scheduler(jobs, **{handler: stop})
    async with scheduler:
        await journal.clock.advance("1d")
    assert stopped == [150 * MINUTE]
    assert journal.slots == [HOUR]


@pytest.mark.parametrize("number", [2, 50])
async def test_rows_due_at_the_same_instant_do_not_start_any_more(number: int) -> None:
    """S8: once a run has stopped the scheduler, what was due with it does not begin."""
    journal = Journal()
    jobs = rows(*map(str, range(number)))

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        await scheduler.stop()

    scheduler = Scheduler(jobs, run, clock=journal.clock, failed=journal.failed)
    async with scheduler:
        await journal.clock.advance("1d")
    assert journal.ran == [("0", HOUR)]
    assert ["last" in row for row in jobs] == [True] + [False] * (number - 1)
    assert [scheduler.running(row) for row in jobs] == [0] * number


async def test_one_off_that_waits_for_its_run_does_not_start_any_more() -> None:
    """S8: a pending fire is a timer too."""
    journal = Journal()
    row = Row(name="a", at=START + HOUR, takes="30m")
    async with journal.scheduler(ObservableArray([row])) as scheduler:
        await journal.clock.advance("65m")
        row["at"] = START + 70 * MINUTE
        await journal.clock.advance("10m")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scheduler.stop)
            await journal.clock.advance("1d")
    assert journal.slots == [HOUR]


async def test_run_by_hand_that_has_not_begun_is_dropped() -> None:
    """S8: what `run_now` promised a moment before does not begin after."""
    journal = Journal()
    jobs = rows("a")
    async with journal.scheduler(jobs) as scheduler:
        scheduler.run_now(jobs[0])
        await scheduler.stop()
        await journal.clock.advance("1h")
        assert scheduler.running(jobs[0]) == 0
    assert journal.ran == []


async def test_skips_during_the_stop_are_not_made_up() -> None:
    """S8: while it waits for a run, slots of that row are neither run nor reported."""
    journal = Journal()
    jobs = rows("a", takes="5h")
    async with journal.scheduler(jobs) as scheduler, anyio.create_task_group() as tasks:
        await journal.clock.advance("65m")
        tasks.start_soon(scheduler.stop)
        await journal.clock.advance("1d")
    assert journal.skips == []
    assert journal.slots == [HOUR]


async def test_stop_that_is_cancelled() -> None:
    """S8: whoever stops waiting has stopped the scheduler; the run goes on to its end."""
    journal = Journal()
    jobs = rows("a")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("65m")
        with anyio.move_on_after(0) as scope:
            await scheduler.stop()
        assert scope.cancelled_caught
        await journal.clock.advance("1d")
    assert journal.slots == [HOUR]
    assert journal.ended == [("a", 70 * MINUTE)]
    assert jobs[0]["last"]["status"] == "ok"


async def test_edits_in_threads_while_it_stops() -> None:
    """S8: threads that go on editing do not disturb the end."""
    journal = Journal()
    jobs = rows("a")
    halted = anyio.Event()

    def edit() -> None:
        for n in range(300):
            jobs.append(Row(name=f"{n}", every=1 + n))
            jobs[0]["every"] = 1000 + n

    async def edit_and_tell() -> None:
        await anyio.to_thread.run_sync(edit)
        halted.set()

    async with anyio.create_task_group() as tasks:
        async with journal.scheduler(jobs) as scheduler:
            tasks.start_soon(edit_and_tell)
            await anyio.lowlevel.checkpoint()
            await scheduler.stop()
        await halted.wait()
    await journal.clock.advance("1h")
    assert journal.ran == []
