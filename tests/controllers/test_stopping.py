"""Stopping: what ends in time, what is aborted, and that nothing starts any more."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.controllers.booting import Booted, application_of
from weftjobs import Row
from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    Application,
    Controller,
    JobExitError,
    RunAbortedError,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)


def booted_sleeping(takes: str, **options: Any) -> tuple[Booted, list[str]]:
    journal: list[str] = []

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            try:
                await booted.clock.sleep(takes)
                journal.append("ended")
            finally:
                journal.append(f"signal aborted: {self.signal.aborted}")

    booted = Booted(Jobs, entrypoint=options)
    return booted, journal


async def test_run_that_ends_within_the_shutdown_timeout() -> None:
    """K11: leaving gives it the time it needs, which passes at once on a virtual clock."""
    booted, journal = booted_sleeping("29s")
    async with booted.application:
        await booted.clock.advance("1h")
        start = booted.clock.now()
    assert journal == ["ended", "signal aborted: False"]
    assert booted.clock.now() - start == 29_000
    assert booted.hooks.errors == []
    assert booted.adapter.jobs[0]["last"]["status"] == "ok"


@pytest.mark.parametrize(
    ("options", "after"), [({}, 30_000), ({"shutdown_timeout": "2m"}, 120_000)]
)
async def test_run_that_does_not_end_is_aborted(options: dict[str, Any], after: int) -> None:
    """K11: its signal is aborted, it is cancelled, and `on_error` hears of it once."""
    booted, journal = booted_sleeping("1d", **options)
    async with booted.application:
        await booted.clock.advance("1h")
        start = booted.clock.now()
    assert journal == ["signal aborted: True"]
    assert booted.clock.now() - start == after
    ((error, action, context),) = booted.hooks.errors
    assert isinstance(error, RunAbortedError)
    assert (error.action, error.lost, action.name) == ("Jobs.job", False, "Jobs.job")
    assert context is not None
    assert booted.adapter.jobs[0]["last"]["error"]["reason"] == "aborted"


async def test_on_error_of_an_aborted_run_may_take_its_time() -> None:
    """K9, K11: an async hook is not cancelled together with the run that it is told of."""
    told: list[str] = []

    async def on_error(error: Exception, action: Any, context: Any) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(type(error).__name__)

    clock = VirtualClock(0)

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            await anyio.sleep_forever()

    adapter = schedule_entrypoint(clock=clock, on_error=on_error)
    async with application_of(build_entrypoints(controllers=[Jobs], schedule=adapter)):
        await clock.advance("1h")
    assert told == ["RunAbortedError"]


async def test_stop_starts_the_shutdown_timeout() -> None:
    """K5, K11: the runs have their time from `stop()` on, wherever the block is."""
    booted, journal = booted_sleeping("1d")
    async with booted.application:
        await booted.clock.advance("1h")
        booted.application.stop()
        await booted.clock.advance("29s")
        assert journal == []
        await booted.clock.advance("1s")
        assert journal == ["signal aborted: True"]


async def test_thread_that_heeds_its_signal() -> None:
    """K11: a plain method is not cancelled; it ends by itself, and has not failed."""
    ended: list[bool] = []

    class Jobs(Controller):
        @schedule("1h")
        def job(self) -> None:
            ended.append(self.signal.wait_blocking())

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1h")
    assert ended == [True]
    assert booted.hooks.errors == []
    assert booted.adapter.jobs[0]["last"]["status"] == "ok"


async def test_thread_that_never_returns_is_left_behind() -> None:
    """K11: the application ends, and the run is told; what its thread does later is ignored."""
    gate = threading.Event()
    returned = threading.Event()

    class Jobs(Controller):
        @schedule("1h")
        def job(self) -> None:
            with_hold.set()
            gate.wait(20)
            returned.set()

    with_hold = threading.Event()
    adapter = schedule_entrypoint(on_error=lambda *told: errors.append(told[0]))
    errors: list[Exception] = []
    entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter, shutdown_timeout=1)
    async with application_of(entrypoint):
        adapter.scheduler.run_now(adapter.jobs[0])
        await anyio.to_thread.run_sync(with_hold.wait)
    (error,) = errors
    assert isinstance(error, RunAbortedError)
    assert error.lost
    assert not returned.is_set()
    gate.set()
    assert await anyio.to_thread.run_sync(returned.wait, 20)


async def test_nothing_starts_from_the_first_moment_of_stopping() -> None:
    """K11: no slot due in the same tick, no `run_now`, nothing that waited for its condition."""
    journal: list[str] = []

    async def slow(context: object) -> bool:
        await booted.clock.sleep("10s")
        return False

    class Jobs(Controller):
        @schedule("1h", name="first")
        async def first(self) -> None:
            self.application.stop()
            journal.append("first")
            booted.adapter.scheduler.run_now(booted.adapter.jobs[-1])

        @schedule("1h", name="second")
        async def second(self) -> None:
            journal.append("second")

        @schedule("1h", name="plain")
        def plain(self) -> None:
            journal.append("plain")

        @schedule("3595s", name="conditional", skip_if=slow)
        async def conditional(self) -> None:
            journal.append("conditional")

        @schedule("1d", name="at will")
        async def at_will(self) -> None:
            journal.append("at will")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("2h")
        assert not booted.adapter.scheduler.run_now(booted.adapter.jobs[1])
        booted.adapter.jobs.append(Row(action="second", every="1m"))
        await booted.clock.advance("2h")
    assert journal == ["first"]
    assert booted.hooks.skips == [("conditional", "2026-01-01T00:59:55+00:00", "missed")]


async def test_stop_during_the_launch_starts_nothing() -> None:
    """K11: asked to stop by `on_launched`, not even an immediate run starts."""
    journal: list[str] = []

    class Jobs(Controller):
        @schedule("1h", immediate=True)
        async def job(self) -> None:
            journal.append("job")

    booted = Booted(Jobs, on_launched=Application.stop)
    async with booted.application:
        await booted.clock.advance("2h")
    assert journal == []


async def test_runs_end_before_components_are_left() -> None:
    """K11: an aborted run may still use its components while it cleans up."""
    journal: list[str] = []

    class Database:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *details: object) -> None:
            journal.append("left")

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            self.scope.push_async_callback(self.close)
            await anyio.sleep_forever()

        async def close(self) -> None:
            await anyio.lowlevel.checkpoint()
            self.component("db")
            journal.append("closed")

    booted = Booted(Jobs, components={"db": Database()})
    async with booted.application:
        await booted.clock.advance("1h")
    assert journal == ["closed", "left"]


async def test_cancelled_block_aborts_at_once() -> None:
    """K5, K11: who cancels the block wants it to end: runs first, then the components."""
    journal: list[str] = []

    class Database:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *details: object) -> None:
            journal.append("left")

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                journal.append(f"signal aborted: {self.signal.aborted}")

    booted = Booted(Jobs, components={"db": Database(), "cache": Database()})
    with anyio.CancelScope() as scope:
        async with booted.application:
            await booted.clock.advance("1h")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert journal == ["signal aborted: True", "left", "left"]
    assert [type(error) for error, _, _ in booted.hooks.errors] == [RunAbortedError]


async def test_leaving_may_be_cancelled() -> None:
    """K11: a second wish to end, while runs have their time, aborts them."""
    journal: list[str] = []

    class Jobs(Controller):
        @schedule(1)
        async def job(self) -> None:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                journal.append("cancelled")

    begun = anyio.Event()
    entrypoint = build_entrypoints(
        controllers=[Jobs], schedule=schedule_entrypoint(on_error=lambda *told: None)
    )
    application = application_of(entrypoint)

    async def run() -> None:
        with scope:
            async with application:
                await begun.wait()
        journal.append("left")

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await begun.wait()
        while not application.stopping:
            await anyio.lowlevel.checkpoint()
        scope.cancel()
    assert journal == ["cancelled", "left"]


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_sys_exit_in_a_run_ends_the_application(kind: str) -> None:
    """K9, K11: the block is cancelled, and what the job raised comes out as it is."""

    def leave(self: Controller) -> None:
        raise SystemExit(3)

    async def leave_later(self: Controller) -> None:
        async with anyio.create_task_group():
            raise SystemExit(3)

    method = leave if kind == "plain" else leave_later
    jobs: type[Controller] = type("Jobs", (Controller,), {"job": schedule("1h")(method)})
    fatal: list[BaseException] = []
    done: list[object] = []
    booted = Booted(
        jobs,
        on_fatal=lambda application, error: fatal.append(error),
        on_done=done.append,
    )
    with pytest.raises(SystemExit) as caught:
        async with booted.application:
            await booted.clock.advance("1h")
            await anyio.sleep_forever()
    assert caught.value.code == 3
    assert fatal == [caught.value]
    assert done == []
    ((error, _, _),) = booted.hooks.errors
    assert isinstance(error, JobExitError)


async def test_sys_exit_in_a_hook_ends_the_application() -> None:
    """K9, K11: `on_error` may end the program because of what failed."""

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            raise ValueError("no rows")

    def on_error(*told: object) -> None:
        raise SystemExit(4)

    clock = VirtualClock(0)
    adapter = schedule_entrypoint(clock=clock, on_error=on_error)
    with pytest.raises(SystemExit) as caught:
        async with application_of(build_entrypoints(controllers=[Jobs], schedule=adapter)):
            await clock.advance("1h")
            await anyio.sleep_forever()
    assert caught.value.code == 4


async def test_async_hook_hears_of_a_thread_that_is_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K11: it has a moment even then, and is cut off when it takes longer."""
    told: list[str] = []
    gate = threading.Event()

    class Jobs(Controller):
        @schedule("1h", immediate=True)
        def job(self) -> None:
            begun.set()
            gate.wait(20)

    begun = threading.Event()

    async def on_error(error: Exception, action: Any, context: Any) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(str(error))
        await anyio.sleep_forever()

    adapter = schedule_entrypoint(on_error=on_error)
    entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter, shutdown_timeout=1)
    async with application_of(entrypoint):
        await anyio.to_thread.run_sync(begun.wait)
    gate.set()
    (message,) = told
    assert message.startswith("Jobs.job: the run was left behind")
    assert [record.getMessage() for record in caplog.records] == [
        f"schedule: on_error did not end in time for {message}"
    ]


