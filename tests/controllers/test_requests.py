"""A run as a request: a new controller, its scope, its factory, middlewares, its thread."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from tests.controllers.booting import Booted
from weftjobs_controllers import (
    AbortSignal,
    Controller,
    InvalidArgumentError,
    ScheduleContext,
    schedule,
)


async def test_each_run_has_a_new_controller_and_is_told_about_itself() -> None:
    """K6: the context has the schedule, the planned time, the number and the job."""
    seen: list[Controller] = []

    class Jobs(Controller):
        @schedule(cron="0 3 * * *", timezone="Asia/Shanghai", name="purge", description="Purges")
        async def job(self) -> None:
            seen.append(self)

    booted = Booted(Jobs, start="2026-01-01T00:00:00+08:00", components={"db": "connection"})
    async with booted.application:
        await booted.clock.advance("2d")
    first, second = seen
    assert first is not second
    assert first.context.schedule == "cron 0 3 * * *"
    assert first.context.scheduled_at.isoformat() == "2026-01-01T03:00:00+08:00"
    assert (first.context.run, second.context.run) == (1, 2)
    assert first.context.action.name == "purge"
    assert first.context.action.description == "Purges"
    assert first.application is booted.application
    assert first.component("db") == first.context.component("db") == "connection"
    assert first.signal is first.context.signal
    assert not first.signal.aborted


async def test_context_tells_of_its_own_run_whenever_it_is_asked() -> None:
    """K6: what a run did not ask for is told later as it was, whatever has come since."""
    seen: list[ScheduleContext] = []

    class Jobs(Controller):
        @schedule("1m")
        async def job(self) -> None:
            seen.append(self.context)

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
        booted.adapter.jobs[0].update(every=None, cron="*/2 * * * *", tz="Asia/Shanghai")
        await booted.clock.advance("1m")
    first, second = seen
    assert (first.schedule, second.schedule) == ("every 1m", "cron */2 * * * *")
    assert first.scheduled_at.isoformat() == "2026-01-01T00:01:00+00:00"
    assert second.scheduled_at.isoformat() == "2026-01-01T08:02:00+08:00"
    assert (first.run, second.run) == (1, 2)
    assert first.action is first.action
    assert first.lease_token is None


async def test_context_knows_nothing_else() -> None:
    """K6: a fact that no context has is an error that names it."""
    booted = Booted(Mistyped)
    async with booted.application:
        await booted.clock.advance("1m")
    ((error, _, _),) = booted.hooks.errors
    assert isinstance(error, AttributeError)
    assert str(error) == "'ScheduleContext' object has no attribute 'due'"


class Mistyped(Controller):
    @schedule("1m")
    async def job(self) -> None:
        self.context.due  # type: ignore[attr-defined]  # noqa: B018


async def test_signal_is_one_for_the_run_and_its_threads() -> None:
    """K6, K11: a thread that a run has started hears of the abort by the same signal."""
    signals: list[object] = []

    class Jobs(Controller):
        @schedule("1m")
        async def job(self) -> None:
            await anyio.to_thread.run_sync(self.look)
            self.look()

        def look(self) -> None:
            signals.append(self.signal)

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    assert len(signals) == 2
    assert signals[0] is signals[1]


async def test_scope_is_closed_when_the_run_ends() -> None:
    """K6: what a run enters is left in reverse order, whatever happened."""
    journal: list[str] = []

    @asynccontextmanager
    async def resource(name: str) -> AsyncIterator[str]:
        journal.append(f"+{name}")
        try:
            yield name
        finally:
            await anyio.lowlevel.checkpoint()
            journal.append(f"-{name}")

    class Jobs(Controller):
        @schedule("1m")
        async def job(self) -> None:
            assert await self.scope.enter_async_context(resource("a")) == "a"
            await self.scope.enter_async_context(resource("b"))
            journal.append(f"run {self.context.run}")
            if self.context.run == 2:
                raise ValueError("no rows")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("2m")
    assert journal == ["+a", "+b", "run 1", "-b", "-a", "+a", "+b", "run 2", "-b", "-a"]
    assert [str(error) for error, _, _ in booted.hooks.errors] == ["no rows"]


async def test_scope_that_fails_to_close() -> None:
    """K9a: what closing the scope raises is a failed run, told to `on_error`."""

    class Jobs(Controller):
        @schedule("1m")
        async def job(self) -> None:
            self.scope.push_async_callback(self.fail)

        async def fail(self) -> None:
            raise OSError("connection lost")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
        assert booted.adapter.jobs[0]["last"]["status"] == "failed"
    ((error, _, context),) = booted.hooks.errors
    assert str(error) == "connection lost"
    assert context is not None


async def test_scope_is_closed_although_the_run_is_cancelled() -> None:
    """K6: the end of a run by its timeout lets its scope be closed in peace."""
    journal: list[str] = []

    class Jobs(Controller):
        @schedule("1h", timeout="1m")
        async def job(self) -> None:
            self.scope.push_async_callback(self.close)
            await anyio.sleep_forever()

        async def close(self) -> None:
            await anyio.lowlevel.checkpoint()
            journal.append("closed")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("61m")
    assert journal == ["closed"]


class Repository:
    pass


class NeedsRepository(Controller):
    made: list[Repository]

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    @schedule("1m")
    async def job(self) -> None:
        self.made.append(self.repository)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_controller_factory(kind: str) -> None:
    """K6: it makes the controller in place of the class, and may use the scope of the run."""
    NeedsRepository.made = []
    closed: list[Repository] = []

    def make(controller: type[Controller], context: ScheduleContext) -> Controller:
        assert controller is NeedsRepository
        repository = Repository()
        context.scope.callback(closed.append, repository)
        return NeedsRepository(repository)

    async def make_later(controller: type[Controller], context: ScheduleContext) -> Controller:
        await anyio.lowlevel.checkpoint()
        return make(controller, context)

    factory = make if kind == "plain" else make_later
    booted = Booted(NeedsRepository, entrypoint={"controller_factory": factory})
    async with booted.application:
        await booted.clock.advance("2m")
    assert booted.hooks.errors == []
    assert len(set(NeedsRepository.made)) == 2
    assert closed == NeedsRepository.made


async def test_controller_factory_that_makes_no_controller() -> None:
    """K6, Z3: the failed run says what was returned, and what to return."""
    booted = Booted(
        NeedsRepository, entrypoint={"controller_factory": lambda controller, context: None}
    )
    async with booted.application:
        await booted.clock.advance("1m")
    ((error, _, _),) = booted.hooks.errors
    assert isinstance(error, InvalidArgumentError)
    assert str(error) == "controller_factory: None is not a controller"
    assert error.fix == "Have it return an instance of NeedsRepository."


async def test_signal_that_is_asked_for_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """K6, Z4: a signal handler may ask at any moment, and gets the one that the run has."""
    seen: list[object] = []
    asked: list[ScheduleContext] = []

    class Slow(AbortSignal):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if asked:
                seen.append(asked.pop().signal)

    class Jobs(Controller):
        @schedule("1m")
        async def job(self) -> None:
            asked.append(self.context)
            seen.append(self.signal)
            seen.append(self.signal)

    monkeypatch.setattr("weftjobs_controllers.requests.AbortSignal", Slow)
    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    assert booted.hooks.errors == []
    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize("put", ["on the class", "on the instance"])
async def test_method_that_is_replaced_by_a_plain_function(put: str) -> None:
    """K6, Z4: what is put in place of an async method, as tests do, runs in a thread."""
    threads: list[int] = []

    def replacement(*arguments: object) -> None:
        threads.append(threading.get_ident())

    class Jobs(Controller):
        def __init__(self) -> None:
            if put == "on the instance":
                vars(self)["job"] = replacement

        @schedule("1m")
        async def job(self) -> None:
            raise AssertionError("it has been replaced")

    booted = Booted(Jobs)
    async with booted.application:
        if put == "on the class":
            Jobs.job = replacement  # type: ignore[assignment,method-assign]
        await booted.clock.advance("1m")
    assert booted.hooks.errors == []
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_number_of_a_skipped_run_stays_what_it_was() -> None:
    """K6: a run that did not start keeps the number that it would have had."""
    kept: list[ScheduleContext] = []

    def skip(context: ScheduleContext) -> bool:
        kept.append(context)
        return len(kept) == 1

    class Jobs(Controller):
        @schedule("1m", skip_if=skip)
        async def job(self) -> None:
            pass

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("4m")
    assert [context.run for context in kept] == [1, 1, 2, 3]


async def test_controller_class_that_makes_something_else() -> None:
    """K6, Z3: what is no controller is an error that says so."""

    class Jobs(Controller):
        def __new__(cls) -> Any:
            return 5

        @schedule("1m")
        async def job(self) -> None:
            pass

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    ((error, _, _),) = booted.hooks.errors
    assert isinstance(error, InvalidArgumentError)


@pytest.mark.parametrize("kind", ["async", "plain", "timeout"])
async def test_failed_run_is_gone_once_it_is_told(kind: str) -> None:
    """S10: its error keeps no frames alive, and so no controller, until garbage is collected."""
    runs: list[weakref.ref[Controller]] = []

    async def fail(self: Controller) -> None:
        runs.append(weakref.ref(self))
        if kind == "timeout":
            await anyio.sleep_forever()
        raise OSError("connection lost")

    def fail_in_a_thread(self: Controller) -> None:
        runs.append(weakref.ref(self))
        raise OSError("connection lost")

    method = schedule("1m", timeout="10s")(fail_in_a_thread if kind == "plain" else fail)
    jobs: type[Controller] = type("Jobs", (Controller,), {"job": method})
    booted = Booted(jobs, hooked=False, adapter={"on_error": lambda *facts: None})
    gc.disable()
    try:
        async with booted.application:
            await booted.clock.advance("10m")
            alive = [run for run in runs if run() is not None]
    finally:
        gc.enable()
    assert len(runs) >= 9
    assert len(alive) <= 1


@pytest.mark.parametrize("threaded", [False, True])
async def test_controller_factory_that_makes_a_subclass(threaded: bool) -> None:
    """K6, Z4: the method of what was made says whether it runs in a thread."""
    threads: list[int] = []

    def plain(self: Controller) -> None:
        threads.append(threading.get_ident())

    async def on_the_loop(self: Controller) -> None:
        threads.append(threading.get_ident())

    declared, made = (on_the_loop, plain) if threaded else (plain, on_the_loop)
    jobs: type[Controller] = type("Jobs", (Controller,), {"job": schedule("1m")(declared)})
    subclass = type("Made", (jobs,), {"job": made})
    factory = {"controller_factory": lambda controller, context: subclass()}
    booted = Booted(jobs, entrypoint=factory)
    async with booted.application:
        await booted.clock.advance("1m")
    assert booted.hooks.errors == []
    assert [thread != threading.get_ident() for thread in threads] == [threaded]


def named(journal: list[str], name: str) -> Any:
    """Return a middleware that notes when it is passed."""

    async def middleware(context: ScheduleContext, call_next: Any) -> None:
        journal.append(f"+{name}")
        try:
            await call_next(context)
        finally:
            journal.append(f"-{name}")

    return middleware


async def test_order_of_middlewares() -> None:
    """K7: entrypoint, adapter, action, then the access control, then the method."""
    journal: list[str] = []

    def rule(context: ScheduleContext) -> bool:
        journal.append("rule")
        return True

    class Jobs(Controller):
        @schedule("1m", middlewares=[named(journal, "action")], rule=rule)
        async def job(self) -> None:
            journal.append("method")

    booted = Booted(
        Jobs,
        entrypoint={"middlewares": [named(journal, "first"), named(journal, "second")]},
        adapter={"middlewares": [named(journal, "adapter")]},
    )
    async with booted.application:
        await booted.clock.advance("1m")
    assert journal == [
        "+first",
        "+second",
        "+adapter",
        "+action",
        "rule",
        "method",
        "-action",
        "-adapter",
        "-second",
        "-first",
    ]


async def test_middleware_may_be_plain_end_a_run_and_repeat_it() -> None:
    """K7, Z4: a plain middleware returns what `call_next` gave, or does not go on at all."""
    runs: list[int] = []

    def only_odd(context: ScheduleContext, call_next: Any) -> object:
        return call_next(context) if context.run % 2 else None

    async def twice(context: ScheduleContext, call_next: Any) -> None:
        await call_next(context)
        await call_next(context)

    class Jobs(Controller):
        @schedule("1m", middlewares=[only_odd, twice])
        async def job(self) -> None:
            runs.append(self.context.run)

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("3m")
        assert booted.adapter.jobs[0]["last"]["status"] == "ok"
    assert runs == [1, 1, 3, 3]
    assert booted.hooks.errors == []


async def test_middleware_may_change_the_context_and_catch_errors() -> None:
    """K7: the controller sees the context that was handed on; an error that is caught is none."""
    seen: list[str] = []

    async def quiet(context: ScheduleContext, call_next: Any) -> None:
        try:
            await call_next(replace(context, schedule="at will"))
        except ValueError as error:
            seen.append(str(error))

    class Jobs(Controller):
        @schedule("1m", middlewares=[quiet])
        async def job(self) -> None:
            raise ValueError(self.context.schedule)

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
        assert booted.adapter.jobs[0]["last"]["status"] == "ok"
    assert seen == ["at will"]
    assert booted.hooks.errors == []


async def test_changed_context_is_of_the_same_run() -> None:
    """K6, K7: it has the scope of the run, its signal, and what was not changed."""
    journal: list[object] = []

    async def renaming(context: ScheduleContext, call_next: Any) -> None:
        changed = replace(context, schedule="at will")
        await call_next(changed)
        journal.append((changed.signal is context.signal, changed.action is context.action))

    class Jobs(Controller):
        @schedule("1m", middlewares=[renaming])
        async def job(self) -> None:
            self.scope.callback(journal.append, "closed")
            journal.append((self.context.run, self.context.scheduled_at.isoformat()))

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    assert booted.hooks.errors == []
    assert journal == [(1, "2026-01-01T00:01:00+00:00"), (True, True), "closed"]


async def test_middleware_that_raises_fails_the_run() -> None:
    """K7, K9: the method is not called, and `on_error` hears of it once."""

    async def broken(context: ScheduleContext, call_next: Any) -> None:
        raise LookupError("no tenant")

    class Jobs(Controller):
        @schedule("1m", middlewares=[broken])
        async def job(self) -> None:
            pytest.fail("it must not run")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    assert [str(error) for error, _, _ in booted.hooks.errors] == ["no tenant"]


variable: ContextVar[str] = ContextVar("variable", default="clean")


async def test_plain_method_runs_in_a_thread_with_the_context_of_its_middlewares() -> None:
    """Z4: it is off the event loop, sees context variables, and may call back into the loop."""
    seen: list[object] = []

    async def tenant(context: ScheduleContext, call_next: Any) -> None:
        variable.set("tenant")
        await call_next(context)

    async def on_the_loop() -> int:
        await anyio.lowlevel.checkpoint()
        return threading.get_ident()

    class Jobs(Controller):
        @schedule("1m", middlewares=[tenant])
        def job(self) -> None:
            seen.append(threading.get_ident())
            seen.append(variable.get())
            seen.append(anyio.from_thread.run(on_the_loop))
            seen.append(anyio.from_thread.run_sync(threading.get_ident))
            anyio.from_thread.check_cancelled()
            seen.append(anyio.run(on_the_loop, backend="asyncio"))

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    assert booted.hooks.errors == []
    me = threading.get_ident()
    assert seen == [seen[0], "tenant", me, me, seen[0]]
    assert seen[0] != me
    assert variable.get() == "clean"


async def test_more_plain_methods_than_threads_wait_for_one() -> None:
    """K9a: 40 run at once; the next waits, and starts when one has ended."""
    gate = threading.Event()
    begun = threading.Semaphore(0)
    runs: list[str] = []

    def job(self: Controller) -> None:
        begun.release()
        if not self.context.action.name.endswith("last"):
            gate.wait()
        runs.append(self.context.action.name)

    def watch() -> None:
        for _ in range(40):
            begun.acquire()
        runs.append("40 have begun")
        gate.set()

    methods = {f"job_{index}": schedule("1m")(copy_of(job)) for index in range(40)}
    jobs: type[Controller] = type("Jobs", (Controller,), {**methods, "last": schedule("1m")(job)})
    booted = Booted(jobs)
    watcher = threading.Thread(target=watch)
    async with booted.application:
        watcher.start()
        await booted.clock.advance("1m")
    watcher.join()
    assert runs[0] == "40 have begun"
    assert len(runs) == 42
    assert booted.hooks.skips == []


def copy_of(function: Any) -> Any:
    """Return a function like another one, to be decorated apart from it."""
    return lambda self: function(self)
