"""A scheduler on virtual time: the order of what fires, and what an advance waits for."""

from __future__ import annotations

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def test_everything_fires_on_the_way_at_its_own_time() -> None:
    """T2: rows and sleepers wake in order, each at its own time."""
    journal = Journal()
    log: list[tuple[str, int]] = []

    async def sleep(minutes: int) -> None:
        await journal.clock.sleep(minutes * MINUTE)
        log.append((f"slept {minutes}", journal.clock.now() - START))

    async def run(job: Row, context: RunContext) -> None:
        log.append((job["name"], journal.clock.now() - START))

    jobs = ObservableArray([Row(name="a", every="20m"), Row(name="b", at=START + 50 * MINUTE)])
    async with (
        Scheduler(jobs, run, clock=journal.clock),
        anyio.create_task_group() as tasks,
    ):
        for minutes in (45, 30, 10):
            tasks.start_soon(sleep, minutes)
        await journal.clock.advance("1h")
    assert log == [
        ("slept 10", 10 * MINUTE),
        ("a", 20 * MINUTE),
        ("slept 30", 30 * MINUTE),
        ("a", 40 * MINUTE),
        ("slept 45", 45 * MINUTE),
        ("b", 50 * MINUTE),
        ("a", 60 * MINUTE),
    ]


async def test_rows_due_together_start_as_they_were_armed() -> None:
    """T2: within one instant the order is that of arming."""
    journal = Journal()
    jobs = ObservableArray(
        [
            Row(name="hourly", every="1h"),
            Row(name="two", every="2h"),
            Row(name="at", at=START + 2 * HOUR),
        ]
    )
    async with journal.scheduler(jobs):
        await journal.clock.advance("90m")
        jobs.insert(0, Row(name="late", every="30m"))
        jobs.reverse()
        await journal.clock.advance("30m")
    assert journal.ran == [
        ("hourly", HOUR),
        ("two", 2 * HOUR),
        ("at", 2 * HOUR),
        ("hourly", 2 * HOUR),
        ("late", 2 * HOUR),
    ]


async def test_runs_of_one_instant_go_on_as_they_began() -> None:
    """T2: runs that sleep equally long wake in the order in which they fell asleep."""
    journal = Journal()
    jobs = ObservableArray([Row(name=f"{n}", every="1h", takes="5m") for n in range(30)])
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h5m")
    names = [row["name"] for row in jobs]
    assert [name for name, _ in journal.ran] == names * 2
    assert [name for name, _ in journal.ended] == names * 2


@BACKENDS
def test_same_program_same_order(backend: str) -> None:
    """T2: the order is the same however often a program is run, and on slow machines too."""

    async def main(effort: int) -> list[object]:
        journal = Journal()
        log: list[object] = []

        async def run(job: Row, context: RunContext) -> None:
            log.append((job["name"], "begins", context.due))
            sum(range(effort))
            await journal.clock.sleep(job["takes"])
            log.append((job["name"], "goes on", journal.clock.now()))
            sum(range(effort))
            if job["name"] == "3" and len(jobs) < 20:
                jobs.append(Row(name=f"new {len(jobs)}", every="5m", takes="1m"))
            await journal.clock.sleep(job["takes"])
            log.append((job["name"], "ends", journal.clock.now()))

        jobs = ObservableArray(
            [Row(name=f"{n}", every="10m", takes=f"{1 + n % 3}m") for n in range(12)]
        )
        async with Scheduler(
            jobs, run, clock=journal.clock, skipped=lambda row, due: log.append((row["name"], due))
        ):
            await journal.clock.advance("66m")
            jobs.clear()
            await journal.clock.advance("1h")
        return log

    logs = [anyio.run(main, effort, backend=backend) for effort in (0, 100_000) * 5]
    assert len(logs[0]) > 200
    assert logs == [logs[0]] * 10


async def test_edits_made_before_are_taken_in_before_time_moves() -> None:
    """T2: an edit just before an advance counts from the time before it."""
    journal = Journal()
    jobs = ObservableArray()
    async with journal.scheduler(jobs):
        jobs.append(Row(name="a", every="1h"))
        await journal.clock.advance("1h")
        jobs[0]["every"] = "10m"
        await journal.clock.advance("10m")
        del jobs[0]
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR, 70 * MINUTE]


