"""The application: components that start in order and are left in reverse."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.controllers.booting import Booted, application_of
from weftjobs import JobsError, UnknownTimeZoneError
from weftjobs_controllers import (
    AlreadyRunningError,
    Application,
    CannotRunHereError,
    ComponentCycleError,
    ComponentNotStartedError,
    Controller,
    InvalidArgumentError,
    NotRunningError,
    UnknownComponentError,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

LOGGER = "weftjobs_controllers"


class Component:
    """Notes when it is entered and left."""

    def __init__(
        self, name: str, journal: list[str], *, gives: Any = None, fails: Exception | None = None
    ) -> None:
        self.name = name
        self.journal = journal
        self.gives = gives
        self.fails = fails

    async def __aenter__(self) -> Any:
        await anyio.lowlevel.checkpoint()
        self.journal.append(f"+{self.name}")
        if self.fails is not None:
            raise self.fails
        return self.gives

    async def __aexit__(self, *details: object) -> None:
        await anyio.lowlevel.checkpoint()
        self.journal.append(f"-{self.name}")


class Jobs(Controller):
    @schedule("1m")
    async def job(self) -> None:
        self.component("journal").append(f"job {self.context.run}")


async def test_components_start_in_order_and_are_left_in_reverse() -> None:
    """K4: the jobs run in between, and have ended before the first component is left."""
    journal: list[str] = []
    parts = {name: Component(name, journal) for name in ("db", "cache")}
    booted = Booted(Jobs, components={**parts, "journal": journal})
    async with booted.application:
        assert journal == ["+db", "+cache"]
        await booted.clock.advance("1m")
    assert journal == ["+db", "+cache", "job 1", "-cache", "-db"]
    await booted.clock.advance("1h")
    assert journal[-1] == "-db"


async def test_run_in_progress_ends_before_components_are_left() -> None:
    """K4, K11: leaving waits for the run that uses them."""
    journal: list[str] = []
    gate = anyio.Event()

    class Waiting(Controller):
        @schedule("1m")
        async def job(self) -> None:
            await gate.wait()
            journal.append("job")

    booted = Booted(Waiting, components={"db": Component("db", journal)})
    async with anyio.create_task_group() as tasks, booted.application:
        await booted.clock.advance("1m")
        tasks.start_soon(open_when_stopping, booted.application, gate)
    assert journal == ["+db", "job", "-db"]


async def open_when_stopping(application: Application, gate: anyio.Event) -> None:
    while not application.stopping:
        await anyio.lowlevel.checkpoint()
    gate.set()


async def test_component_that_fails_to_start() -> None:
    """K4: those that have started are left, and the error comes out as it is."""
    journal: list[str] = []
    error = ValueError("no route to the cache")
    booted = Booted(
        Jobs,
        components={
            "db": Component("db", journal),
            "cache": Component("cache", journal, fails=error),
            "journal": journal,
        },
    )
    with pytest.raises(ValueError, match="no route to the cache") as caught:
        async with booted.application:
            pytest.fail("it must not start")
    assert caught.value is error
    assert journal == ["+db", "+cache", "-db"]
    await booted.clock.advance("5m")
    assert journal == ["+db", "+cache", "-db"]


async def test_error_of_the_block_comes_out_as_it_is() -> None:
    """K5: leaving the block by an error leaves the components as well."""
    journal: list[str] = []
    booted = Booted(Jobs, components={"db": Component("db", journal), "journal": journal})
    with pytest.raises(LookupError):
        async with booted.application:
            raise LookupError
    assert journal == ["+db", "-db"]


async def test_application_can_be_started_again() -> None:
    """K5: once it has stopped, it may be entered anew, but not while it runs."""
    journal: list[str] = []
    booted = Booted(Jobs, components={"journal": journal})
    async with booted.application:
        with pytest.raises(AlreadyRunningError):
            async with booted.application:
                pytest.fail("it must not start")
        await booted.clock.advance("1m")
    async with booted.application:
        await booted.clock.advance("1m")
    assert journal == ["job 1", "job 1"]


async def test_components_by_name() -> None:
    """K4, K6: a component is what entering it gave, or the object itself."""
    journal: list[str] = []
    plain = object()
    application = application_of(
        build_entrypoints(controllers=[]),
        pool=Component("pool", journal, gives="connections"),
        same=Component("same", journal),
        plain=plain,
    )
    with pytest.raises(ComponentNotStartedError):
        application.component("pool")
    assert application.component("plain") is plain
    async with application:
        assert application.component("pool") == "connections"
        assert application.component("same") is application.components["same"]
        with pytest.raises(UnknownComponentError):
            application.component("pols")
    with pytest.raises(ComponentNotStartedError):
        application.component("pool")


async def test_component_outside_bootstrap_does_not_start() -> None:
    """K4: only what `bootstrap` names is entered."""
    journal: list[str] = []
    application = Application(
        id="app", name="App", components={"idle": Component("idle", journal)}
    )
    async with application:
        with pytest.raises(ComponentNotStartedError):
            application.component("idle")
    assert journal == []


@pytest.mark.parametrize(
    ("bootstrap", "adapter", "why"),
    [
        ([], True, "it is not in bootstrap"),
        (["entrypoint"], False, "it has no schedule adapter; pass schedule=schedule_entrypoint()"),
    ],
    ids=["not in bootstrap", "no adapter"],
)
async def test_warning_of_methods_that_never_run(
    bootstrap: list[str], adapter: bool, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K4: the warning names the methods."""
    entrypoint = build_entrypoints(
        controllers=[Jobs], schedule=Booted(Jobs).adapter if adapter else None
    )
    application = Application(
        id="app", name="App", components={"entrypoint": entrypoint}, bootstrap=bootstrap
    )
    async with application:
        pass
    assert caplog.record_tuples == [
        (
            LOGGER,
            logging.WARNING,
            f"app: of the component 'entrypoint' these methods never run, because {why}: Jobs.job",
        )
    ]


