"""Signals and stopping: a program of its own is started, sent signals, and watched as it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio
import sys
import threading

import anyio
import anyio.to_thread

from weftjobs_controllers import (
    Application, Controller, build_entrypoints, schedule, schedule_entrypoint,
)

backend, kind = sys.argv[1:]


def say(*words):
    print(*words, flush=True)


class Jobs(Controller):
    async def ends(self):
        while not self.application.stopping:
            await anyio.sleep(0.01)

    async def endless(self):
        try:
            await anyio.sleep_forever()
        finally:
            say("signal aborted:", self.signal.aborted)

    async def stubborn(self):
        await anyio.to_thread.run_sync(threading.Event().wait)

    async def blocking(self):
        while True:
            pass

    def heeds(self):
        self.signal.wait_blocking()
        say("signal aborted:", self.signal.aborted)

    def thread(self):
        threading.Event().wait()

    async def stops(self):
        self.application.stop()

    async def exits(self):
        sys.exit(3)

    def exits_thread(self):
        sys.exit(3)

    @schedule("10ms")
    async def other(self):
        if self.application.stopping:
            say("started while stopping")


async def job(self):
    say("job began")
    await getattr(Jobs, kind)(self)
    say("job ended")


def plain_job(self):
    say("job began")
    getattr(Jobs, kind)(self)
    say("job ended")


is_plain = kind in ("heeds", "thread", "exits_thread")
Main = type("Main", (Jobs,), {"job": schedule("10ms")(plain_job if is_plain else job)})


class Database:
    async def __aenter__(self):
        say("database entered")

    async def __aexit__(self, *details):
        say("database left")


class Slow:
    async def __aenter__(self):
        if kind == "slow":
            say("job began")
            await anyio.sleep_forever()

    async def __aexit__(self, *details):
        pass


def on_error(error, action, context):
    say("told:", error)


def on_fatal(application, error):
    say("fatal:", repr(error))


application = Application(
    id="app",
    name="App",
    components={
        "db": Database(),
        "slow": Slow(),
        "entrypoint": build_entrypoints(
            controllers=[Main],
            schedule=schedule_entrypoint(on_error=on_error),
            shutdown_timeout="200ms",
        ),
    },
    bootstrap=["db", "slow", "entrypoint"],
    on_done=lambda application: say("done"),
    on_fatal=on_fatal,
)
if __name__ == "__main__":
    application.run(backend)
    say("run returned")
"""

SIGNALS = pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"]
)
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Program(subprocess.Popen[str]):
    """The program, and what it writes."""

    def __init__(self, backend: str, kind: str) -> None:
        self.complaints = TemporaryFile("w+")  # noqa: SIM115
        super().__init__(
            [sys.executable, "-W", "error", "-c", PROGRAM, backend, kind],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
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
def running(backend: str, kind: str) -> Iterator[Program]:
    """Start the program and wait until its job runs."""
    with Program(backend, kind) as program:
        try:
            assert program.line() == "database entered"
            assert program.line() == "job began"
            yield program
        finally:
            program.kill()


@BACKENDS
@SIGNALS
def test_run_that_ends_in_time(backend: str, number: signal.Signals) -> None:
    """K5, K11: no new run starts, the run in progress finishes, the components are left."""
    with running(backend, "ends") as program:
        program.send_signal(number)
        output, complaints = program.end()
    assert output == ["job ended", "database left", "done", "run returned"]
    assert complaints == ""
    assert program.returncode == 0


LOST = "told: Main.job: the run was left behind in its thread, because the application stopped"
ABORTED = "told: Main.job: the run was aborted, because the application stopped"
ENDED = ["database left", "done", "run returned"]

STOPPED = {
    "endless": ["signal aborted: True", ABORTED, *ENDED],
    "heeds": ["signal aborted: True", "job ended", *ENDED],
    "thread": [LOST, *ENDED],
    "stubborn": [LOST, *ENDED],
}


@BACKENDS
@pytest.mark.parametrize("kind", STOPPED)
def test_run_that_does_not_end_by_itself(backend: str, kind: str) -> None:
    """K11: it is aborted after the `shutdown_timeout`, told, and the process ends in time."""
    with running(backend, kind) as program:
        program.send_signal(signal.SIGTERM)
        output, complaints = program.end()
    assert output == STOPPED[kind]
    assert ("does not end, and is left behind" in complaints) == (kind == "stubborn")
    assert program.returncode == 0


@BACKENDS
def test_run_that_blocks_the_event_loop(backend: str) -> None:
    """K11: the process ends all the same, and says why the components were not left."""
    with running(backend, "blocking") as program:
        program.send_signal(signal.SIGTERM)
        output, complaints = program.end()
    assert output == ["run returned"]
    assert "app: its event loop is blocked, and is left behind" in complaints
    assert program.returncode == 0


@BACKENDS
@SIGNALS
@pytest.mark.parametrize("kind", ["endless", "thread", "blocking"])
def test_second_signal_aborts(backend: str, number: signal.Signals, kind: str) -> None:
    """K5: what is in progress is given up at once, and the exit code tells."""
    with running(backend, kind) as program:
        # Two signals that are pending at one time would be delivered as one.
        program.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(timeout=0.05)
        program.send_signal(number)
        output, _ = program.end()
    assert "run returned" not in output
    if kind != "blocking":
        assert "database left" in output
        assert "job ended" not in output
    assert program.returncode == 128 + number


@BACKENDS
@SIGNALS
def test_signal_during_the_start(backend: str, number: signal.Signals) -> None:
    """K5, K11: the start is given up, and what has started is left."""
    with running(backend, "slow") as program:
        program.send_signal(number)
        output, complaints = program.end()
    assert output == ["database left", "done", "run returned"]
    assert complaints == ""
    assert program.returncode == 0


@BACKENDS
def test_stop_from_inside_a_run(backend: str) -> None:
    """K11: the run that stops the application ends, and nothing starts any more."""
    with running(backend, "stops") as program:
        output, complaints = program.end()
    assert output == ["job ended", *ENDED]
    assert complaints == ""
    assert program.returncode == 0


@BACKENDS
@pytest.mark.parametrize("kind", ["exits", "exits_thread"])
def test_sys_exit_in_a_run(backend: str, kind: str) -> None:
    """K9, K11: it is told, the application ends orderly, and the exit code is the job's."""
    with running(backend, kind) as program:
        output, complaints = program.end()
    assert output == [
        "told: Main.job: the run raised SystemExit(3), which ends the application",
        "fatal: SystemExit(3)",
        "database left",
    ]
    assert complaints == ""
    assert program.returncode == 3
