"""The command line, each command as a process: its exit code, its output, its errors."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from weftjobs import Row, Scheduler
from weftjobs.stores import open_store
from weftjobs.testing import VirtualClock

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def run(
    *arguments: str, folder: Path = HERE, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "weftjobs", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "TZ": "UTC", **environment},
    )


def answer(*arguments: str, code: int = 0, **options: Any) -> str:
    result = run(*arguments, **options)
    assert result.stderr == ""
    assert result.returncode == code
    return result.stdout


NEXT_BERLIN = """\
Sat 2027-03-27 02:30:00 +0100   2027-03-27T01:30:00Z
  -- 2027-03-28: the clocks change from UTC+01:00 to UTC+02:00
     does not run at 02:30: the clocks skip it
Mon 2027-03-29 02:30:00 +0200   2027-03-29T00:30:00Z
Tue 2027-03-30 02:30:00 +0200   2027-03-30T00:30:00Z
"""

NEXT_AUTUMN = """\
Sat 2027-10-30 02:30:00 +0200   2027-10-30T00:30:00Z
Sun 2027-10-31 02:30:00 +0200   2027-10-31T00:30:00Z
  -- 2027-10-31: the clocks change from UTC+02:00 to UTC+01:00
     02:30 comes twice: once in a controller, twice in a row