async def test_no_warning_without_scheduled_methods(caplog: pytest.LogCaptureFixture) -> None:
    """K4: an entrypoint that has nothing to run is not warned of."""

    class Idle(Controller):
        def helper(self) -> None: ...

    application = application_of(build_entrypoints(controllers=[Idle]))
    async with application:
        pass
    assert caplog.record_tuples == []


async def test_stop_from_another_thread() -> None:
    """K5: nothing starts from the moment on at which it is asked to stop."""
    journal: list[str] = []
    booted = Booted(Jobs, components={"journal": journal})
    async with booted.application:
        await booted.clock.advance("1m")
        await anyio.to_thread.run_sync(booted.application.stop)
        assert booted.application.stopping
        await booted.clock.advance("5m")
    assert journal == ["job 1"]
    assert booted.hooks.skips == []


def test_stop_of_an_application_that_does_not_run() -> None:
    """K5: it has no effect."""
    application = application_of(build_entrypoints(controllers=[]))
    application.stop()
    assert not application.stopping


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_run_until_a_job_stops_it(backend: Any) -> None:
    """K5: `stop()` from inside a run ends `run()`, and the run finishes."""
    journal: list[str] = []

    class Once(Controller):
        @schedule(1)
        async def job(self) -> None:
            self.application.stop()
            await anyio.lowlevel.checkpoint()
            journal.append(f"run {self.context.run}")

    entrypoint = build_entrypoints(controllers=[Once], schedule=schedule_entrypoint())
    application_of(entrypoint, db=Component("db", journal)).run(backend)
    assert journal == ["+db", "run 1", "-db"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_run_raises_what_a_component_raises(backend: Any) -> None:
    """K4: the error of a component that fails to start comes out of `run()` as it is."""
    broken = Component("db", [], fails=OSError("no disk"))
    with pytest.raises(OSError, match="no disk"):
        application_of(build_entrypoints(controllers=[]), db=broken).run(backend)


async def test_run_inside_an_event_loop() -> None:
    """K5: it is refused, and the fix names `async with`."""
    with pytest.raises(CannotRunHereError, match="inside an event loop") as caught:
        application_of(build_entrypoints(controllers=[])).run()
    assert "async with" in caught.value.fix


def test_run_outside_the_main_thread() -> None:
    """K5: signals arrive in the main thread only, so it is refused elsewhere."""
    errors: list[JobsError] = []

    def run() -> None:
        try:
            application_of(build_entrypoints(controllers=[])).run()
        except JobsError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [str(error) for error in errors] == [
        "application: run() is called outside the main thread, where signals do not arrive"
    ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"id": ""}, InvalidArgumentError, "id: '' is empty"),
        ({"name": 5}, InvalidArgumentError, "name: 5 is not text"),
        (
            {"components": [1]},
            InvalidArgumentError,
            "components: [1] is not a mapping of names to components",
        ),
        ({"on_done": 5}, InvalidArgumentError, "on_done: 5 cannot be called"),
        ({"bootstrap": "db"}, InvalidArgumentError, "bootstrap: 'db' is not a list"),
        ({"bootstrap": ["a", "a"]}, InvalidArgumentError, "bootstrap: 'a' is listed twice"),
        (
            {"bootstrap": ["entrypiont"]},
            UnknownComponentError,
            "component: 'entrypiont' is not a component of the application",
        ),
        (
            {"timezone": "Mars/Olympus"},
            UnknownTimeZoneError,
            "timezone: 'Mars/Olympus' is not a known time zone",
        ),
    ],
    ids=["id", "name", "components", "hook", "bootstrap", "twice", "unknown", "timezone"],
)
def test_wrong_arguments(options: dict[str, Any], error: type[JobsError], message: str) -> None:
    """K4, Z3: they are refused when the application is made."""
    arguments: dict[str, Any] = {"id": "app", "name": "App", "components": {"a": object()}}
    with pytest.raises(error) as caught:
        Application(**{**arguments, **options})
    assert str(caught.value) == message
    assert caught.value.fix


