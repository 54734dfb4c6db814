"""Starting, serving, cancellation: how a scheduler begins and ends."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.core.scheduling import HOUR, START, Journal
from weftjobs import JobsError, ObservableArray, Row, RunContext, Scheduler


async def do_nothing(job: Row, context: RunContext) -> None:
    pass


ARGUMENTS: dict[str, tuple[tuple[Any, Any], dict[str, Any], str]] = {
    "no jobs": ((None, do_nothing), {}, "missing"),
    "no run": ((ObservableArray(), None), {}, "missing"),
    "neither": ((None, None), {}, "missing"),
    "run that cannot be called": ((ObservableArray(), "run"), {}, "missing"),
    "list": (([Row(every="1h")], do_nothing), {}, "not-a-list"),
    "tuple": (((), do_nothing), {}, "not-a-list"),
    "row": ((Row(every="1h"), do_nothing), {}, "not-a-list"),
    "failed": ((ObservableArray(), do_nothing), {"failed": "log"}, "invalid"),
    "skipped": ((ObservableArray(), do_nothing), {"skipped": 5}, "invalid"),
    "plan": ((ObservableArray(), do_nothing), {"plan": "every"}, "invalid"),
    "no plan": ((ObservableArray(), do_nothing), {"plan": None}, "invalid"),
}


@pytest.mark.parametrize(("given", "options", "reason"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_are_refused(
    given: tuple[Any, Any], options: dict[str, Any], reason: str
) -> None:
    """S1: what cannot work is refused when it is made, with a reason and a fix."""
    with pytest.raises(JobsError) as raised:
        Scheduler(*given, **options)
    assert raised.value.reason == reason
    assert raised.value.fix


def test_options_are_named() -> None:
    """S1: only jobs and run are given by position."""
    with pytest.raises(TypeError):
        Scheduler(ObservableArray(), do_nothing, do_nothing)  # type: ignore[call-arg, arg-type]


async def test_scheduler_is_entered_once() -> None:
    """S1: entered again, during or after, it says to make a new one."""
    journal = Journal()
    scheduler = journal.scheduler(ObservableArray())
    async with scheduler:
        with pytest.raises(JobsError, match="entered before"):
            await scheduler.serve()
    with pytest.raises(JobsError, match="entered before"):
        async with scheduler:
            pass


async def test_nothing_runs_before_it_is_entered() -> None:
    """S1: entering starts it; what was due before is due at once then."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h"), Row(name="b", at=START)])
    scheduler = journal.scheduler(jobs)
    await journal.clock.advance("5h")
    assert journal.ran == []
    async with scheduler:
        await journal.clock.advance("1h")
    assert journal.ran == [("b", 0), ("a", 6 * HOUR)]


async def test_serve_runs_until_it_is_stopped() -> None:
    """S1: `serve()` returns when somebody stops the scheduler."""
    journal = Journal()
    scheduler = journal.scheduler(ObservableArray([Row(name="a", every="1h", takes="5m")]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.serve)
        await journal.clock.advance("2h")
        tasks.start_soon(scheduler.stop)
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR, 2 * HOUR]
    assert len(journal.ended) == 2


async def test_serve_stopped_by_a_run() -> None:
    """S1: a run that stops the scheduler ends `serve()`."""
    journal = Journal()

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        await scheduler.stop()

    scheduler = Scheduler(ObservableArray([Row(every="1h")]), run, clock=journal.clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.serve)
        await journal.clock.advance("3h")
    assert journal.slots == [HOUR]


@pytest.mark.parametrize("served", [False, True], ids=["block", "serve"])
async def test_cancellation(served: bool) -> None:
    """S1: cancelled from outside it ends at once, with its runs, and swallows nothing."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h", takes="1d")])
    scheduler = journal.scheduler(jobs)

    async def use() -> None:
        if served:
            await scheduler.serve()
        async with scheduler:
            await anyio.sleep_forever()
        raise AssertionError("the cancellation was swallowed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use)
        await journal.clock.advance("1h")
        assert scheduler.running(jobs[0]) == 1
        tasks.cancel_scope.cancel()
    assert scheduler.running(jobs[0]) == 0
    assert scheduler.run_now(jobs[0]) is False
    assert jobs[0]["last"]["status"] == "failed"
    assert journal.ended == []


async def test_cancellation_while_leaving() -> None:
    """S1: who is tired of waiting for a run to end cancels the block around it."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h", takes="1d")])
    with anyio.CancelScope() as scope:
        async with journal.scheduler(jobs):
            await journal.clock.advance("1h")
            scope.cancel()
    assert journal.ended == []
    assert jobs[0]["last"]["status"] == "failed"