Mon 2027-11-01 02:30:00 +0100   2027-11-01T01:30:00Z
"""


@pytest.mark.parametrize(
    ("after", "expected"),
    [("2027-03-27T00:00:00Z", NEXT_BERLIN), ("2027-10-30T00:00:00Z", NEXT_AUTUMN)],
    ids=["spring", "autumn"],
)
def test_next(after: str, expected: str) -> None:
    """L1: the next times in the zone and in UTC, changes of the clocks said in words."""
    given = ("next", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "3", "--after", after)
    assert answer(*given) == expected


CHANGE = {
    "type": "object",
    "required": ["at", "before", "after", "skipped", "doubled"],
    "additionalProperties": False,
    "properties": {
        "at": {"type": "string"},
        "before": {"type": "string", "pattern": r"^[+-]\d\d:\d\d$"},
        "after": {"type": "string", "pattern": r"^[+-]\d\d:\d\d$"},
        "skipped": {"type": "array", "items": {"type": "string"}},
        "doubled": {"type": "array", "items": {"type": "string"}},
    },
}

SCHEMAS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "next": (
        ["next", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "200"],
        {
            "required": ["expression", "timezone", "times", "changes"],
            "properties": {
                "times": {
                    "type": "array",
                    "minItems": 200,
                    "items": {
                        "required": ["at", "utc"],
                        "properties": {"utc": {"type": "string", "pattern": "Z$"}},
                    },
                },
                "changes": {"type": "array", "minItems": 1, "items": CHANGE},
            },
        },
    ),
    "explain": (
        ["explain", "*/7 2 * * *", "--tz", "Europe/Berlin"],
        {
            "required": ["expression", "timezone", "words", "notes", "changes", "next"],
            "properties": {
                "notes": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "changes": {"type": "array", "minItems": 4, "items": CHANGE},
                "next": {"type": "array", "minItems": 3, "maxItems": 3},
            },
        },
    ),
    "check": (
        ["check", "jobs:application"],
        {
            "required": ["error", "actions", "warnings"],
            "properties": {
                "error": {"type": "null"},
                "actions": {
                    "type": "array",
                    "minItems": 4,
                    "items": {"required": ["name", "schedule", "next"]},
                },
                "warnings": {"type": "array", "minItems": 2, "items": {"type": "string"}},
            },
        },
    ),
    "simulate": (
        ["simulate", "jobs:application", "--from", "2026-01-01T00:00:00Z"],
        {
            "required": ["since", "until", "actions", "busiest"],
            "properties": {
                "actions": {
                    "type": "array",
                    "minItems": 3,
                    "items": {
                        "required": ["name", "runs", "skipped", "overlapping", "hours"],
                        "properties": {"hours": {"type": "array", "minItems": 24, "maxItems": 24}},
                    },
                },
            },
        },
    ),
}


@pytest.mark.parametrize(("arguments", "schema"), SCHEMAS.values(), ids=SCHEMAS)
def test_json(arguments: list[str], schema: dict[str, Any]) -> None:
    """L5: `--json` gives what a program may rely on."""
    jsonschema.validate(json.loads(answer(*arguments, "--json")), {"type": "object", **schema})


def test_explain_names_the_dates_that_the_clocks_touch() -> None:
    """L1: the next date on which it does not run, and the next on which the time comes twice."""
    told = answer("explain", "30 2 * * *", "--tz", "Europe/Berlin").splitlines()
    assert told[0] == "At 02:30, in Europe/Berlin."
    (skipped,) = [line for line in told if "does not run at 02:30" in line]
    (doubled,) = [line for line in told if "02:30 comes twice" in line]
    for line, month, weekday in ((skipped, 3, 6), (doubled, 10, 6)):
        day = datetime.fromisoformat(line.split()[1])
        assert (day.month, day.weekday()) == (month, weekday)
        assert day.day >= 25


EXPLAINED: dict[str, tuple[str, str, str]] = {
    "uneven": ("*/7 * * * *", "UTC", "after 56 comes 0, 4 minutes later, not 7"),
    "uneven hours": ("0 */5 * * *", "UTC", "after 20 comes 0, 4 hours later, not 5"),
    "either day": ("0 0 13 * fri", "UTC", "a day that matches either one matches"),
    "short months": ("0 0 31 * *", "UTC", "does not come in every month"),
    "midnight": ("0 0 * * *", "Africa/Cairo", "it does not run at 00:00"),
    "beat": ("*/30 * * * *", "Europe/Berlin", "No change of the clocks"),
    "seconds": ("*/10 * * * * *", "UTC", "Every 10 seconds"),
    "macro": ("@daily", "UTC", "At 00:00"),
}


@pytest.mark.parametrize(("expression", "zone", "told"), EXPLAINED.values(), ids=EXPLAINED)
def test_explain(expression: str, zone: str, told: str) -> None:
    """L1: what no other tool says."""
    assert told in answer("explain", expression, "--tz", zone)


WRONG: dict[str, tuple[list[str], str]] = {
    "doubtful": (["next", "*/90 * * * *"], "Use every='90m' instead of cron."),
    "expression": (["explain", "soon"], "cron: 'soon'"),
    "zone": (["next", "@daily", "--tz", "Mars/Olympus"], "Use an IANA name"),
    "time": (["next", "@daily", "--after", "tomorrow"], "time: 'tomorrow'"),
    "no expression": (["next"], "Missing"),
    "no command": (["frobnicate"], "No such command 'frobnicate'"),
    "option": (["next", "@daily", "--often"], "No such option"),
    "count": (["next", "@daily", "-n", "0"], "-n"),
    "place": (["run", "jobs"], "Write it as jobs:application."),
    "module": (["run", "nowhere:application"], "No module named 'nowhere'"),
    "no application": (["simulate", "jobs:Jobs"], "is not an Application"),
    "backwards": (
        ["simulate", "jobs:application", "--until", "2020-01-01T00:00:00Z"],
        "Swap the two",
    ),
    "takes": (["simulate", "jobs:application", "--takes", "5m"], "Write --takes Jobs.sync=5m"),
    "takes of nobody": (["simulate", "jobs:application", "--takes", "x=5m"], "Name one of"),
    "duration": (["simulate", "jobs:application", "--takes", "Jobs.sync=soon"], "'soon'"),
    "file": (["rows", "nowhere.db"], "there is no such file"),
    "not a store": (["history", "jobs.py", "jobs"], "file is not a database"),
}


@pytest.mark.parametrize(("arguments", "told"), WRONG.values(), ids=WRONG)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    """L5: one line with the fix, exit code 2, no traceback."""
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("weftjobs: ")
    assert told in line


COMMANDS = ["next", "explain", "check", "run", "simulate", "rows", "history"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    """L5: every command says how it is used."""
    assert f"Example: weftjobs {command} " in answer(command, "--help")


def test_check() -> None:
    """L2: the actions with their next times, and warnings of what will not run."""
    told = answer("check", "jobs:application", COLUMNS="200")
    lines = told.splitlines()
    assert lines[0].split() == ["action", "schedule", "next"]
    assert [line.split()[0] for line in lines[1:5]] == [
        "Jobs.sync",
        "Jobs.nightly",
        "Jobs.report",
        "Idle.never",
    ]
    assert lines[4].split()[-1] == "never"
    warnings = [line for line in lines if line.startswith("Warning: ")]
    assert len(warnings) == 2
    assert "Jobs.nightly does not run on " in warnings[0]
    assert warnings[1] == "Warning: Idle.never never runs, because it is not in bootstrap"


def test_check_compares_the_data_of_time_zones(tmp_path: Path) -> None:
    """L2: a zone in use on which this machine and the package disagree is named."""
    found = importlib.util.find_spec("tzdata")
    assert found is not None
    assert found.origin is not None
    zones = Path(found.origin).parent / "zoneinfo"
    (tmp_path / "Europe").mkdir()
    shutil.copy(zones / "Asia" / "Tokyo", tmp_path / "Europe" / "Berlin")
    told = answer("check", "jobs:application", PYTHONTZPATH=str(tmp_path), COLUMNS="200")
    disagreeing = [line for line in told.splitlines() if "disagree on Europe/Berlin at" in line]
    assert len(disagreeing) == 2
    told = answer("check", "jobs:application", PYTHONTZPATH="")
    assert "disagree" not in told


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_check_of_what_is_wrong(extra: list[str]) -> None:
    """L2: exit code 1, for CI."""
    result = run("check", "jobs:twice", *extra)
    assert result.returncode == 1
    assert "list a controller once" in result.stdout + result.stderr
    result = run("check", "nowhere:application", *extra)
    assert result.returncode == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_run(backend: str) -> None:
    """L2: the application runs until it is told to end."""
    program = subprocess.Popen(
        [sys.executable, "-m", "weftjobs", "run", "running:application", "--backend", backend],
        cwd=HERE,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == f"running on {backend}\n"
            program.send_signal(signal.SIGTERM)
            assert program.wait(timeout=20) == 0
        finally:
            program.kill()


def test_simulate_prints_a_heat_map() -> None:
    """L3: hours by actions, the busiest minutes, and what would come while it runs."""
    told = answer(
        *("simulate", "jobs:application", "--from", "2026-01-01T00:00:00Z"),
        *("--takes", "Jobs.sync=7h", "--takes", "Jobs.report=2h"),
    )
    lines = told.splitlines()
    assert lines[0].split() == ["0", "6", "12", "18", "runs"]
    assert lines[1].startswith("Jobs.sync")
    assert [line.split()[-1] for line in lines[1:4]] == ["14", "7", "45"]
    assert "Jobs.sync: 14 slots come while it runs" in lines
    assert "Jobs.report: 40 runs overlap" in lines


def test_simulate_draws_a_picture(tmp_path: Path) -> None:
    """L3: an SVG with a title, labels and text that can be selected, for light and dark."""
    picture = tmp_path / "what.svg"
    answer("simulate", "jobs:application", "--svg", str(picture), "--tz", "Europe/Berlin")
    drawn = picture.read_text()
    assert drawn.startswith("<svg ")
    for part in (
        "What jobs:application runs",
        "Jobs.nightly",
        "prefers-color-scheme: dark",
        ">23<",
    ):
        assert part in drawn


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Give a file with an array that has been worked with."""

    async def work() -> None:
        clock = VirtualClock("2026-01-01T00:00:00Z")

        async def run(job: Row, context: object) -> None:
            if job["name"] == "mail":
                raise ConnectionError("the server is away")

        async with open_store(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as store:
            jobs = await store.open("jobs")
            jobs.extend([Row(name="tidy", every="1h"), Row(name="mail", every="2h")])
            async with Scheduler(jobs, run, failed=lambda *told: None, clock=clock):
                await clock.advance("2h")
            jobs[0]["every"] = "3h"

    anyio.run(work)
    return tmp_path / "jobs.db"


ROWS = """\
   0  name='tidy', every='3h'  [ok 2026-01-01 02:00:00Z]
   1  name='mail', every='2h'  [failed 2026-01-01 02:00:00Z]
"""

HISTORY = """\
2026-01-01 02:00:00Z  row 2  failed in 0ms  the server is away
2026-01-01 02:00:00Z  row 1  ok in 0ms
2026-01-01 02:00:00Z  row 1  edited  every: '1h' to '3h'
2026-01-01 01:00:00Z  row 1  ok in 0ms
2026-01-01 00:00:00Z  row 2  inserted  every: None to '2h'
2026-01-01 00:00:00Z  row 1  inserted  every: None to '1h'
"""


def test_rows_and_history(stored: Path) -> None:
    """L4: what is stored, and what became of it."""
    assert answer("rows", str(stored)) == "jobs\n"
    assert answer("rows", str(stored), "jobs") == ROWS
    told = answer("history", str(stored), "jobs")
    assert sorted(told.splitlines()) == sorted(HISTORY.splitlines())
    only = answer("history", str(stored), "jobs", "2", "-n", "1")
    assert only.splitlines() == ["2026-01-01 02:00:00Z  row 2  failed in 0ms  the server is away"]
    rows = json.loads(answer("rows", str(stored), "jobs", "--json"))
    assert [row["name"] for row in rows["rows"]] == ["tidy", "mail"]
    entries = json.loads(answer("history", str(stored), "jobs", "--json"))["entries"]
    assert {entry["kind"] for entry in entries} == {"run", "edited", "inserted"}
    assert json.loads(answer("rows", str(stored), "--json")) == {"arrays": ["jobs"]}


async def test_rows_while_a_scheduler_works(stored: Path) -> None:
    """L4: reading needs no lock."""
    async with open_store(f"sqlite:///{stored}") as store:
        await store.open("jobs")
        assert answer("rows", str(stored), "jobs") == ROWS


def test_array_that_is_not_there(stored: Path) -> None:
    """L5: the error names it."""
    result = run("rows", str(stored), "jbos")
    assert result.returncode == 2
    assert "it has no array 'jbos'" in result.stderr


def test_no_colours_in_a_pipe() -> None:
    """L5: nor with NO_COLOR; narrow terminals lose no text."""
    environments: list[dict[str, Any]] = [{}, {"NO_COLOR": "1"}, {"COLUMNS": "30"}]
    for environment in environments:
        told = answer("check", "jobs:application", **environment)
        assert "\x1b" not in told
        assert "Jobs.nightly does not run on" in told


def test_without_the_extra() -> None:
    """L5: what is missing is named, with what to install."""
    program = "import sys; sys.modules['typer'] = None; from weftjobs.__main__ import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 1
    assert result.stderr == "weftjobs: typer is not installed: pip install 'weftjobs[cli]'\n"


def test_now_is_the_default() -> None:
    """L1: without `--after` the times are those to come."""
    first = json.loads(answer("next", "* * * * * *", "-n", "1", "--json"))["times"][0]["at"]
    age = datetime.now(UTC) - datetime.fromisoformat(first)  # noqa: TID251
    assert abs(age.total_seconds()) < 60
