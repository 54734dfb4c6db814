"""Cancelling: runs are cancelled as the tasks of any anyio task group are, on both event loops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from tests.core.scheduling import START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler

Run = Callable[[Row, RunContext], Awaitable[None]]


async def cancel_while_it_runs(run: Run, number: int = 1) -> ObservableArray:
    """Cancel what a scheduler is in, once so many rows are running."""
    journal = Journal()
    jobs = ObservableArray([Row(number=n, every="1h") for n in range(number)])
    with anyio.CancelScope() as scope:
        async with Scheduler(jobs, run, clock=journal.clock) as scheduler:
            await journal.clock.advance("1h")
            assert all(scheduler.running(row) == 1 for row in jobs)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not any(scheduler.running(row) for row in jobs)
    return jobs


async def test_shielded_part_of_a_run_is_left_to_end() -> None:
    """S1: a cancellation does not reach into a shield, and is there again behind it."""
    steps: list[str] = []
    entered, released = anyio.Event(), anyio.Event()

    async def release() -> None:
        await entered.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        steps.append("released")
        released.set()

    async def run(job: Row, context: RunContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                entered.set()
                await released.wait()
                steps.append("shielded part ended")
            await anyio.lowlevel.checkpoint()
            steps.append("went on")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(release)
        jobs = await cancel_while_it_runs(run)
    assert steps == ["released", "shielded part ended"]
    assert jobs[0]["last"]["status"] == "failed"


async def test_run_in_a_shield_is_waited_for() -> None:
    """S1: a run that is in a shield when the cancellation comes ends of itself."""
    ended: list[int] = []
    going_on = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        with anyio.CancelScope(shield=True):
            await going_on.wait()
            await anyio.lowlevel.checkpoint()
        ended.append(job["number"])

    async def let_go() -> None:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        going_on.set()

    async with anyio.create_task_group() as tasks:
        journal = Journal()
        jobs = ObservableArray([Row(number=n, every="1h") for n in range(3)])
        with anyio.CancelScope() as scope:
            async with Scheduler(jobs, run, clock=journal.clock):
                await journal.clock.advance("1h")
                tasks.start_soon(let_go)
                scope.cancel()
                await anyio.sleep_forever()
    assert sorted(ended) == [0, 1, 2]
    assert [row["last"]["status"] for row in jobs] == ["ok"] * 3


async def test_run_that_swallows_a_cancellation_is_cancelled_again() -> None:
    """S1: it cannot wait for anything any more, so it cannot hold up the end."""
    swallowed: list[int] = []

    async def run(job: Row, context: RunContext) -> None:
        for attempt in range(3):
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                swallowed.append(attempt)

    await cancel_while_it_runs(run)
    assert swallowed == [0, 1, 2]


async def test_tasks_of_a_run_are_cancelled_with_it() -> None:
    """S1: what a run began in a task group of its own ends before the scheduler does."""
    cancelled: list[str] = []

    async def child() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append("child")
            raise

    async def run(job: Row, context: RunContext) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child)
            tasks.start_soon(child)

    await cancel_while_it_runs(run)
    assert cancelled == ["child", "child"]


@pytest.mark.parametrize("number", [1, 300])
async def test_all_runs_that_wait_are_cancelled(number: int) -> None:
    """S1: however many there are, each is on record as failed."""

    async def run(job: Row, context: RunContext) -> None:
        await anyio.sleep_forever()

    jobs = await cancel_while_it_runs(run, number)
    assert {row["last"]["status"] for row in jobs} == {"failed"}
    assert {row["last"]["error"]["message"] for row in jobs} == {"cancelled"}


async def test_scope_of_a_run_ends_that_scope_alone() -> None:
    """S7: a run that gives something up after a while goes on, and the scheduler with it."""
    journal = Journal()
    given_up: list[bool] = []

    async def run(job: Row, context: RunContext) -> None:
        with anyio.move_on_after(0) as scope:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        given_up.append(scope.cancelled_caught)

    jobs = ObservableArray([Row(every="1h")])
    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("3h")
    assert given_up == [True] * 3
    assert jobs[0]["last"]["status"] == "ok"


async def test_run_that_begins_while_others_are_cancelled_is_cancelled_too() -> None:
    """S1: so is a run for which a task is started after the cancellation came."""
    journal = Journal()
    began: list[str] = []

    async def run(job: Row, context: RunContext) -> None:
        began.append(job["name"])
        try:
            await anyio.sleep_forever()
        finally:
            if job["name"] == "first":
                scheduler.run_now(jobs[1])

    jobs = ObservableArray([Row(name="first", at=START), Row(name="second", every="9d")])
    scheduler = Scheduler(jobs, run, clock=journal.clock)
    with anyio.fail_after(20), anyio.CancelScope() as scope:
        async with scheduler:
            await journal.clock.advance("1h")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert began[0] == "first"
    assert not any(scheduler.running(row) for row in jobs)


async def test_failure_in_one_of_many_that_wait_ends_them_all() -> None:
    """S7: without a handler the error comes out alone, once the others have been cancelled."""
    journal = Journal()
    jobs = ObservableArray([Row(name=str(n), every="1h", takes="1d") for n in range(50)])
    jobs[20].update(takes="1m", raises=ValueError("no rows"))
    with pytest.raises(ExceptionGroup) as raised:
        async with journal.scheduler(jobs, failed=None) as scheduler:
            await journal.clock.advance("90m")
            await anyio.sleep_forever()
    assert len(raised.value.exceptions) == 1
    assert raised.group_contains(ValueError, match="no rows")
    assert not any(scheduler.running(row) for row in jobs)