async def test_it_returns_when_all_has_settled() -> None:
    """T2: runs that do much without sleeping have ended when the advance returns."""
    journal = Journal()
    ended: list[str] = []

    async def run(job: Row, context: RunContext) -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.lowlevel.checkpoint)
        ended.append(job["name"])

    jobs = ObservableArray([Row(name=f"{n}", every="1h") for n in range(3)])
    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("1h")
        assert len(ended) == 3


async def test_worker_threads_have_ended() -> None:
    """T2: plain runs are waited for, each at its own time, more than threads there are."""
    journal = Journal()
    times: list[int] = []

    def run(job: Row, context: RunContext) -> None:
        sum(range(10_000))
        times.append(journal.clock.now() - START - context.due + START)

    jobs = ObservableArray([Row(name=f"{n}", every="1h") for n in range(60)])
    async with Scheduler(jobs, run, clock=journal.clock, skipped=journal.skipped):
        await journal.clock.advance("3h")
        assert times == [0] * 180
    assert journal.skips == []


async def test_worker_thread_that_sleeps_on_the_clock() -> None:
    """T2: a plain run sleeps on the clock from its thread, and time moves on meanwhile."""
    journal = Journal()
    times: list[int] = []

    def run(job: Row, context: RunContext) -> None:
        for _ in range(2):
            anyio.from_thread.run(journal.clock.sleep, "5m")
            times.append(journal.clock.now() - START)

    async with Scheduler(
        ObservableArray([Row(every="1h")]), run, clock=journal.clock, failed=journal.failed
    ):
        await journal.clock.advance("62m")
        assert times == []
        await journal.clock.advance("5m")
        assert times == [65 * MINUTE]
        await journal.clock.advance("1h")
        assert times == [65 * MINUTE, 70 * MINUTE, 125 * MINUTE]
        await journal.clock.advance("5m")
    assert journal.failures == []


async def test_more_sleeping_plain_runs_than_threads() -> None:
    """T2: plain runs that wait for a thread do not hold time up for those that have one."""
    journal = Journal()

    def run(job: Row, context: RunContext) -> None:
        anyio.from_thread.run(journal.clock.sleep, "5m")
        journal.note(job, context)

    jobs = ObservableArray([Row(name=f"{n}", at=START) for n in range(50)])
    with anyio.fail_after(10):
        async with Scheduler(jobs, run, clock=journal.clock):
            await journal.clock.advance("1h")
    assert journal.times == [5 * MINUTE] * 40 + [10 * MINUTE] * 10


async def test_run_that_waits_in_stop_is_not_waited_for() -> None:
    """T2: a run, also a plain one, that stops the scheduler and waits lets time move on."""
    journal = Journal()
    stopped: list[int] = []

    def run(job: Row, context: RunContext) -> None:
        if job["name"] == "stops":
            anyio.from_thread.run(scheduler.stop)
            stopped.append(journal.clock.now() - START)
        else:
            anyio.from_thread.run(journal.clock.sleep, "30m")

    scheduler = Scheduler(
        ObservableArray([Row(name="long", every="1h"), Row(name="stops", every="61m")]),
        run,
        clock=journal.clock,
    )
    async with scheduler:
        await journal.clock.advance("2h")
    assert stopped == [90 * MINUTE]


async def test_run_that_waits_for_something_else_does_not_hold_time_up() -> None:
    """T2: an async run that waits has settled, and goes on when what it waits for comes."""
    journal = Journal()
    event = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        await event.wait()
        journal.note(job, context)

    async with Scheduler(ObservableArray([Row(at=START)]), run, clock=journal.clock):
        await journal.clock.advance("1h")
        event.set()
        await journal.clock.advance(0)
    assert journal.times == [HOUR]


async def test_several_schedulers_share_a_clock() -> None:
    """T2: one clock drives whatever is made with it."""
    journal = Journal()
    first = ObservableArray([Row(name="a", every="1h")])
    second = ObservableArray([Row(name="b", every="40m")])
    async with journal.scheduler(first), journal.scheduler(second):
        await journal.clock.advance("2h")
    assert journal.ran[:3] == [("b", 40 * MINUTE), ("a", HOUR), ("b", 80 * MINUTE)]
    assert sorted(journal.ran[3:]) == [("a", 2 * HOUR), ("b", 2 * HOUR)]


async def test_two_months_of_an_hourly_row() -> None:
    """T2: every slot of a long time comes, in order."""
    journal = Journal()
    async with journal.scheduler(ObservableArray([Row(name="a", every="1h")])):
        await journal.clock.advance("60d")
    assert journal.slots == [n * HOUR for n in range(1, 60 * 24 + 1)]
    assert journal.times == journal.slots
