"""Runs that raise: told as they raised, and raised where nothing catches it without a handler."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.testing import VirtualClock

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def failing(**fields: Any) -> tuple[Row, ObservableArray]:
    row = Row({"name": "bad", "every": "1h", "raises": ValueError("no rows")} | fields)
    return row, ObservableArray([row, Row(name="good", every="1h")])


async def test_error_reaches_the_handler_as_it_was_raised() -> None:
    """S7: the very exception is told, the record says failed, and the schedule goes on."""
    journal = Journal()
    row, jobs = failing()
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
    assert journal.failures == [("bad", row["raises"])] * 2
    assert row["last"]["status"] == "failed"
    assert journal.ran == [("bad", HOUR), ("good", HOUR), ("bad", 2 * HOUR), ("good", 2 * HOUR)]


async def test_record_is_written_before_the_handler_hears() -> None:
    """S7: the handler finds the failed record on the row, which may fire again by then."""
    journal = Journal()
    _, jobs = failing()
    found: list[object] = []

    def failed(job: Row, error: Exception) -> None:
        found.extend([job["last"]["status"], scheduler.running(job)])

    scheduler = journal.scheduler(jobs, failed=failed)
    async with scheduler:
        await journal.clock.advance("1h")
    assert found == ["failed", 0]


async def test_async_handler_is_awaited() -> None:
    """Z4: `failed` may be async; the row fires on meanwhile."""
    journal = Journal()
    _, jobs = failing()
    done: list[int] = []

    async def failed(job: Row, error: Exception) -> None:
        await journal.clock.sleep("90m")
        done.append(journal.clock.now() - START)

    async with journal.scheduler(jobs, failed=failed):
        await journal.clock.advance("210m")
        jobs.clear()
        await journal.clock.advance("3h")
    assert [due for name, due in journal.ran if name == "bad"] == [HOUR, 2 * HOUR, 3 * HOUR]
    assert done == [150 * MINUTE, 210 * MINUTE, 270 * MINUTE]


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
        StopIteration("odd"),
        StopAsyncIteration("odd"),
        TimeoutError(),
        AssertionError(),
        RecursionError("deep"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_of_odd_kinds(error: Exception) -> None:
    """S7: groups and the like are told as raised, as far as a coroutine can raise them."""
    journal = Journal()
    row, jobs = failing(raises=error)
    async with journal.scheduler(jobs):
        await journal.clock.advance("1h")
    ((_, told),) = journal.failures
    # The interpreter turns a StopIteration that leaves a coroutine into a RuntimeError.
    assert told is error or told.__cause__ is error
    assert row["last"]["status"] == "failed"
    assert row["last"]["error"]["message"]


async def test_plain_run_that_raises_in_its_thread() -> None:
    """S7: the same for a plain function."""
    journal = Journal()
    row, jobs = failing()

    def run(job: Row, context: RunContext) -> None:
        if "raises" in job:
            raise job["raises"]

    async with Scheduler(jobs, run, clock=journal.clock, failed=journal.failed):
        await journal.clock.advance("2h")
    assert journal.failures == [("bad", row["raises"])] * 2
    assert row["last"]["error"]["message"] == "no rows"


@pytest.mark.parametrize("served", [False, True], ids=["block", "serve"])
async def test_without_a_handler_it_comes_out(served: bool) -> None:
    """S7: it cancels the scheduler and comes out in the group that a task group raises."""
    journal = Journal()
    row, jobs = failing(takes="1m")
    scheduler = journal.scheduler(jobs, failed=None)
    cancelled = False

    async def long_run() -> None:
        nonlocal cancelled
        if served:
            await scheduler.serve()
        async with scheduler:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled = True

    with pytest.raises(ExceptionGroup) as raised:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(long_run)
            await anyio.wait_all_tasks_blocked()
            await journal.clock.advance("2h")
            await anyio.sleep_forever()
    assert raised.group_contains(ValueError, match="no rows")
    assert cancelled is not served
    assert row["last"]["status"] == "failed"
    assert scheduler.run_now(row) is False


async def test_without_a_handler_the_other_runs_are_cancelled() -> None:
    """S7: a crash leaves no run behind, and what it cancelled is on record as failed."""
    journal = Journal()
    slow = Row(name="slow", every="1h", takes="1d")
    _, jobs = failing(takes="1m")
    jobs.append(slow)
    with pytest.raises(ExceptionGroup) as raised:
        async with journal.scheduler(jobs, failed=None) as scheduler:
            await journal.clock.advance("1h")
            assert scheduler.running(slow) == 1
            await journal.clock.advance("1m")
            await anyio.sleep_forever()
    assert len(raised.value.exceptions) == 1
    assert scheduler.running(slow) == 0
    assert slow["last"]["status"] == "failed"
    assert [name for name, _ in journal.ended] == ["good", "bad"]


async def test_handler_that_raises_comes_out() -> None:
    """S7: the handler's own error comes out, with the run's as what led to it or not at all."""
    journal = Journal()
    _, jobs = failing()

    def failed(job: Row, error: Exception) -> None:
        raise ZeroDivisionError("the handler")

    with pytest.raises(ExceptionGroup) as raised:
        async with journal.scheduler(jobs, failed=failed):
            await journal.clock.advance("1h")
            await anyio.sleep_forever()
    assert raised.group_contains(ZeroDivisionError, match="the handler")
    assert not raised.group_contains(ValueError)


async def test_several_failures_at_one_instant_without_a_handler() -> None:
    """S7: one group comes out however many runs raised together."""
    journal = Journal()
    jobs = ObservableArray(
        [Row(name=f"{n}", every="1h", raises=ValueError(f"{n}")) for n in range(10)]
    )
    with pytest.raises(ExceptionGroup) as raised:
        async with journal.scheduler(jobs, failed=None):
            await journal.clock.advance("1h")
            await anyio.sleep_forever()
    assert raised.group_contains(ValueError)


@BACKENDS
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exit_and_interrupt_come_out(backend: str, kind: type[BaseException]) -> None:
    """S7: what means to end the program ends it, and is on record as failed."""
    row = Row(at=START)

    async def run(job: Row, context: RunContext) -> None:
        raise kind("enough")

    async def main() -> None:
        told = Journal()
        async with Scheduler(ObservableArray([row]), run, failed=told.failed, clock=told.clock):
            await anyio.sleep_forever()

    with pytest.raises(BaseException) as raised:  # noqa: PT011
        anyio.run(main, backend=backend)
    error = raised.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert type(error) is kind
    assert row["last"]["status"] == "failed"


def native_future() -> Any:
    """Return a future of the event loop; only asyncio has them."""
    loop: Any = anyio.lowlevel.current_token().native_token
    if not hasattr(loop, "create_future"):
        pytest.skip("only on asyncio may a task await what somebody else cancelled")
    return loop.create_future()


async def test_foreign_cancellation_is_a_failure() -> None:
    """S7: a run that lets out the cancellation of something else failed, and no more."""
    native_future()
    journal = Journal()
    row = Row(name="a", every="1h")

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        future = native_future()
        future.cancel()
        await future

    async with Scheduler(
        ObservableArray([row]), run, clock=journal.clock, failed=journal.failed
    ) as scheduler:
        await journal.clock.advance("3h")
        assert scheduler.running(row) == 0
    assert journal.slots == [HOUR, 2 * HOUR, 3 * HOUR]
    assert row["last"]["status"] == "failed"
    assert row["last"]["error"]["message"]
    assert len(journal.failures) == 3


async def test_run_that_cancels_its_own_task_is_a_failure() -> None:
    """S7: asyncio's own way of cancelling a run ends that run, and no other."""
    native_future()
    import asyncio  # noqa: TID251 - only there a task is cancelled so

    journal = Journal()
    cancelling: list[int] = []

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        task = asyncio.current_task()
        assert task is not None
        cancelling.append(task.cancelling())
        if job["name"] == "bad":
            task.cancel()
            await anyio.sleep_forever()

    jobs = ObservableArray([Row(name=name, every="1h") for name in ("bad", "good")])
    async with Scheduler(jobs, run, clock=journal.clock, failed=journal.failed):
        await journal.clock.advance("3h")
    assert [name for name, _ in journal.ran] == ["bad", "good"] * 3
    assert [name for name, _ in journal.failures] == ["bad"] * 3
    assert cancelling == [0] * 6
    assert [row["last"]["status"] for row in jobs] == ["failed", "ok"]


