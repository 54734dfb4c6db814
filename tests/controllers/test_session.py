"""When runs start and when they are skipped: overlap, immediate, aligned, grace, timeout."""

from __future__ import annotations

import logging
import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.controllers.booting import Booted
from weftjobs import parse_duration
from weftjobs_controllers import Controller, RunTimeoutError, ScheduleContext, schedule

LOGGER = "weftjobs_controllers"


class Slow(Controller):
    """Jobs that take 90 seconds; a class of its own for each test."""

    journal: list[str]

    async def work(self) -> None:
        self.journal.append(f"+{self.context.run}")
        await self.component("clock").sleep("90s")
        self.journal.append(f"-{self.context.run}")


def booted_slow(**options: Any) -> tuple[Booted, list[str]]:
    class Jobs(Slow):
        @schedule("1m", **options)
        async def job(self) -> None:
            await self.work()

    Jobs.journal = []
    return Booted(Jobs), Jobs.journal


async def test_slot_that_comes_while_the_job_runs_is_skipped() -> None:
    """K8, K9: it is told once as `overlap`, and not counted as a run."""
    booted, journal = booted_slow()
    async with booted.application:
        await booted.clock.advance("5m")
        await booted.clock.advance("1m")
    assert journal == ["+1", "-1", "+2", "-2", "+3", "-3"]
    assert booted.hooks.skips == [
        ("Jobs.job", "2026-01-01T00:02:00+00:00", "overlap"),
        ("Jobs.job", "2026-01-01T00:04:00+00:00", "overlap"),
        ("Jobs.job", "2026-01-01T00:06:00+00:00", "overlap"),
    ]


async def test_overlap_lets_runs_overlap() -> None:
    """K8: with `overlap=True` every slot runs."""
    booted, journal = booted_slow(overlap=True)
    async with booted.application:
        await booted.clock.advance("3m")
        assert booted.adapter.scheduler.running(booted.adapter.jobs[0]) == 2
        booted.adapter.jobs[0]["paused"] = True
        await booted.clock.advance("90s")
    assert journal == ["+1", "+2", "-1", "+3", "-2", "-3"]
    assert booted.hooks.skips == []


async def test_overlap_of_a_row_is_followed_live() -> None:
    """K10: the row says whether its runs may overlap; anything but a truth value is reported."""
    booted, journal = booted_slow()
    async with booted.application:
        booted.adapter.jobs[0]["overlap"] = True
        await booted.clock.advance("2m")
        assert journal == ["+1", "+2"]
        booted.adapter.jobs[0]["overlap"] = "yes"
        await booted.clock.advance("2m")
    ((error, _, context),) = booted.hooks.errors
    assert str(error) == "overlap: 'yes' is not True or False"
    assert context is None
    assert journal == ["+1", "+2", "-1", "-2"]


def noting(**options: Any) -> tuple[type[Controller], list[str]]:
    noted: list[str] = []

    class Jobs(Controller):
        @schedule(**options)
        async def job(self) -> None:
            noted.append(self.context.scheduled_at.isoformat()[11:19])

    return Jobs, noted


async def test_immediate_runs_once_at_launch() -> None:
    """K8: the run at launch is one more; the interval begins at the launch."""
    jobs, noted = noting(every="1h", immediate=True)
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance(0)
        assert noted == ["00:00:00"]
        await booted.clock.advance("1h")
    assert noted == ["00:00:00", "01:00:00"]
    assert booted.hooks.errors == []


async def test_immediate_waits_for_the_launch() -> None:
    """K4, K8: no job starts before all of `bootstrap` has, and `on_launched` has been told."""
    jobs, noted = noting(cron="@daily", timezone="UTC", immediate=True)
    before: list[Any] = []

    async def on_launched(application: object) -> None:
        await anyio.wait_all_tasks_blocked()
        before.extend(noted)
        before.append(booted.entrypoint.actions[0].next_time)

    booted = Booted(jobs, start="2026-01-01T12:00:00Z", on_launched=on_launched)
    async with booted.application:
        await booted.clock.advance(0)
    assert [str(item) for item in before] == ["2026-01-02 00:00:00+00:00"]
    assert noted == ["12:00:00"]