@pytest.mark.parametrize("backend", ["curio", None])
def test_unknown_backend(backend: Any) -> None:
    """K5: only asyncio and trio are event loops here."""
    with pytest.raises(InvalidArgumentError) as caught:
        application_of(build_entrypoints(controllers=[])).run(backend)
    assert str(caught.value) == f"backend: {backend!r} is not an event loop"


class Needs:
    """A component that asks for others while it starts."""

    def __init__(self, journal: list[str], name: str, *others: str) -> None:
        self.journal = journal
        self.name = name
        self.others = others
        self.application: Application | None = None

    async def __aenter__(self) -> str:
        for other in self.others:
            assert self.application is not None
            await self.application.get(other)
        self.journal.append(f"+{self.name}")
        return self.name

    async def __aexit__(self, *details: object) -> None:
        self.journal.append(f"-{self.name}")


def application_needing(journal: list[str], **needs: tuple[str, ...]) -> Application:
    """Return an application of components that ask for one another; none is in bootstrap."""
    parts = {name: Needs(journal, name, *others) for name, others in needs.items()}
    application = Application(id="app", name="App", components=parts)
    for part in parts.values():
        part.application = application
    return application


async def test_get_starts_a_component_that_is_not_in_bootstrap() -> None:
    """K4: it starts when it is first asked for, once, and is left in its turn."""
    journal: list[str] = []
    application = application_needing(journal, db=(), cache=("db",))
    with pytest.raises(NotRunningError):
        await application.get("db")
    async with application:
        assert journal == []
        assert await application.get("cache") == "cache"
        assert await application.get("db") == "db"
        assert application.component("db") == "db"
        with pytest.raises(UnknownComponentError):
            await application.get("bd")
    assert journal == ["+db", "+cache", "-cache", "-db"]