async def test_run_that_takes_long_to_clean_up_is_told_once() -> None:
    """K11: it is given up, and what it makes of that later is no second failure."""
    told: list[str] = []
    gate = anyio.Event()

    class Jobs(Controller):
        @schedule("1h", immediate=True)
        async def job(self) -> None:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await gate.wait()

    begun = anyio.Event()

    def on_error(error: Exception, action: Any, context: Any) -> None:
        told.append(f"{type(error).__name__} {context is not None}")
        gate.set()

    adapter = schedule_entrypoint(on_error=on_error)
    entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter, shutdown_timeout=1)
    async with application_of(entrypoint):
        await begun.wait()
    assert told == ["RunAbortedError True"]


async def test_leaving_on_a_virtual_clock_never_hangs() -> None:
    """K11, T2: several runs asleep at once, threads among them, end within their time."""
    journal: list[str] = []

    class Jobs(Controller):
        @schedule("1h")
        async def short(self) -> None:
            await booted.clock.sleep("10s")
            journal.append("short")

        @schedule("1h")
        async def long(self) -> None:
            await booted.clock.sleep("20s")
            journal.append("long")

        @schedule("1h")
        def thread(self) -> None:
            journal.append(f"thread: {self.signal.wait_blocking('25s')}")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1h")
    assert journal == ["short", "long", "thread: False"]
    assert booted.hooks.errors == []