async def test_aligned_interval_is_on_the_grid_of_the_clock() -> None:
    """K8a: restarts do not move it: a process that lives 4 hours runs a 6-hour interval."""
    jobs, noted = noting(every="6h", aligned=True)
    booted = Booted(jobs, start="2026-01-01T01:30:00Z")
    for _ in range(3):
        async with booted.application:
            await booted.clock.advance("4h")
    assert noted == ["06:00:00", "12:00:00"]


async def test_edited_interval_of_an_aligned_job_stays_aligned() -> None:
    """K8a, K10: the new interval has its grid on the clock too."""
    jobs, noted = noting(every="6h", aligned=True)
    booted = Booted(jobs, start="2026-01-01T01:30:00Z")
    async with booted.application:
        booted.adapter.jobs[0]["every"] = "1h"
        await booted.clock.advance("2h")
    assert noted == ["02:00:00", "03:00:00"]


async def test_what_was_slept_through_is_one_missed_slot() -> None:
    """K8, K9: the armed slot is told, nothing runs late, and the job goes on as planned."""
    jobs, noted = noting(every="1h")
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance("1h")
        booted.clock.jump("5h 30m")
        await booted.clock.advance(0)
        assert booted.adapter.jobs[0]["last"]["status"] == "ok"
        await booted.clock.advance("30m")
    assert noted == ["01:00:00", "07:00:00"]
    assert booted.hooks.skips == [("Jobs.job", "2026-01-01T02:00:00+00:00", "missed")]


@pytest.mark.parametrize(("late", "runs"), [("10m", True), (600_001, False)])
async def test_grace(late: int | str, runs: bool) -> None:
    """K8: a run may start up to `grace` after its planned time."""
    jobs, noted = noting(every="1h")
    booted = Booted(jobs, adapter={"grace": "10m"})
    async with booted.application:
        booted.clock.jump("1h")
        booted.clock.jump(late)
        await booted.clock.advance(0)
    assert (noted == ["01:00:00"]) == runs
    assert (booted.hooks.skips == []) == runs


