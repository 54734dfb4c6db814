"""The clocks: what the protocol asks, and the wall clock of the machine."""

from __future__ import annotations

import inspect
import time
from types import SimpleNamespace

import anyio
import pytest

from weftjobs import Clock, ObservableArray, Row, RunContext, Scheduler, SystemClock
from weftjobs.testing import VirtualClock


class Wall:
    """Stands for the module `time` in `weftjobs.clock`: a real clock that can be set."""

    def __init__(self) -> None:
        self.offset = 0

    def time_ns(self) -> int:
        return time.time_ns() + self.offset * 1_000_000  # noqa: TID251


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    """Return what sets the system clock, which is looked at every 10 ms instead of 10 s."""
    wall = Wall()
    module = SimpleNamespace(time_ns=wall.time_ns, perf_counter=time.perf_counter)
    monkeypatch.setattr("weftjobs.clock.time", module)
    monkeypatch.setattr("weftjobs.clock._SLICE", 0.01)
    return wall


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock(0)], ids=["system", "virtual"])
def test_clocks_have_what_the_protocol_asks(clock: Clock) -> None:
    """T1: `now()` answers an integer, and `sleep_until(ms)` is awaited."""
    assert type(clock.now()) is int
    assert inspect.iscoroutinefunction(clock.sleep_until)


def test_system_clock_is_that_of_the_machine(wall: Wall) -> None:
    """T1: milliseconds since the epoch, from the wall clock."""
    wall.offset = 1_000_000_000
    before = wall.time_ns() // 1_000_000
    now = SystemClock().now()
    assert before <= now <= wall.time_ns() // 1_000_000


async def test_system_clock_does_not_wake_early() -> None:
    """T1: when the sleep is over the time has come."""
    clock = SystemClock()
    for milliseconds in (1, 7, 20):
        until = clock.now() + milliseconds
        with anyio.fail_after(10):
            await clock.sleep_until(until)
        assert clock.now() >= until


async def test_system_clock_sleeps_no_longer_than_until_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T1: what is left is counted from the very time, not from the millisecond that has begun."""
    time_now = 1_000_000_700_000
    asked: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal time_now
        asked.append(seconds)
        time_now += round(seconds * 1e9)
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr("weftjobs.clock.time", SimpleNamespace(time_ns=lambda: time_now))
    monkeypatch.setattr("weftjobs.clock.anyio.sleep", sleep)
    await SystemClock().sleep_until(1_000_001)
    assert asked == [0.0003]


@pytest.mark.parametrize("ahead", [0, -1, -(10**15)])
async def test_sleep_until_what_is_past_is_no_sleep(ahead: int) -> None:
    """T1: a time that has come is not waited for."""
    clock = SystemClock()
    with anyio.fail_after(10):
        await clock.sleep_until(clock.now() + ahead)


@pytest.mark.parametrize("ahead", [10**9, 40 * 86_400_000, 10**15])
async def test_long_sleep_is_possible_and_can_be_cancelled(ahead: int) -> None:
    """S11: however far ahead, the wait is one that the event loop can hold."""
    clock = SystemClock()
    with anyio.move_on_after(0.01) as scope:
        await clock.sleep_until(clock.now() + ahead)
    assert scope.cancelled_caught


async def test_system_clock_notices_a_step_forward(wall: Wall) -> None:
    """S4: a clock that was set ahead, or a machine that slept, ends the sleep."""
    clock = SystemClock()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.sleep_until, clock.now() + 3_600_000)
            await anyio.wait_all_tasks_blocked()
            wall.offset += 3_600_000


async def test_system_clock_notices_a_step_back(wall: Wall) -> None:
    """S4: a clock that was set back ends the sleep early, for the sleeper to look again."""
    clock = SystemClock()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.sleep_until, clock.now() + 3_600_000)
            await anyio.wait_all_tasks_blocked()
            wall.offset -= 7_200_000


def test_the_clock_is_looked_at_every_ten_seconds() -> None:
    """S4: no single sleep is longer than that."""
    from weftjobs import clock

    assert 0 < clock._SLICE <= 10


async def test_scheduler_notices_a_step_forward(wall: Wall) -> None:
    """S4: what came due meanwhile runs once, with the slot it was armed for."""
    fired: list[int] = []
    first = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        fired.append(context.due)
        first.set()

    jobs = ObservableArray([Row(every="1h")])
    async with Scheduler(jobs, run) as scheduler:
        await anyio.wait_all_tasks_blocked()
        armed = scheduler.next_due(jobs[0])
        wall.offset += 7 * 86_400_000
        with anyio.fail_after(10):
            await first.wait()
        following = scheduler.next_due(jobs[0])
    assert fired == [armed]
    assert armed is not None
    assert following == armed + 7 * 86_400_000


async def test_scheduler_corrects_a_clock_set_back(
    wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    """S4: on the real clock, a large step back finds the slots anew and logs a warning."""
    ran = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        ran.set()

    jobs = ObservableArray([Row(every=200)])
    wall.offset = 30 * 365 * 86_400_000
    async with Scheduler(jobs, run):
        await anyio.wait_all_tasks_blocked()
        wall.offset = 0
        with anyio.fail_after(10):
            await ran.wait()
    assert "set back" in caplog.text


async def test_clock_of_ones_own() -> None:
    """T1: any object with the two methods drives a scheduler."""

    class Fast:
        """A clock that is always as late as its sleepers ask."""

        def __init__(self) -> None:
            self.time = 0

        def now(self) -> int:
            return self.time

        async def sleep_until(self, milliseconds: int, /) -> None:
            await anyio.lowlevel.checkpoint()
            self.time = max(self.time, milliseconds)

    fired: list[int] = []

    async def run(job: Row, context: RunContext) -> None:
        fired.append(context.due)
        if len(fired) == 5:
            await scheduler.stop()

    scheduler = Scheduler(
        ObservableArray([Row(every="1d")]), run, clock=Fast(), skipped=lambda row, due: None
    )
    with anyio.fail_after(10):
        await scheduler.serve()
    assert fired[0] == 86_400_000
    assert fired == sorted(set(fired))
    assert {due % 86_400_000 for due in fired} == {0}


async def test_plain_runs_work_with_a_clock_of_ones_own() -> None:
    """T1: a clock needs no more than the protocol, for runs in threads as well."""

    class Still:
        def now(self) -> int:
            return 5

        async def sleep_until(self, milliseconds: int, /) -> None:
            await anyio.sleep_forever()

    ran = anyio.Event()
    row = Row(at=3)

    def run(job: Row, context: RunContext) -> None:
        anyio.from_thread.run_sync(ran.set)

    async with Scheduler(ObservableArray([row]), run, clock=Still()):
        with anyio.fail_after(10):
            await ran.wait()
    assert row["last"] == {"started": 5, "ended": 5, "status": "ok"}
