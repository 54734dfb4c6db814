"""With a web application: in its lifespan, beside it, and under a server of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import anyio
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from flask import Flask
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from weftjobs_controllers import (
    AlreadyRunningError,
    Application,
    Controller,
    Entrypoint,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

ROOT = Path(__file__).parents[1]

Serve = Callable[..., AbstractContextManager[Any]]
"""Starts a web application, as often as it is called with a `backend`; gives a client."""


def starlette(application: Application) -> Serve:
    async def job(request: Request) -> PlainTextResponse:
        return PlainTextResponse(state_of(application))

    app = Starlette(routes=[Route("/job", job)], lifespan=application.lifespan)
    return partial(TestClient, app)


def fastapi(application: Application) -> Serve:
    return serving(FastAPI(lifespan=application.lifespan), application)


def fastapi_with_own_lifespan(application: Application) -> Serve:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with application:
            yield

    return serving(FastAPI(lifespan=lifespan), application)


def serving(app: FastAPI, application: Application) -> Serve:
    @app.get("/job", response_class=PlainTextResponse)
    async def job() -> str:
        return state_of(application)

    return partial(TestClient, app)


def flask(application: Application) -> Serve:
    app = Flask("test")

    @app.get("/job")
    def job() -> str:
        return state_of(application)

    @contextmanager
    def serve(backend: Any) -> Iterator[Any]:
        with application.in_thread(backend):
            yield app.test_client()

    return serve


def state_of(application: Application) -> str:
    """Return what a route answers, which asks for the database and for the jobs."""
    entrypoint: Entrypoint = application.components["entrypoint"]  # type: ignore[assignment]
    (action,) = entrypoint.actions
    return f"{application.component('db')}: {action.schedule}, {action.next_time is not None}"


WEB = pytest.mark.parametrize("web", [starlette, fastapi, fastapi_with_own_lifespan, flask])
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Database:
    """Notes when it is entered and left."""

    def __init__(self, journal: list[str], fails: Exception | None = None) -> None:
        self._journal = journal
        self._fails = fails

    async def __aenter__(self) -> str:
        await anyio.lowlevel.checkpoint()
        self._journal.append("database entered")
        if self._fails is not None:
            raise self._fails
        return "connections"

    async def __aexit__(self, *details: object) -> None:
        await anyio.lowlevel.checkpoint()
        self._journal.append("database left")


class Site:
    """An application of one controller and a database, and what they noted."""

    def __init__(self, controller: type[Controller], *, fails: Exception | None = None) -> None:
        self.journal: list[str] = []
        self.ran = threading.Event()
        self.entrypoint = build_entrypoints(
            controllers=[controller], schedule=schedule_entrypoint(on_error=self.on_error)
        )
        self.application = Application(
            id="web",
            name="Web",
            components={
                "site": self,
                "db": Database(self.journal, fails),
                "entrypoint": self.entrypoint,
            },
            bootstrap=["db", "entrypoint"],
            on_done=lambda application: self.journal.append("done"),
        )

    def on_error(self, error: Exception, action: object, context: object) -> None:
        self.journal.append(f"told {error!r}")

    def note(self, line: str) -> None:
        self.journal.append(line)
        self.ran.set()


class Quick(Controller):
    @schedule(every=2)
    async def job(self) -> None:
        self.component("site").note(f"run with {self.component('db')}")


class Patient(Controller):
    """Its run begins, and ends once the application stops."""

    @schedule(every=2)
    async def job(self) -> None:
        site: Site = self.component("site")
        site.note("begun")
        while not self.application.stopping:
            await anyio.lowlevel.checkpoint()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        site.note(f"ended, aborted: {self.signal.aborted}")


class PatientThread(Controller):
    """The same in a worker thread."""

    @schedule(every=2)
    def job(self) -> None:
        site: Site = self.component("site")
        site.note("begun")
        while not self.application.stopping:
            self.signal.wait_blocking(1)
        site.note(f"ended, aborted: {self.signal.aborted}")


@WEB
@BACKENDS
def test_jobs_run_for_as_long_as_the_web_application(web: Any, backend: str) -> None:
    """K4, K5: they start with it and end with it; routes and jobs share its components."""
    site = Site(Quick)
    with web(site.application)(backend=backend) as client:
        assert site.journal[0] == "database entered"
        assert site.ran.wait(10)
        assert client.get("/job").text == "connections: every 2ms, True"
    entered, *runs, left, done = site.journal
    assert (entered, left, done) == ("database entered", "database left", "done")
    assert set(runs) == {"run with connections"}
    assert [action.next_time for action in site.entrypoint.actions] == [None]


@WEB
@BACKENDS
@pytest.mark.parametrize("controller", [Patient, PatientThread])
def test_run_in_progress_finishes(web: Any, backend: str, controller: type[Controller]) -> None:
    """K5, K11: the web application ends once the run has, and the components after it."""
    site = Site(controller)
    with web(site.application)(backend=backend):
        assert site.ran.wait(10)
    assert site.journal == [
        "database entered",
        "begun",
        "ended, aborted: False",
        "database left",
        "done",
    ]


@WEB
@BACKENDS
def test_web_application_is_started_twice(web: Any, backend: str) -> None:
    """K5: one after the other, the jobs and the components start anew; not at one time."""
    site = Site(Quick)
    serve = web(site.application)
    for _ in range(2):
        site.ran.clear()
        with serve(backend=backend) as client:
            assert site.ran.wait(10)
            assert client.get("/job").text == "connections: every 2ms, True"
            with pytest.raises(AlreadyRunningError), serve(backend=backend):
                pytest.fail("it must not start")
            site.ran.clear()
            assert site.ran.wait(10)
    noted = [line for line in site.journal if line != "run with connections"]
    assert noted == ["database entered", "database left", "done"] * 2


@WEB
@BACKENDS
def test_component_that_fails_to_start(web: Any, backend: str) -> None:
    """K4, K5: the web application does not start, and the error comes out as it is."""
    error = OSError("no route to the database")
    site = Site(Quick, fails=error)
    with (
        pytest.raises(OSError, match="no route to the database") as caught,
        web(site.application)(backend=backend),
    ):
        pytest.fail("it must not start")
    assert caught.value is error
    assert site.journal == ["database entered"]


PROGRAM = """
import sys
import threading