async def test_get_from_a_run() -> None:
    """K4, K6: a component that a run starts outlives the run, whatever it keeps open."""
    journal: list[str] = []

    class Pool:
        async def __aenter__(self) -> Any:
            self.tasks = anyio.create_task_group()
            await self.tasks.__aenter__()
            self.tasks.start_soon(anyio.sleep_forever)
            journal.append("+pool")
            return self

        async def __aexit__(self, *details: Any) -> None:
            self.tasks.cancel_scope.cancel()
            await self.tasks.__aexit__(*details)
            journal.append("-pool")

    class Uses(Controller):
        @schedule("1m")
        async def job(self) -> None:
            await self.application.get("pool")
            journal.append(f"run {self.context.run}")

    entrypoint = Booted(Uses).entrypoint
    assert entrypoint.schedule is not None
    clock: Any = entrypoint.schedule._clock
    application = Application(
        id="app",
        name="App",
        components={"pool": Pool(), "entrypoint": entrypoint},
        bootstrap=["entrypoint"],
    )
    async with application:
        await clock.advance("2m")
    assert journal == ["+pool", "run 1", "run 2", "-pool"]


async def test_many_who_ask_at_once_start_a_component_once() -> None:
    """K4: they wait for one start; one of them being cancelled does not end it."""
    journal: list[str] = []
    gate = anyio.Event()

    class Slow:
        async def __aenter__(self) -> str:
            journal.append("+slow")
            await gate.wait()
            return "slow"

        async def __aexit__(self, *details: object) -> None:
            journal.append("-slow")

    application = Application(id="app", name="App", components={"slow": Slow()})
    got: list[str] = []

    async def ask() -> None:
        got.append(await application.get("slow"))

    async with application, anyio.create_task_group() as tasks:
        with anyio.CancelScope() as impatient:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            impatient.cancel()
            await application.get("slow")
        gate.set()
    assert got == ["slow", "slow"]
    assert journal == ["+slow", "-slow"]


async def test_lazy_component_that_fails_may_be_asked_for_again() -> None:
    """K4: its error goes to who asked, and the application runs on."""

    class Moody:
        tries = 0

        async def __aenter__(self) -> str:
            self.tries += 1
            if self.tries == 1:
                raise ConnectionError("refused")
            return "connection"

        async def __aexit__(self, *details: object) -> None: ...

    application = Application(id="app", name="App", components={"moody": Moody()})
    async with application:
        with pytest.raises(ConnectionError):
            await application.get("moody")
        with pytest.raises(ComponentNotStartedError):
            application.component("moody")
        assert await application.get("moody") == "connection"


@pytest.mark.parametrize("asked", ["a", "b", "c"])
async def test_components_that_wait_for_one_another(asked: str) -> None:
    """K4: a circle is an error that shows it, not a hang."""
    application = application_needing([], a=("b",), b=("c",), c=("a",))
    async with application:
        with pytest.raises(ComponentCycleError) as caught:
            await application.get(asked)
    assert len(caught.value.cycle) == 4
    assert caught.value.cycle[0] == caught.value.cycle[-1]


async def test_circle_of_two_who_start_at_once() -> None:
    """K4: it is found whoever asked first."""
    application = application_needing([], a=("b",), b=("a",))
    errors: list[Exception] = []

    async def ask(name: str) -> None:
        try:
            await application.get(name)
        except ComponentCycleError as error:
            errors.append(error)

    async with application, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "a")
        tasks.start_soon(ask, "b")
    assert len(errors) == 2