async def test_missed_is_logged_as_a_warning_and_the_others_as_information(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K9: without a hook nothing is skipped silently."""
    caplog.set_level(logging.INFO, logger=LOGGER)

    class Jobs(Controller):
        @schedule("1h", name="missed")
        async def missed(self) -> None: ...

        @schedule("1h", name="condition", skip_if=lambda context: True)
        async def condition(self) -> None: ...

    booted = Booted(Jobs, hooked=False)
    async with booted.application:
        await booted.clock.advance("1h")
        booted.clock.jump("90m")
        await booted.clock.advance(0)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "schedule: condition skipped at 2026-01-01T01:00:00+00:00 (condition)"),
        ("WARNING", "schedule: missed skipped at 2026-01-01T02:00:00+00:00 (missed)"),
        ("WARNING", "schedule: condition skipped at 2026-01-01T02:00:00+00:00 (missed)"),
    ]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_skip_if(kind: str) -> None:
    """K8a, K9a: a skipped run is no run: it is not counted, and `last` stays as it was."""
    asked: list[int] = []

    def odd(context: ScheduleContext) -> bool:
        asked.append(context.run)
        return bool(len(asked) % 2)

    async def odd_later(context: ScheduleContext) -> bool:
        await anyio.lowlevel.checkpoint()
        return odd(context)

    jobs, noted = noting(every="1h", skip_if=odd if kind == "plain" else odd_later)
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance("1h")
        assert "last" not in booted.adapter.jobs[0]
        await booted.clock.advance("3h")
    assert asked == [1, 1, 2, 2]
    assert noted == ["02:00:00", "04:00:00"]
    assert booted.hooks.skips == [
        ("Jobs.job", "2026-01-01T01:00:00+00:00", "condition"),
        ("Jobs.job", "2026-01-01T03:00:00+00:00", "condition"),
    ]


async def test_skip_if_that_raises() -> None:
    """K9a: it is told to `on_error`, and the job does not run."""

    def broken(context: ScheduleContext) -> bool:
        raise OSError("no flag")

    jobs, noted = noting(every="1h", skip_if=broken)
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance("1h")
    assert noted == []
    assert [str(error) for error, _, _ in booted.hooks.errors] == ["no flag"]


async def test_grace_counts_what_skip_if_took() -> None:
    """K8: a run that would start too late because its condition took long is missed."""

    async def slow(context: ScheduleContext) -> bool:
        await booted.clock.sleep("2m")
        return False

    jobs, noted = noting(every="1h", skip_if=slow)
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance("63m")
    assert noted == []
    assert booted.hooks.skips == [("Jobs.job", "2026-01-01T01:00:00+00:00", "missed")]


async def test_overlapping_runs_are_numbered_as_they_start() -> None:
    """K6: two runs whose conditions are asked at once do not share a number."""
    numbers: list[int] = []

    async def slow(context: ScheduleContext) -> bool:
        await booted.clock.sleep("30s")
        return False

    class Jobs(Controller):
        @schedule("20s", overlap=True, skip_if=slow)
        async def job(self) -> None:
            numbers.append(self.context.run)

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("90s")
    assert numbers[:3] == [1, 2, 3]


async def test_timeout_of_an_async_run() -> None:
    """K8a: it is cancelled, its signal aborted, and its failure is `RunTimeoutError`."""
    seen: list[object] = []

    class Jobs(Controller):
        @schedule("1h", timeout="5m")
        async def job(self) -> None:
            seen.append(self.signal.aborted)
            try:
                await anyio.sleep_forever()
            finally:
                seen.append(self.signal.aborted)
                seen.append(booted.clock.now() - start)

    booted = Booted(Jobs)
    start = booted.clock.now()
    async with booted.application:
        await booted.clock.advance("2h 10m")
        record = booted.adapter.jobs[0]["last"]
    assert seen == [False, True, parse_duration("65m"), False, True, parse_duration("125m")]
    assert record["error"] == {
        "message": "Jobs.job: the run exceeded its timeout of 5m",
        "reason": "timeout",
    }
    assert [type(error) for error, _, _ in booted.hooks.errors] == [RunTimeoutError] * 2


async def test_timeout_wakes_those_who_wait_for_the_signal() -> None:
    """K8a: the signal is aborted before the run is cancelled, for every task and thread."""
    woken: list[str] = []

    class Jobs(Controller):
        @schedule("1h", timeout="5m")
        async def job(self) -> None:
            async def wait() -> None:
                with anyio.CancelScope(shield=True):
                    await self.signal.wait()
                woken.append("task")

            def wait_in_thread() -> None:
                self.signal.wait_blocking()
                woken.append("thread")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.to_thread.run_sync(wait_in_thread)

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("66m")
    assert sorted(woken) == ["task", "thread"]
    assert [type(error) for error, _, _ in booted.hooks.errors] == [RunTimeoutError]


async def test_scope_that_a_condition_used_is_closed() -> None:
    """K6: also when the run was skipped."""
    closed: list[str] = []

    def skip(context: ScheduleContext) -> bool:
        context.scope.callback(closed.append, "closed")
        return True

    jobs, _ = noting(every="1h", skip_if=skip)
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance("2h")
    assert closed == ["closed", "closed"]


async def test_timeout_that_is_not_reached() -> None:
    """K8a: a run that ends in time is not touched, nor is what it raises."""

    class Jobs(Controller):
        @schedule("1h", timeout="5m")
        async def job(self) -> None:
            await booted.clock.sleep("299s")
            if self.context.run == 2:
                raise ValueError("no rows")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("2h 10m")
    assert [str(error) for error, _, _ in booted.hooks.errors] == ["no rows"]


@pytest.mark.parametrize("answer", ["swallows", "raises"])
async def test_timeout_of_a_run_that_takes_it_badly(answer: str) -> None:
    """K8a: the failure is the timeout, whatever the run makes of being cancelled."""

    class Jobs(Controller):
        @schedule("1h", timeout="5m")
        async def job(self) -> None:
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                if answer == "raises":
                    raise ValueError("interrupted") from None

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("70m")
    ((error, _, _),) = booted.hooks.errors
    assert isinstance(error, RunTimeoutError)
    assert (str(error.__cause__) == "interrupted") == (answer == "raises")


async def test_timeout_of_a_thread_is_told_at_once_and_once() -> None:
    """K8a: nothing can cancel a thread; it is told, and the job does not overlap with itself."""
    gate = threading.Event()

    class Jobs(Controller):
        @schedule("1h", timeout="5m")
        def job(self) -> None:
            self.signal.wait_blocking()
            told.append(len(booted.hooks.errors))
            gate.wait(20)

    told: list[int] = []
    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("61m")
        assert booted.hooks.errors == []
        booted.clock.jump("4m")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(booted.clock.advance, "1m")
            while not booted.hooks.errors:
                await anyio.wait_all_tasks_blocked()
            assert booted.adapter.scheduler.running(booted.adapter.jobs[0]) == 1
            gate.set()
        record = booted.adapter.jobs[0]["last"]
    ((error, _, _),) = booted.hooks.errors
    assert isinstance(error, RunTimeoutError)
    assert record["error"]["reason"] == "timeout"


async def test_waiting_for_a_thread_counts_towards_grace() -> None:
    """K9a: what finds no free thread in time is missed, at the end of its grace."""
    gates = [threading.Event() for _ in range(40)]

    def busy(index: int) -> Any:
        def job(self: Controller) -> None:
            self.signal.wait_blocking("3m")

        return schedule("1h", name=f"busy {index}")(job)

    def starved(self: Controller) -> None:
        pytest.fail("it must not start")

    members = {f"job_{index}": busy(index) for index in range(len(gates))}
    starving = schedule("1h", name="starved")(starved)
    jobs: type[Controller] = type("Jobs", (Controller,), {**members, "starved": starving})
    booted = Booted(jobs)
    async with booted.application:
        await booted.clock.advance("61m")
        assert booted.hooks.skips == []
        await booted.clock.advance(1_000)
        assert booted.hooks.skips == [("starved", "2026-01-01T01:00:00+00:00", "missed")]
        await booted.clock.advance("3m")
    assert booted.hooks.errors == []


async def test_paused_row_does_not_run() -> None:
    """K10: a true `paused` takes the job off its schedule; `run_now` works all the same."""
    jobs, noted = noting(every="1h")
    booted = Booted(jobs)
    async with booted.application:
        row = booted.adapter.jobs[0]
        row["paused"] = True
        await booted.clock.advance("3h")
        assert noted == []
        assert booted.entrypoint.actions[0].next_time is None
        assert booted.adapter.scheduler.run_now(row)
        await booted.clock.advance("30m")
        row["paused"] = False
        await booted.clock.advance("1h")
    assert noted == ["03:00:00", "04:30:00"]


async def test_broken_edit_keeps_no_half_of_the_schedule() -> None:
    """K10: a row that is edited into nonsense is off its schedule whole, until it is mended."""
    jobs, noted = noting(cron="0 * * * *", timezone="UTC")
    booted = Booted(jobs)
    async with booted.application:
        row = booted.adapter.jobs[0]
        row["tz"] = "Mars/Olympus"
        await booted.clock.advance("2h")
        row["tz"] = "Asia/Kolkata"
        await booted.clock.advance("1h")
    assert noted == ["08:00:00"]
    assert [context for _, _, context in booted.hooks.errors] == [None]


async def test_signal_waits_in_a_thread_on_virtual_time() -> None:
    """K11, T2: `wait_blocking` in a plain method lets the clock move, and ends by it."""
    waits: list[bool] = []

    class Jobs(Controller):
        @schedule("1h")
        def job(self) -> None:
            waits.extend(self.signal.wait_blocking("10m") for _ in range(3))

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("85m")
        assert waits == [False, False]
        await booted.clock.advance("5m")
        assert waits == [False, False, False]
    assert booted.hooks.errors == []


async def test_signal_cannot_block_the_event_loop() -> None:
    """K11, Z3: `wait_blocking` on the event loop is refused, and the fix names `wait`."""

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            self.signal.wait_blocking("1s")

        @schedule("1h", name="timeout")
        def wrong(self) -> None:
            self.signal.wait_blocking("soon")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1h")
    messages = sorted(str(error) for error, _, _ in booted.hooks.errors)
    assert messages == [
        "signal: wait_blocking() is called on the event loop, which it would block",
        "timeout: 'soon' is not a duration",
    ]
