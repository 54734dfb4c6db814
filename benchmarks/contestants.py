"""The schedulers that are measured, each behind the same few methods.

The bare loop is the yardstick: the priority queue of the documentation of `heapq`, one `call_at`,
and one `create_task` for each fire. It checks, follows, records and reports nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from weftjobs import At, Every, ObservableArray, Row, RunContext, Scheduler, Trigger, plan_row
from weftjobs.planning import Planner
from weftjobs_controllers import Application, Controller, build_entrypoints, schedule_entrypoint
from weftjobs_controllers import schedule as decorate

FAR = 86_400_000
"""How many ms ahead that is due which must not fire."""

Fired = Callable[[int], None]
"""Told of each run when it starts, with the ms at which it was due."""


class Due(Protocol):
    """A scheduler whose jobs come due."""

    def add_at(self, due: int) -> None:
        """Add a job that is due once, at so many ms since the epoch."""

    async def begin(self) -> None:
        """Sleep until the soonest is due; all have been added."""


class Contestant(Due, Protocol):
    """A scheduler that does all that is measured."""

    def add(self, number: int) -> Any:
        """Add a job that is far from due, and return what stands for it."""

    def reschedule(self, job: Any, number: int) -> Any:
        """Give a job another interval, and return what stands for it now."""

    def remove(self, job: Any) -> None:
        """Take a job off."""

    def add_every(self, interval: int, start: int) -> None:
        """Add a job that is due at a start and every so many ms after it."""


def now() -> int:
    return time.time_ns() // 1_000_000


class Bare:
    """The yardstick."""

    def __init__(self, fired: Fired, wait: float) -> None:
        async def run(due: int) -> None:
            fired(due)

        async def run_and_wait(due: int) -> None:
            fired(due)
            await asyncio.sleep(wait)

        self.run = run_and_wait if wait else run
        self.heap: list[list[Any]] = []
        self.timers: dict[int, list[Any]] = {}
        self.intervals: dict[int, int] = {}
        self.order = itertools.count()
        self.tasks: set[object] = set()
        self.loop = asyncio.get_running_loop()

    def arm(self, job: int, due: int) -> None:
        self.timers[job] = timer = [due, next(self.order), job]
        heapq.heappush(self.heap, timer)

    def disarm(self, job: int) -> None:
        timer = self.timers.pop(job)
        timer[-1] = None
        if len(self.heap) > 2 * len(self.timers) + 64:
            self.heap = list(self.timers.values())
            heapq.heapify(self.heap)

    def add(self, number: int) -> int:
        self.arm(number, now() + FAR + number % 500)
        return number

    def reschedule(self, job: int, number: int) -> int:
        self.disarm(job)
        self.arm(job, now() + FAR + 500 + number % 500)
        return job

    def remove(self, job: int) -> None:
        self.disarm(job)

    def add_at(self, due: int) -> None:
        self.arm(len(self.timers), due)

    def add_every(self, interval: int, start: int) -> None:
        self.intervals[len(self.timers)] = interval
        self.add_at(start)

    async def begin(self) -> None:
        self.sleep()

    def sleep(self) -> None:
        if self.heap:
            wait = self.heap[0][0] / 1000 - time.time()
            self.loop.call_at(self.loop.time() + wait, self.fire)

    def fire(self) -> None:
        current = now()
        while self.heap and self.heap[0][0] <= current:
            due, _, job = heapq.heappop(self.heap)
            if job is None:
                continue
            del self.timers[job]
            task = self.loop.create_task(self.run(due))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            if job in self.intervals:
                self.arm(job, due + self.intervals[job])
        self.sleep()


class Weft:
    """This library: a scheduler over an array, as anybody would use it."""

    def __init__(self) -> None:
        self.jobs = ObservableArray()

    def add(self, number: int) -> Row:
        row = Row(name="job", every=FAR + number % 500)
        self.jobs.append(row)
        return row

    def reschedule(self, job: Row, number: int) -> Row:
        job["every"] = FAR + 500 + number % 500
        return job

    def remove(self, job: Row) -> None:
        self.jobs.remove(job)

    def add_at(self, due: int) -> None:
        self.jobs.append(Row(name="job", at=due))

    def add_every(self, interval: int, start: int) -> None:
        self.jobs.append(Row(name="job", every=interval, start=start))

    async def begin(self) -> None:
        pass


def plan_phased(row: Row) -> Trigger:
    """Plan a row that says where its grid starts."""
    return Every(row["every"], origin=row["start"])


class Methods:
    """This library: scheduled methods of a controller, in an application with nothing else."""

    def __init__(self, fired: Fired, stack: AsyncExitStack) -> None:
        self.fired = fired
        self.stack = stack
        self.methods: dict[str, Any] = {}

    def add_at(self, due: int) -> None:
        async def job(self: Controller) -> None:
            fired(due)

        fired = self.fired
        self.methods[f"job_{len(self.methods)}"] = decorate(At(due))(job)

    async def begin(self) -> None:
        controller = type("JobController", (Controller,), self.methods)
        entrypoint = build_entrypoints(controllers=[controller], schedule=schedule_entrypoint())
        application = Application(
            id="jobs.app",
            name="Jobs",
            components={"entrypoint": entrypoint},
            bootstrap=["entrypoint"],
        )
        await self.stack.enter_async_context(application)


class APScheduler3:
    """APScheduler 3 on asyncio, its jobs in memory."""

    def __init__(self, scheduler: Any, fired: Fired, wait: float) -> None:
        async def run(due: int) -> None:
            fired(due)
            if wait:
                await asyncio.sleep(wait)

        self.scheduler = scheduler
        self.run = run

    def add(self, number: int) -> Any:
        return self.scheduler.add_job(self.run, "interval", [0], seconds=interval(number))

    def reschedule(self, job: Any, number: int) -> Any:
        return job.reschedule("interval", seconds=interval(number + 500))

    def remove(self, job: Any) -> None:
        job.remove()

    def add_at(self, due: int) -> None:
        self.scheduler.add_job(
            self.run, "date", [due], run_date=moment(due), misfire_grace_time=None
        )

    def add_every(self, interval: int, start: int) -> None:
        dues = itertools.count(start, interval)

        async def run() -> None:
            await self.run(next(dues))

        self.scheduler.add_job(
            run,
            "interval",
            seconds=interval / 1000,
            start_date=moment(start),
            misfire_grace_time=None,
        )

    async def begin(self) -> None:
        pass


class ScheduleLibrary:
    """The library `schedule`: plain functions, called one after another in a thread."""

    def __init__(self, scheduler: Any, fired: Fired) -> None:
        self.scheduler = scheduler
        self.fired = fired
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve)

    def add(self, number: int) -> Any:
        return self.scheduler.every(int(interval(number))).seconds.do(self.fired, 0)

    def reschedule(self, job: Any, number: int) -> Any:
        self.scheduler.cancel_job(job)
        return self.add(number + 500)

    def remove(self, job: Any) -> None:
        self.scheduler.cancel_job(job)

    def add_at(self, due: int) -> None:
        self.add_every(FAR, due)

    def add_every(self, interval: int, start: int) -> None:
        dues = itertools.count(start, interval)
        job = self.scheduler.every(interval // 1000).seconds.do(lambda: self.fired(next(dues)))
        job.next_run = datetime.fromtimestamp(start / 1000)

    async def begin(self) -> None:
        self.thread.start()

    def serve(self) -> None:
        while not self.ended.is_set():
            self.scheduler.run_pending()
            idle = self.scheduler.idle_seconds
            self.ended.wait(1.0 if idle is None else max(0.0, min(idle, 1.0)))


def interval(number: int) -> float:
    return FAR / 1000 + number % 1000


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@asynccontextmanager
async def bare(fired: Fired, wait: float, phased: bool) -> AsyncIterator[Contestant]:
    yield Bare(fired, wait)


@asynccontextmanager
async def weftjobs(fired: Fired, wait: float, phased: bool) -> AsyncIterator[Contestant]:
    sleep = asyncio.sleep if running_on_asyncio() else anyio.sleep

    async def run(job: Row, context: RunContext) -> None:
        fired(context.due)

    async def run_and_wait(job: Row, context: RunContext) -> None:
        fired(context.due)
        await sleep(wait)

    contestant = Weft()
    plan: Planner = plan_phased if phased else plan_row
    async with Scheduler(contestant.jobs, run_and_wait if wait else run, plan=plan):
        yield contestant


def running_on_asyncio() -> bool:
    token = anyio.lowlevel.current_token()
    return isinstance(token.native_token, asyncio.AbstractEventLoop)


@asynccontextmanager
async def controllers(fired: Fired, wait: float, phased: bool) -> AsyncIterator[Due]:
    async with AsyncExitStack() as stack:
        yield Methods(fired, stack)


@asynccontextmanager
async def apscheduler(fired: Fired, wait: float, phased: bool) -> AsyncIterator[Contestant]:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.start()
    try:
        yield APScheduler3(scheduler, fired, wait)
    finally:
        scheduler.shutdown(wait=False)


@asynccontextmanager
async def schedule(fired: Fired, wait: float, phased: bool) -> AsyncIterator[Contestant]:
    import schedule as library

    contestant = ScheduleLibrary(library.Scheduler(), fired)
    try:
        yield contestant
    finally:
        contestant.ended.set()
        if contestant.thread.is_alive():
            contestant.thread.join()


@dataclass(frozen=True)
class Entry:
    """How a contestant is started, and on which event loop it runs.

    It is given what is told of each run, how many seconds each waits, and whether its jobs start
    at instants of their own. What is started is a `Contestant`, or no more than a `Due`.
    """

    start: Callable[[Fired, float, bool], AbstractAsyncContextManager[Any]]
    backend: str = "asyncio"


CONTESTANTS = {
    "bare loop": Entry(bare),
    "weftjobs": Entry(weftjobs),
    "weftjobs on trio": Entry(weftjobs, "trio"),
    "weftjobs_controllers": Entry(controllers),
    "weftjobs_controllers on trio": Entry(controllers, "trio"),
    "APScheduler 3": Entry(apscheduler),
    "schedule": Entry(schedule),
}
"""By name; the bare loop is what the others are measured in."""