async def test_component_that_crashes_while_it_runs() -> None:
    """K4: the application ends, `on_fatal` hears of it, and its error comes out."""
    journal: list[str] = []

    class Crashing:
        async def __aenter__(self) -> None:
            self.tasks = anyio.create_task_group()
            await self.tasks.__aenter__()
            self.tasks.start_soon(self.crash)

        async def crash(self) -> None:
            await gate.wait()
            raise OSError("connection lost")

        async def __aexit__(self, *details: Any) -> bool | None:
            return await self.tasks.__aexit__(*details)

    gate = anyio.Event()
    booted = Booted(
        Jobs,
        components={"db": Component("db", journal), "crashing": Crashing(), "journal": journal},
        on_fatal=lambda application, error: journal.append(f"fatal {error!r}"),
        on_done=lambda application: journal.append("done"),
    )
    with pytest.raises(ExceptionGroup) as caught:
        async with booted.application:
            await booted.clock.advance("1m")
            gate.set()
            await anyio.sleep_forever()
    assert caught.group_contains(OSError, match="connection lost")
    assert journal == ["+db", "job 1", f"fatal {caught.value!r}", "-db"]


async def test_application_as_a_component_of_another() -> None:
    """K4: a component is any object; names of one have nothing to do with those of the other."""
    journal: list[str] = []
    inner = Application(
        id="inner", name="Inner", components={"db": Component("db", journal)}, bootstrap=["db"]
    )
    outer = Application(id="outer", name="Outer", components={"db": inner}, bootstrap=["db"])
    async with outer:
        assert journal == ["+db"]
    assert journal == ["+db", "-db"]


async def test_component_that_ends_by_itself() -> None:
    """K4: that is an error too, told to `on_fatal`."""
    fatal: list[BaseException] = []

    @asynccontextmanager
    async def connection() -> AsyncIterator[str]:
        with anyio.CancelScope() as scope:
            gate.append(scope)
            yield "connection"

    gate: list[anyio.CancelScope] = []
    application = Application(
        id="app",
        name="App",
        components={"connection": connection()},
        bootstrap=["connection"],
        on_fatal=lambda application, error: fatal.append(error),
    )
    with pytest.raises(RuntimeError, match="the component 'connection' has ended by itself"):
        async with application:
            gate[0].cancel()
            await anyio.sleep_forever()
    assert len(fatal) == 1


async def test_hook_of_the_end_is_told_once_and_does_not_hang() -> None:
    """K4: also when the block is cancelled while it is told."""
    told: list[str] = []

    async def on_done(application: Application) -> None:
        told.append("done")
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        async with Application(id="app", name="App", components={}, on_done=on_done):
            pass
    assert told == ["done"]


async def test_component_that_fails_to_be_left() -> None:
    """K4: the others are left all the same, and the error comes out, told to `on_fatal`."""
    journal: list[str] = []

    class Broken(Component):
        async def __aexit__(self, *details: object) -> None:
            await super().__aexit__(*details)
            raise OSError(f"{self.name} is broken")

    booted = Booted(
        Jobs,
        components={"db": Component("db", journal), "cache": Broken("cache", journal)},
        on_fatal=lambda application, error: journal.append(f"fatal: {error}"),
    )
    with pytest.raises(OSError, match="cache is broken"):
        async with booted.application:
            pass
    assert journal == ["+db", "+cache", "-cache", "-db", "fatal: cache is broken"]
    several = Application(
        id="app",
        name="App",
        components={"a": Broken("a", []), "b": Broken("b", [])},
        bootstrap=["a", "b"],
    )
    with pytest.raises(ExceptionGroup, match="several components") as caught:
        async with several:
            pass
    assert [str(error) for error in caught.value.exceptions] == ["b is broken", "a is broken"]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_hooks_of_an_orderly_life(kind: str) -> None:
    """K4: `on_launched` before the first job, `on_done` after the last component."""
    journal: list[str] = []

    def plain(what: str) -> Any:
        return lambda application: journal.append(f"{what} {application.id}")

    def later(what: str) -> Any:
        async def hook(application: Application) -> None:
            await anyio.lowlevel.checkpoint()
            journal.append(f"{what} {application.id}")

        return hook

    hook = plain if kind == "plain" else later
    booted = Booted(
        Jobs,
        components={"db": Component("db", journal), "journal": journal},
        on_launched=hook("launched"),
        on_done=hook("done"),
        on_fatal=lambda application, error: journal.append("fatal"),
    )
    async with booted.application:
        await booted.clock.advance("1m")
    assert journal == ["+db", "launched test.app", "job 1", "-db", "done test.app"]


