"""Signals: a program of its own is started, sent a signal, and watched as it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys

import anyio

from weftjobs_controllers import (
    Application, Controller, build_entrypoints, schedule, schedule_entrypoint,
)


class Jobs(Controller):
    @schedule(10)
    async def job(self):
        print("job began", flush=True)
        if sys.argv[2] == "endless":
            await anyio.sleep_forever()
        while not self.application.stopping:
            await anyio.sleep(0.01)
        print("job ended", flush=True)


class Database:
    async def __aenter__(self):
        print("database entered", flush=True)

    async def __aexit__(self, *details):
        print("database left", flush=True)


Application(
    id="app",
    name="App",
    components={
        "db": Database(),
        "entrypoint": build_entrypoints(controllers=[Jobs], schedule=schedule_entrypoint()),
    },
    bootstrap=["db", "entrypoint"],
).run(sys.argv[1])
print("run returned", flush=True)
"""


@contextmanager
def running(backend: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Start the program and wait until its job runs."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, backend, kind],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "database entered\n"
            assert program.stdout.readline() == "job began\n"
            yield program
        finally:
            program.kill()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_first_signal_stops_gracefully(backend: str, number: signal.Signals) -> None:
    """K5: no new run starts, the run in progress finishes, the components are left."""
    with running(backend, "ends") as program:
        program.send_signal(number)
        output, complaints = program.communicate(timeout=20)
    assert output.splitlines() == ["job ended", "database left", "run returned"]
    assert complaints == ""
    assert program.returncode == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_second_signal_aborts(backend: str, number: signal.Signals) -> None:
    """K5: a run that does not end is cancelled at once, and the exit code tells."""
    with running(backend, "endless") as program:
        while program.poll() is None:
            # Two signals that are pending at one time would be delivered as one.
            program.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                program.wait(timeout=0.3)
        output, complaints = program.communicate()
    assert output.splitlines() == ["database left"]
    assert complaints == ""
    assert program.returncode == 128 + number
