"""Large numbers, long lives, and clean contexts."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.core.scheduling import DAY, HOUR, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.testing import VirtualClock

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BACKENDS
def test_burst_fires_whole_in_order_and_lets_others_run(backend: str) -> None:
    """S11, T2: 10,000 rows due at one instant start as armed, and others get their turns."""
    log: list[int] = []
    number = 10_000

    async def run(job: Row, context: RunContext) -> None:
        log.append(job["number"])
        begun.set()

    async def other() -> None:
        await begun.wait()
        while log[-1] < number - 1:
            log.append(-1)
            await anyio.lowlevel.checkpoint()

    begun = anyio.Event()
    clock = VirtualClock(START)
    jobs = ObservableArray([Row(number=n, every="1h") for n in range(number)])

    async def main() -> None:
        async with Scheduler(jobs, run, clock=clock), anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            await clock.advance("1h")

    anyio.run(main, backend=backend)
    assert [n for n in log if n >= 0] == list(range(number))
    turns = [index for index, n in enumerate(log) if n == -1]
    gaps = [later - earlier for earlier, later in pairwise(turns)]
    assert len(turns) >= 5
    assert max(gaps) < number / 2


async def test_many_runs_at_once_let_others_run() -> None:
    """S11: so do 5,000 rows that are started by hand in one go."""
    log: list[str] = []
    begun = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        log.append("run")
        begun.set()

    async def other() -> None:
        await begun.wait()
        while log.count("run") < len(jobs):
            log.append("other")
            await anyio.lowlevel.checkpoint()

    jobs = ObservableArray([Row(every="1h") for _ in range(5_000)])
    clock = VirtualClock(START)
    async with Scheduler(jobs, run, clock=clock) as scheduler, anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await anyio.wait_all_tasks_blocked()
        assert all(scheduler.run_now(row) for row in jobs)
        await clock.advance(0)
    assert log.count("run") == len(jobs)
    assert log.count("other") >= 5


async def grown(work: Callable[[], Awaitable[object]]) -> int:
    """Return by how many bytes the memory in use grew when the work was done once more."""
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(2):
            await work()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return sizes[1] - sizes[0]


@BACKENDS
@pytest.mark.parametrize("outcome", ["ok", "failed", "released"])
def test_many_runs_leave_memory_flat(backend: str, outcome: str) -> None:
    """S10: thousands of runs of a row leave nothing behind, however they end."""

    async def run(job: Row, context: RunContext) -> None:
        if outcome == "released":
            context.release()
        elif outcome == "failed":
            raise ValueError("no rows")

    clock = VirtualClock(START)

    async def main() -> None:
        jobs = ObservableArray([Row(every=1), Row(every=10)])
        async with Scheduler(jobs, run, clock=clock, failed=lambda row, error: None):
            growth = await grown(lambda: clock.advance(1_000))
        # An object kept per run would be at least 16 bytes for each of 1,100 runs.
        assert growth < 16_000

    anyio.run(main, backend=backend)


@BACKENDS
def test_many_edits_leave_memory_flat(backend: str) -> None:
    """S10: so do edits that re-arm a row, rows that come and go, and wrong ones."""
    clock = VirtualClock(START)
    jobs = ObservableArray([Row(every=HOUR)])

    async def edit() -> None:
        for n in range(10_000):
            jobs[0]["every"] = HOUR + n
            if n % 4 == 0:
                jobs.append(Row(every=DAY + n))
                del jobs[1]
            if n % 400 == 0:
                jobs[0]["every"] = "soon"
                await clock.advance(1)

    async def main() -> None:
        journal = Journal()
        async with Scheduler(jobs, journal.run, clock=clock, failed=lambda row, error: None):
            growth = await grown(edit)
        assert growth < 16_000

    anyio.run(main, backend=backend)


async def test_rows_that_come_and_go_are_forgotten() -> None:
    """S10: a row that left, and was right, wrong, finished or run, is kept by nobody."""
    gone: list[bool] = []

    class Watched(Row):
        __slots__ = ()

        def __del__(self) -> None:
            gone.append(True)

    journal = Journal()
    jobs = ObservableArray()
    async with Scheduler(jobs, lambda job, context: None, clock=journal.clock, failed=print):
        jobs.extend([Watched(every="1h"), Watched(every="soon"), Watched(at=START), Watched()])
        await journal.clock.advance("1h")
        jobs.clear()
        await journal.clock.advance("1h")
        gc.collect()
        assert len(gone) == 4


variable: ContextVar[Any] = ContextVar("variable", default="unset")


@pytest.mark.parametrize("before", ["unset", "set outside"])
async def test_runs_start_in_a_clean_context(before: str) -> None:
    """S10: no run sees a context variable that another run set."""
    journal = Journal()
    seen: list[str] = []

    async def run(job: Row, context: RunContext) -> None:
        seen.append(variable.get())
        variable.set(f"{job['name']} at {context.due}")
        if job["name"] == "slow":
            await journal.clock.sleep("10m")
            assert variable.get() == f"slow at {context.due}"

    token = variable.set(before)
    jobs = ObservableArray([Row(name=name, every="1h") for name in ("a", "slow", "b", "c")])
    async with Scheduler(jobs, run, clock=journal.clock):
        variable.set("set later, outside")
        await journal.clock.advance("230m")
    variable.reset(token)
    assert seen == [before] * 12


async def test_run_that_sets_an_equal_value_leaves_no_trace() -> None:
    """S10: a value that equals the one before, and is another object, does not stay either."""
    journal = Journal()
    seen: list[bool] = []
    own: list[str] = []

    async def run(job: Row, context: RunContext) -> None:
        seen.append(variable.get() is own)
        variable.set([])

    token = variable.set(own)
    async with Scheduler(ObservableArray([Row(every="1h")]), run, clock=journal.clock):
        await journal.clock.advance("3h")
    variable.reset(token)
    assert seen == [True, True, True]


async def test_edit_of_a_run_does_not_lend_its_context_to_others() -> None:
    """S10: rows that a run inserts, or starts by hand, run in a clean context too."""
    journal = Journal()
    seen: list[str] = []

    async def run(job: Row, context: RunContext) -> None:
        seen.append(variable.get())
        variable.set("dirty")
        if job["name"] == "parent":
            jobs.extend(Row(name=f"{n}", at=START) for n in range(20))
            scheduler.run_now(jobs[1])

    jobs = ObservableArray([Row(name="parent", at=START), Row(name="second", every="9h")])
    scheduler = Scheduler(jobs, run, clock=journal.clock)
    async with scheduler:
        await journal.clock.advance("1h")
    assert seen == ["unset"] * 22


async def test_handlers_run_in_a_clean_context() -> None:
    """S10: neither do handlers hand on what they set."""
    journal = Journal()
    seen: list[str] = []

    def failed(job: Row, error: Exception) -> None:
        seen.append(variable.get())
        variable.set("dirty")

    jobs = ObservableArray([Row(every="soon") for _ in range(5)])
    async with journal.scheduler(jobs, failed=failed):
        await journal.clock.advance("1h")
    assert seen == ["unset"] * 5


async def test_long_runs_do_not_hold_up_others() -> None:
    """S6: however many runs wait, those that come due begin at their time."""
    journal = Journal()
    jobs = ObservableArray([Row(name="slow", at=START, takes="1h") for _ in range(500)])
    jobs.append(Row(name="quick", every="1m"))
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("59m")
        assert sum(scheduler.running(row) for row in jobs) == 500
        await journal.clock.advance("1m")
    assert [name for name, _ in journal.ran].count("quick") == 60
    assert len(journal.ended) == 560