async def test_foreign_cancellation_without_a_handler() -> None:
    """S7: without a handler it comes out as well, and does not end in silence."""
    native_future()
    journal = Journal()

    async def run(job: Row, context: RunContext) -> None:
        future = native_future()
        future.cancel()
        await future

    with pytest.raises(ExceptionGroup):
        async with Scheduler(ObservableArray([Row(every="1h")]), run, clock=journal.clock):
            await journal.clock.advance("1h")
            await anyio.sleep_forever()


async def test_run_may_cancel_within_itself() -> None:
    """S7: a scope that a run cancels for itself is the run's own business."""
    journal = Journal()
    row = Row(name="a", every="1h")

    async def run(job: Row, context: RunContext) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep_forever()
        with anyio.move_on_after(0):
            await anyio.sleep_forever()

    async with Scheduler(ObservableArray([row]), run, clock=journal.clock):
        await journal.clock.advance("2h")
    assert row["last"] == {"started": START + 2 * HOUR, "ended": START + 2 * HOUR, "status": "ok"}


class Heavy:
    """Something that a run holds on to."""


@pytest.mark.parametrize("threaded", [False, True], ids=["loop", "thread"])
async def test_failed_run_keeps_nothing_alive(threaded: bool) -> None:
    """S10: once a failed run is told, its frames are gone, without a garbage collection."""
    journal = Journal()
    held: list[weakref.ref[Heavy]] = []

    def run(job: Row, context: RunContext) -> None:
        heavy = Heavy()
        held.append(weakref.ref(heavy))
        raise ValueError("no rows")

    async def async_run(job: Row, context: RunContext) -> None:
        run(job, context)

    def failed(job: Row, error: Exception) -> None:
        assert any(reference() is not None for reference in held)

    jobs = ObservableArray([Row(every="1h"), Row(every="1h")])
    gc.collect()
    gc.disable()
    try:
        async with Scheduler(
            jobs, run if threaded else async_run, clock=journal.clock, failed=failed
        ):
            await journal.clock.advance("3h")
            # The threads of the last slot may not have let go yet.
            alive = [reference() for reference in held[:4] if reference() is not None]
    finally:
        gc.enable()
    assert len(held) == 6
    assert alive == []


@pytest.mark.parametrize("kind", ["failed", "skipped"])
async def test_foreign_cancellation_in_a_handler(kind: str) -> None:
    """S7: a handler that lets one out has raised: it comes out in a group, as an error."""
    native_future()
    clock = VirtualClock(START)
    row = Row(every="1h")

    async def run(job: Row, context: RunContext) -> None:
        raise ValueError

    async def handler(*facts: object) -> None:
        future = native_future()
        future.cancel()
        await future

    with pytest.raises(BaseExceptionGroup) as caught:
        async with Scheduler(
            ObservableArray([row]), run, clock=clock, failed=handler, skipped=handler
        ) as scheduler:
            if kind == "skipped":
                assert scheduler.run_now(row)
                assert not scheduler.run_now(row)
            await clock.advance("1h")
    assert [str(error) for error in caught.value.exceptions][:1] == [
        "a handler awaited something that was cancelled"
    ]
