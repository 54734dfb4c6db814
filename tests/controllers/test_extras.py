"""Extras: what is not installed is named, with what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys

sys.modules["{library}"] = None
from weftjobs_controllers import MissingExtraError
from weftjobs_controllers.mutexes import {mutex}

try:
    {mutex}("{place}")
except MissingExtraError as error:
    print(error, "|", error.fix)
"""


@pytest.mark.parametrize(
    ("mutex", "library", "place", "extra"),
    [
        ("RedisMutex", "redis", "redis://localhost", "redis"),
        ("PostgresMutex", "psycopg", "dbname=jobs", "postgres"),
    ],
)
def test_missing_extra(mutex: str, library: str, place: str, extra: str) -> None:
    """X7: a mutex is imported without its library, and says which extra it needs."""
    program = PROGRAM.format(mutex=mutex, library=library, place=place)
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert result.stderr == ""
    assert result.stdout == (
        f"{library}: it is not installed | Install the extra: pip install 'weftjobs[{extra}]'.\n"
    )
