"""Every program in `examples/` runs as a user would run it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

UNTIL_INTERRUPTED = {"first_job.py": "Still alive", "rows.py": "due at"}
"""The examples that run until Ctrl-C, and what each prints when a job ran."""

SERVERS = {
    "fastapi_app.py": ("SessionController", "sessions in the database"),
    "flask_app.py": ("VisitController", "1 visits so far"),
}
"""The examples that serve until Ctrl-C: their controller, and what a job prints."""

OF_A_SERVER = re.compile(
    r"(\033\[\d+m)*"  # a colour
    r"(INFO: |WARNING: This is a development server| \* Running on |Press CTRL|127\.0\.0\.1 - )"
)
"""How the lines begin that uvicorn and Werkzeug log."""


def start(example: Path) -> subprocess.Popen[str]:
    # A shell that starts a job in the background makes it ignore Ctrl-C; a program in the
    # foreground does not.
    heed_interrupts = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-u", str(example)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PORT": "0"},  # 0: any that is free
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


def named(names: set[str]) -> list[object]:
    return [pytest.param(each, id=each.name) for each in EXAMPLES if each.name in names]


@pytest.mark.parametrize("example", named({each.name for each in EXAMPLES} - SERVERS.keys()))
def test_example_runs(example: Path) -> None:
    """Z5: the example does what it shows, ends well, and complains about nothing."""
    awaited = UNTIL_INTERRUPTED.get(example.name, "")
    with start(example) as program:
        try:
            assert program.stdout is not None
            ran = any(awaited in line for line in program.stdout)
            if awaited:
                program.send_signal(signal.SIGINT)
            _, complaints = program.communicate(timeout=10)
        finally:
            program.kill()
    assert complaints == ""
    assert program.returncode == 0
    assert ran


@pytest.mark.parametrize("example", named(set(SERVERS)))
def test_example_serves(example: Path) -> None:
    """K5, Z5: it answers requests while its jobs run, and Ctrl-C ends the server, then them."""
    controller, awaited = SERVERS[example.name]
    with start(example) as program:
        try:
            assert program.stdout is not None
            assert program.stderr is not None
            log = lines_until("http://", program.stderr)
            answer = jobs_at(port_in(log))
            printed = lines_until(awaited, program.stdout)
            program.send_signal(signal.SIGINT)
            printed += program.stdout
            log += program.stderr
            program.wait()
        finally:
            program.kill()
    assert "02:30:00+0" in answer[f"{controller}.purge"]
    assert printed[-1] == "The database is closed.\n"
    assert [line for line in log if not OF_A_SERVER.match(line)] == []
    # uvicorn raises the signal once more when it has shut down, but asyncio makes a
    # KeyboardInterrupt of it, which `uvicorn.run` catches. So does the loop of Werkzeug.
    assert program.returncode == 0


def lines_until(awaited: str, output: IO[str]) -> list[str]:
    """Return the next lines, up to one that has some text."""
    lines: list[str] = []
    for line in output:
        lines.append(line)
        if awaited in line:
            return lines
    raise AssertionError(f"{awaited!r} did not come, but {lines}")


def port_in(log: list[str]) -> int:
    """Return the port that a server says that it serves on."""
    found = re.search(r"http://127\.0\.0\.1:(\d+)", log[-1])
    assert found is not None
    return int(found[1])


def jobs_at(port: int) -> dict[str, str]:
    """Return what an example answers: its jobs, and when each runs next."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/jobs")
        jobs: dict[str, str] = json.load(connection.getresponse())
    return jobs


def test_every_long_running_example_is_there() -> None:
    """Z5: the tables name no example that is gone."""
    assert {example.name for example in EXAMPLES} >= UNTIL_INTERRUPTED.keys() | SERVERS.keys()