import anyio
import uvicorn
from starlette.applications import Starlette

from weftjobs_controllers import (
    Application, Controller, build_entrypoints, schedule, schedule_entrypoint,
)

(kind,) = sys.argv[1:]


def say(*words):
    print(*words, flush=True)


class Ends(Controller):
    @schedule("10ms", name="Job.job")
    async def job(self):
        say("job began")
        while not self.application.stopping:
            await anyio.sleep(0.01)
        await anyio.sleep(0.05)
        say("job ended")


class Endless(Controller):
    @schedule("10ms", name="Job.job")
    async def job(self):
        say("job began")
        await anyio.sleep_forever()


class Stays(Controller):
    @schedule("10ms", name="Job.job")
    def job(self):
        say("job began")
        threading.Event().wait()


class Others(Controller):
    @schedule("10ms")
    async def job(self):
        if self.application.stopping:
            say("started while stopping")


JOBS = {"ends": [Ends, Others], "endless": [Endless, Others], "stays": [Stays, Others]}


class Database:
    async def __aenter__(self):
        say("database entered")
        if kind == "broken":
            raise OSError("no route to the database")

    async def __aexit__(self, *details):
        say("database left")


def on_error(error, action, context):
    say("told:", error)


application = Application(
    id="web",
    name="Web",
    components={
        "db": Database(),
        "entrypoint": build_entrypoints(
            controllers=JOBS.get(kind, []),
            schedule=schedule_entrypoint(on_error=on_error),
            shutdown_timeout=300,
        ),
    },
    bootstrap=["db", "entrypoint"],
    on_done=lambda application: say("done"),
)
uvicorn.run(Starlette(lifespan=application.lifespan), port=0, log_level="warning")
"""


class Server(subprocess.Popen[str]):
    """The program under uvicorn, and what it writes."""

    def __init__(self, kind: str) -> None:
        self.complaints = TemporaryFile("w+")  # noqa: SIM115
        super().__init__(
            [sys.executable, "-W", "error", "-c", PROGRAM, kind],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            # What is started in the background would ignore SIGINT.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        )

    def line(self) -> str:
        """Return the next line that it writes."""
        assert self.stdout is not None
        return self.stdout.readline().rstrip()

    def end(self) -> tuple[list[str], str]:
        """Wait until it has ended; return the rest of its output, and its complaints."""
        assert self.stdout is not None
        output = self.stdout.read().splitlines()
        self.wait()
        with self.complaints:
            self.complaints.seek(0)
            return output, self.complaints.read()


@contextmanager
def running(kind: str) -> Iterator[Server]:
    """Start the program and wait until its job runs."""
    with Server(kind) as server:
        try:
            assert server.line() == "database entered"
            assert server.line() == "job began"
            yield server
        finally:
            server.kill()


LEFT = ["database left", "done"]

ENDINGS = {
    "ends": ["job ended", *LEFT],
    "endless": ["told: Job.job: the run was aborted, because the application stopped", *LEFT],
    "stays": [
        "told: Job.job: the run was left behind in its thread, because the application stopped",
        *LEFT,
    ],
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("kind", ENDINGS)
def test_uvicorn_is_told_to_end(kind: str, number: signal.Signals) -> None:
    """K5, K11: a run in progress may finish, the components are left, the process ends."""
    with running(kind) as server:
        server.send_signal(number)
        output, complaints = server.end()
    assert output == ENDINGS[kind]
    assert complaints == ""
    # When it has shut down uvicorn raises the signal once more, with the handler of before:
    # SIGTERM then kills it, SIGINT becomes a KeyboardInterrupt, which `uvicorn.run` catches.
    assert server.returncode == (-number if number == signal.SIGTERM else 0)


def test_uvicorn_does_not_start() -> None:
    """K4, K5: a component that fails to start keeps the server from starting, and is logged."""
    with Server("broken") as server:
        output, complaints = server.end()
    assert output == ["database entered"]
    assert "OSError: no route to the database\n" in complaints
    assert complaints.endswith("Application startup failed. Exiting.\n")
    assert server.returncode == 3
