"""Every program in `examples/` runs as a user would run it."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

UNTIL_INTERRUPTED = {"first_job.py": "Still alive", "rows.py": "due at"}
"""The examples that run until Ctrl-C, and what each prints when a job ran."""


def start(example: Path) -> subprocess.Popen[str]:
    # A shell that starts a job in the background makes it ignore Ctrl-C; a program in the
    # foreground does not.
    heed_interrupts = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-u", str(example)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
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


def test_every_long_running_example_is_there() -> None:
    """Z5: the table names no example that is gone."""
    assert {example.name for example in EXAMPLES} >= UNTIL_INTERRUPTED.keys()
