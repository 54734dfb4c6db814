"""The virtual clock: time that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from tests.core.scheduling import DAY, HOUR, MINUTE, START, Journal
from weftjobs import InvalidScheduleError, JobsError, ObservableArray, Row, RunContext, Scheduler
from weftjobs.testing import VirtualClock


@pytest.mark.parametrize(
    "start",
    [
        START,
        float(START),
        "2026-01-01T00:00:00Z",
        "2026-01-01T05:30:00+05:30",
        datetime(2026, 1, 1, tzinfo=UTC),
    ],
)
def test_start_is_any_instant(start: Any) -> None:
    """T2: it begins at any instant, and shows it."""
    clock = VirtualClock(start)
    assert clock.now() == START
    assert "2026-01-01T00:00:00" in repr(clock)


@pytest.mark.parametrize(
    "start",
    [datetime(2026, 1, 1), "2026-01-01T00:00:00", "now", True, float("nan"), 10**30, None],
)
def test_start_that_is_no_instant(start: Any) -> None:
    """Z2: a naive time, a bool and the like are refused."""
    with pytest.raises(InvalidScheduleError):
        VirtualClock(start)


@pytest.mark.parametrize("duration", [HOUR, float(HOUR), "1h", "59m 60s", timedelta(hours=1)])
async def test_durations(duration: Any) -> None:
    """Z2: wherever a duration is taken it may be written in any way."""
    clock = VirtualClock(START)
    await clock.advance(duration)
    assert clock.now() == START + HOUR
    clock.jump(duration)
    assert clock.now() == START + 2 * HOUR
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, duration)
        await clock.advance("59m")
        assert tasks.cancel_scope.cancel_called is False
        await clock.advance("1m")


@pytest.mark.parametrize("duration", [-1, timedelta(-1), "soon", "30", True, float("nan"), None])
async def test_durations_that_are_refused(duration: Any) -> None:
    """Z2: what is no duration, or negative, is refused, and the time stays."""
    clock = VirtualClock(START)
    with pytest.raises(InvalidScheduleError):
        await clock.advance(duration)
    with pytest.raises(InvalidScheduleError):
        await clock.sleep(duration)
    await clock.advance(1)
    assert clock.now() == START + 1


@pytest.mark.parametrize("duration", ["soon", "30", True, float("nan"), None, [], 10**30])
def test_jumps_that_are_refused(duration: Any) -> None:
    """Z2: the same for a jump, except that it may be negative."""
    clock = VirtualClock(START)
    with pytest.raises(InvalidScheduleError):
        clock.jump(duration)
    assert clock.now() == START


@pytest.mark.parametrize("duration", [0, 0.0, timedelta()])
async def test_nothing_is_a_length_of_time_here(duration: Any) -> None:
    """T2: advancing by nothing fires what is due now; sleeping and jumping by it do nothing."""
    journal = Journal()
    async with journal.scheduler(ObservableArray([Row(name="a", at=START)])):
        await journal.clock.advance(duration)
        assert journal.slots == [0]
    journal.clock.jump(duration)
    assert journal.clock.now() == START


async def test_time_past_the_calendar_is_refused() -> None:
    """Z2: a clock cannot be moved to where the calendar has ended."""
    clock = VirtualClock("9999-12-31T00:00:00Z")
    with pytest.raises(InvalidScheduleError):
        await clock.advance("2d")
    with pytest.raises(InvalidScheduleError):
        clock.jump("2d")
    assert "9999-12-31" in repr(clock)


async def test_jump_fires_nothing() -> None:
    """T2: time moves with nothing firing; what has come due fires late at the next advance."""
    journal = Journal()
    woken: list[int] = []

    async def sleep() -> None:
        await journal.clock.sleep("5m")
        woken.append(journal.clock.now() - START)

    jobs = ObservableArray([Row(name="a", every="1h")])
    async with journal.scheduler(jobs), anyio.create_task_group() as tasks:
        tasks.start_soon(sleep)
        await anyio.wait_all_tasks_blocked()
        journal.clock.jump("3d")
        await anyio.wait_all_tasks_blocked()
        assert journal.clock.now() == START + 3 * DAY
        assert journal.ran == []
        assert woken == []
        await journal.clock.advance(0)
    assert journal.times == [3 * DAY]
    assert woken == [3 * DAY]


async def test_step_back_does_not_lengthen_a_sleep() -> None:
    """T2: a sleep lasts as long as it lasts, whatever the clock on the wall is set to."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h", takes="10m")])
    async with journal.scheduler(jobs):
        await journal.clock.advance("65m")
        journal.clock.jump(-30 * MINUTE)
        await journal.clock.advance("5m")
        assert journal.ended == [("a", 40 * MINUTE)]
        journal.clock.jump(timedelta(minutes=-1))
        assert journal.clock.now() == START + 39 * MINUTE


