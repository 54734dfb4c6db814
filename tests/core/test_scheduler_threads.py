"""Which thread runs what: kinds of runs, and schedulers in a background thread."""

from __future__ import annotations

import threading
from functools import partial
from typing import Literal

import pytest

from tests.core.scheduling import START, Journal
from weftjobs import JobsError, ObservableArray, Row, RunContext, Scheduler

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
Backend = Literal["asyncio", "trio"]


async def do_nothing(job: Row, context: RunContext) -> None:
    pass


async def test_plain_run_that_returns_an_awaitable_is_awaited() -> None:
    """Z4: a lambda around an async function does what it looks like."""
    journal = Journal()
    row = Row(name="a", at=START)

    async def work(job: Row, context: RunContext) -> None:
        await journal.clock.sleep("5m")
        journal.note(job, context)

    async with Scheduler(
        ObservableArray([row]), lambda job, context: work(job, context), clock=journal.clock
    ):
        await journal.clock.advance("1h")
    assert journal.times == [300_000]
    assert row["last"]["ended"] == START + 300_000


class Callee:
    """A run that is an object with an async `__call__`."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    async def __call__(self, job: Row, context: RunContext) -> None:
        await self.journal.run(job, context)


async def test_run_that_is_an_object_or_a_partial() -> None:
    """Z4: what is async runs on the event loop, however it is wrapped."""
    journal = Journal()
    loop_thread = threading.get_ident()
    threads: list[int] = []

    async def run(extra: int, job: Row, context: RunContext) -> None:
        threads.append(threading.get_ident())

    for function in (partial(run, 5), partial(partial(run, 5))):
        async with Scheduler(ObservableArray([Row(at=START)]), function, clock=journal.clock):
            await journal.clock.advance(0)
    assert threads == [loop_thread] * 2
    async with Scheduler(ObservableArray([Row(at=START)]), Callee(journal), clock=journal.clock):
        await journal.clock.advance(0)
    assert journal.slots == [0]


async def test_plain_runs_leave_the_event_loop_alone() -> None:
    """Z4: a plain `run` is called in a worker thread; plain handlers on the loop."""
    journal = Journal()
    threads: dict[str, int] = {}

    def run(job: Row, context: RunContext) -> None:
        threads["run"] = threading.get_ident()
        raise ValueError

    def failed(job: Row, error: Exception) -> None:
        threads["failed"] = threading.get_ident()

    async with Scheduler(
        ObservableArray([Row(at=START)]), run, clock=journal.clock, failed=failed
    ):
        await journal.clock.advance(0)
    assert threads["run"] != threading.get_ident()
    assert threads["failed"] == threading.get_ident()


@BACKENDS
def test_in_thread(backend: Backend) -> None:
    """S1: it runs on an event loop of its own; edits of this thread are followed."""
    ran = threading.Event()
    jobs = ObservableArray([Row(name="far", every="900d")])
    threads: list[int] = []

    async def run(job: Row, context: RunContext) -> None:
        threads.append(threading.get_ident())
        if job["name"] == "new":
            ran.set()

    with Scheduler(jobs, run).in_thread(backend) as scheduler:
        assert scheduler.next_due(jobs[0]) is not None
        jobs.append(Row(name="new", at=START))
        assert ran.wait(10)
        ran.clear()
        jobs[1]["at"] = 1 + jobs[1]["last"]["started"]
        assert ran.wait(10)
    assert jobs[1]["last"]["status"] == "ok"
    assert set(threads).isdisjoint({threading.get_ident()})
    assert scheduler.run_now(jobs[1]) is False


@BACKENDS
def test_run_now_from_the_main_thread(backend: Backend) -> None:
    """S9: a synchronous program starts a run, and leaving waits for it."""
    begun, finish = threading.Event(), threading.Event()
    jobs = ObservableArray([Row(every="900d")])

    def run(job: Row, context: RunContext) -> None:
        begun.set()
        assert finish.wait(10)

    with Scheduler(jobs, run).in_thread(backend) as scheduler:
        assert scheduler.run_now(jobs[0]) is True
        assert begun.wait(10)
        assert scheduler.running(jobs[0]) == 1
        assert jobs[0]["last"]["status"] == "running"
        finish.set()
    assert jobs[0]["last"]["status"] == "ok"


@BACKENDS
def test_crash_comes_out_of_the_block(backend: Backend) -> None:
    """S7: without a handler a failed run ends the scheduler, and the block raises it."""
    raised_in_run = threading.Event()
    jobs = ObservableArray([Row(at=START)])

    async def run(job: Row, context: RunContext) -> None:
        raised_in_run.set()
        raise ValueError("no rows")

    with pytest.raises(ExceptionGroup) as raised, Scheduler(jobs, run).in_thread(backend):
        assert raised_in_run.wait(10)
    assert raised.group_contains(ValueError, match="no rows")


@BACKENDS
def test_body_in_thread_that_raises(backend: Backend) -> None:
    """S1: the error of the block comes out as it is."""
    error = ValueError("the body")
    scheduler = Scheduler(ObservableArray([Row(every="1h")]), do_nothing)
    with pytest.raises(ValueError, match="the body") as raised, scheduler.in_thread(backend):
        raise error
    assert raised.value is error


@BACKENDS
def test_wrong_rows_in_thread(backend: Backend) -> None:
    """R3: the handler is called on the loop of that thread."""
    told = threading.Event()
    with Scheduler(
        ObservableArray([Row(every="soon")]), do_nothing, failed=lambda row, error: told.set()
    ).in_thread(backend):
        assert told.wait(10)


@BACKENDS
def test_entered_twice_in_a_thread(backend: Backend) -> None:
    """S1: a scheduler that has been entered is refused there as well."""
    scheduler = Scheduler(ObservableArray(), do_nothing)
    with scheduler.in_thread(backend):
        pass
    with pytest.raises(JobsError, match="entered before"), scheduler.in_thread(backend):
        pass
