"""The pytest plugin: a virtual clock for the tests of an application."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = """
import pytest
from weftjobs import ObservableArray, Row, Scheduler
from weftjobs.testing import VirtualClock

pytestmark = pytest.mark.anyio
ran = []

async def run(job, context):
    ran.append(context.due)

async def test_week(virtual_clock):
    async with Scheduler(ObservableArray([Row(every="1h")]), run, clock=virtual_clock):
        await virtual_clock.advance("7d")
    assert len(ran) % 168 == 0
    assert ran[0] == 1_767_225_600_000 + 3_600_000

def test_each_test_has_a_clock_of_its_own(virtual_clock):
    assert type(virtual_clock) is VirtualClock
    assert virtual_clock.now() == 1_767_225_600_000
    virtual_clock.jump("1d")

def test_its_time_stands_where_every_test_begins(virtual_clock):
    assert virtual_clock.now() == 1_767_225_600_000
"""


def run_pytest(directory: Path, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "-p", "weftjobs.pytest_plugin"],
        cwd=directory,
        # Where weftjobs is installed, its entry point would load the plugin a second time.
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr


def test_fixture_gives_a_virtual_clock(tmp_path: Path) -> None:
    """T3: tests take `virtual_clock`, one of their own each, async tests on both loops."""
    (tmp_path / "test_application.py").write_text(TESTS)
    output = run_pytest(tmp_path, "-p", "anyio", "-W", "error", "-q")
    assert "4 passed" in output, output


def test_fixture_is_listed(tmp_path: Path) -> None:
    """T3: `pytest --fixtures` shows it with a docstring."""
    output = run_pytest(tmp_path, "--fixtures")
    _, _, listed = output.partition("virtual_clock")
    assert "2026-01-01T00:00:00Z" in listed.partition("\n\n")[0], output


def test_entry_point_names_the_plugin() -> None:
    """T3: installing the package is enough for pytest to find it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (name,) = project["entry-points"]["pytest11"].values()
    assert callable(import_module(name).virtual_clock)