async def test_jump_of_a_run_holds() -> None:
    """T2: a run that sets the clock ahead within an advance does not find it set back after."""
    journal = Journal()

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        if len(journal.ran) == 1:
            journal.clock.jump("1d")

    async with Scheduler(ObservableArray([Row(every="1h")]), run, clock=journal.clock):
        await journal.clock.advance("90m")
        assert journal.clock.now() >= START + HOUR + DAY
    assert journal.slots[0] == HOUR


async def test_two_advances_at_once_are_refused() -> None:
    """T2: time is moved from one place; a run that tries is told how to take time."""
    journal = Journal()
    errors: list[JobsError] = []

    async def run(job: Row, context: RunContext) -> None:
        with pytest.raises(JobsError) as raised:
            await journal.clock.advance("1h")
        errors.append(raised.value)

    async with Scheduler(ObservableArray([Row(every="1h")]), run, clock=journal.clock):
        await journal.clock.advance("90m")
    assert journal.clock.now() == START + HOUR * 3 // 2
    assert [error.reason for error in errors] == ["invalid"]
    assert "sleep" in errors[0].fix


async def test_advance_that_is_cancelled_may_be_followed_by_another() -> None:
    """T2: a cancelled advance leaves a clock that works."""
    journal = Journal()
    with anyio.move_on_after(0):
        await journal.clock.advance("1h")
    before = journal.clock.now()
    await journal.clock.advance("1h")
    assert journal.clock.now() == before + HOUR


async def test_sleeper_that_is_cancelled_is_forgotten() -> None:
    """T2: who gave up does not keep time from being skipped over."""
    clock = VirtualClock(START)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, "1h")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(10):
        await clock.advance("2h")
    assert clock.now() == START + 2 * HOUR


SLEEPS: dict[str, Callable[[VirtualClock], Any]] = {
    "until now": lambda clock: clock.sleep_until(clock.now()),
    "until before": lambda clock: clock.sleep_until(0),
}


@pytest.mark.parametrize("sleep", SLEEPS.values(), ids=SLEEPS)
async def test_sleep_until_what_is_past_returns(sleep: Callable[[VirtualClock], Any]) -> None:
    """T1: a time that has come is not waited for."""
    with anyio.fail_after(10):
        await sleep(VirtualClock(START))


async def test_leaving_while_a_run_sleeps_on_the_clock() -> None:
    """T2: it would wait without end: an error says what to do, and the run is cancelled."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    row = Row(every="1h")

    async def run(job: Row, context: RunContext) -> None:
        await clock.sleep("90m")

    with pytest.raises(JobsError) as caught:
        async with Scheduler(ObservableArray([row]), run, clock=clock):
            await clock.advance("1h")
    assert str(caught.value) == (
        "clock: a run sleeps until 2026-01-01T02:30:00+00:00, "
        "and nobody advances the clock any more"
    )
    assert caught.value.fix == "Advance it past that before the scheduler is stopped."
    assert row["last"]["error"] == {"message": "cancelled"}


async def test_leaving_while_a_run_waits_for_something_else() -> None:
    """T2: a run that waits for an event is waited for, on a virtual clock too."""
    clock = VirtualClock(0)
    gate = anyio.Event()
    row = Row(every="1h")

    async def run(job: Row, context: RunContext) -> None:
        await gate.wait()

    async def open_gate() -> None:
        await anyio.wait_all_tasks_blocked()
        gate.set()

    async with (
        anyio.create_task_group() as tasks,
        Scheduler(ObservableArray([row]), run, clock=clock),
    ):
        await clock.advance("1h")
        tasks.start_soon(open_gate)
    assert row["last"]["status"] == "ok"
