"""The application: components that start in order and are left in reverse."""

from __future__ import annotations

import logging
import threading
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
    ComponentNotStartedError,
    Controller,
    InvalidArgumentError,
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
    ids=["id", "name", "components", "bootstrap", "twice", "unknown", "timezone"],
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