async def test_run_that_cleans_up_when_it_is_cancelled() -> None:
    """S1: a cancelled run has the time it takes to end well, and what it wrote counts."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])
    cleaned: list[bool] = []

    async def run(job: Row, context: RunContext) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                cleaned.append(True)

    with anyio.CancelScope() as scope:
        async with Scheduler(jobs, run, clock=journal.clock):
            await journal.clock.advance("1h")
            scope.cancel()
    assert cleaned == [True]


async def test_native_cancellation() -> None:
    """S1: a task cancelled asyncio's own way ends, with its scheduler and its runs."""
    loop: Any = anyio.lowlevel.current_token().native_token
    if not hasattr(loop, "create_task"):
        pytest.skip("only asyncio cancels tasks")
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h", takes="1d")])
    scheduler = journal.scheduler(jobs)
    task = loop.create_task(scheduler.serve())
    await journal.clock.advance("1h")
    assert scheduler.running(jobs[0]) == 1
    task.cancel()
    with pytest.raises(anyio.get_cancelled_exc_class()):
        await task
    assert task.cancelled()
    assert scheduler.running(jobs[0]) == 0


async def test_body_that_raises() -> None:
    """S1: its exception comes out as it is, and the runs in progress are cancelled."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h", takes="1d")])
    scheduler = journal.scheduler(jobs)
    error = ValueError("the body")
    with pytest.raises(ValueError, match="the body") as raised:
        async with scheduler:
            await journal.clock.advance("1h")
            raise error
    assert raised.value is error
    assert scheduler.running(jobs[0]) == 0
    assert jobs[0]["last"]["status"] == "failed"
    assert journal.ended == []
    assert journal.failures == []


async def test_planner_that_ends_the_program_ends_the_start() -> None:
    """S1: what is no `Exception` comes out of the start, and nothing is left running."""
    journal = Journal()

    def plan(row: Row) -> None:
        raise KeyboardInterrupt

    scheduler = journal.scheduler(ObservableArray([Row(every="1h")]), plan=plan)
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        async with scheduler:
            raise AssertionError("it has been entered")
    assert isinstance(raised.value, KeyboardInterrupt) or (
        isinstance(raised.value, BaseExceptionGroup)
        and raised.value.subgroup(KeyboardInterrupt) is not None
    )


async def test_run_that_fails_while_the_block_is_left() -> None:
    """S7: without a handler it comes out of the block that waits for it, and so from `serve()`."""
    journal = Journal()
    jobs = ObservableArray(
        [
            Row(name="bad", every="1h", takes="5m", raises=ValueError("no rows")),
            Row(name="slow", every="1h", takes="1d"),
        ]
    )
    scheduler = journal.scheduler(jobs, failed=None)
    with pytest.raises(ExceptionGroup) as raised:
        async with anyio.create_task_group() as tasks, scheduler:
            await journal.clock.advance("1h")
            tasks.start_soon(journal.clock.advance, "1h")
    assert raised.group_contains(ValueError, match="no rows")
    assert [row["last"]["status"] for row in jobs] == ["failed", "failed"]


async def test_two_schedulers_over_one_array_both_run_every_row() -> None:
    """S1: nothing keeps two of them apart: make one."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])
    async with journal.scheduler(jobs), journal.scheduler(jobs):
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR, HOUR]


async def test_observers_are_given_back() -> None:
    """S8: a scheduler that ended leaves no observer on the array."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])
    for _ in range(3):
        async with journal.scheduler(jobs) as scheduler:
            await journal.clock.advance(0)
        jobs[0]["every"] = "2h"
        assert scheduler.next_due(jobs[0]) is None


async def test_real_clock_is_the_default() -> None:
    """S1: without a clock it runs on that of the machine."""
    fired: list[int] = []
    enough = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        fired.append(context.due)
        assert job["last"]["started"] >= context.due
        if len(fired) == 3:
            enough.set()

    async with Scheduler(ObservableArray([Row(every=5)]), run, skipped=lambda row, due: None):
        with anyio.fail_after(10):
            await enough.wait()
    assert all((due - fired[0]) % 5 == 0 for due in fired)
    assert fired == sorted(set(fired))