async def test_failed_start_is_fatal() -> None:
    """K4: `on_fatal` hears the error before what has started is left."""
    journal: list[str] = []
    error = ValueError("no route")

    async def on_fatal(application: Application, error: BaseException) -> None:
        await anyio.lowlevel.checkpoint()
        journal.append(f"fatal: {error}, db started: {bool(application.component('db'))}")

    booted = Booted(
        Jobs,
        components={
            "db": Component("db", journal),
            "cache": Component("cache", journal, fails=error),
        },
        on_launched=lambda application: journal.append("launched"),
        on_done=lambda application: journal.append("done"),
        on_fatal=on_fatal,
    )
    with pytest.raises(ValueError, match="no route") as caught:
        async with booted.application:
            pytest.fail("it must not start")
    assert caught.value is error
    assert journal == ["+db", "+cache", "fatal: no route, db started: True", "-db"]


async def test_hooks_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """K4: `on_launched` fails the start; `on_fatal` is logged and hides no error."""

    def broken(application: Application, *facts: object) -> None:
        raise LookupError("no pager")

    booted = Booted(Jobs, on_launched=broken, on_fatal=broken)
    with pytest.raises(LookupError):
        async with booted.application:
            pytest.fail("it must not start")
    assert [record.getMessage() for record in caplog.records] == ["test.app: on_fatal raised"]
    done = Booted(Jobs, on_done=broken)
    with pytest.raises(LookupError):
        async with done.application:
            pass


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_thread(backend: Any) -> None:
    """K5: jobs run beside a synchronous program, and end with the block."""
    journal: list[str] = []
    ran = threading.Event()

    class Once(Controller):
        @schedule(1)
        def job(self) -> None:
            ran.set()

    entrypoint = build_entrypoints(controllers=[Once], schedule=schedule_entrypoint())
    application = application_of(entrypoint, db=Component("db", journal))
    for _ in range(2):
        with application.in_thread(backend) as entered:
            assert entered is application
            assert journal[-1] == "+db"
            with pytest.raises(AlreadyRunningError), application.in_thread(backend):
                pytest.fail("it must not start")
            assert ran.wait(20)
        assert journal[-1] == "-db"
        ran.clear()
    assert journal == ["+db", "-db"] * 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_thread_raises_what_the_application_raises(backend: Any) -> None:
    """K4, K5: a failed start, a crash and an error of the block come out of it."""
    broken = Component("db", [], fails=OSError("no disk"))
    failing = application_of(build_entrypoints(controllers=[]), db=broken)
    with pytest.raises(OSError, match="no disk"), failing.in_thread(backend):
        pytest.fail("it must not start")

    class Exits(Controller):
        @schedule(1)
        def job(self) -> None:
            raise SystemExit(3)

    ended = threading.Event()
    application = Application(
        id="app",
        name="App",
        components={
            "entrypoint": build_entrypoints(controllers=[Exits], schedule=schedule_entrypoint())
        },
        bootstrap=["entrypoint"],
        on_fatal=lambda application, error: ended.set(),
    )
    with pytest.raises(SystemExit), application.in_thread(backend):
        assert ended.wait(20)
    calm = application_of(build_entrypoints(controllers=[]))
    with pytest.raises(LookupError), calm.in_thread(backend):
        raise LookupError


async def test_lifespan() -> None:
    """K5: it runs the application for as long as the web application does."""
    journal: list[str] = []
    application = application_of(build_entrypoints(controllers=[]), db=Component("db", journal))
    async with application.lifespan(object()) as state:
        assert state is None
        assert journal == ["+db"]
    assert journal == ["+db", "-db"]
