"""Simulation: it agrees with the scheduler, fire by fire."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from weftjobs import Cron, Croniter, Every, ObservableArray, Row, RunContext, Scheduler, Trigger
from weftjobs.rendering import heat_map, svg
from weftjobs.simulation import Simulated, simulate, starts, taking
from weftjobs.testing import VirtualClock

START = "2026-01-01T00:00:00Z"

JOBS: dict[str, tuple[Trigger, bool, int]] = {
    "hourly": (Every("1h"), False, 0),
    "slow": (Every("6h"), False, 7 * 3_600_000),
    "overlapping": (Every("6h", origin=0), True, 7 * 3_600_000),
    "gap and fold": (Cron("30 2 * * *", "Europe/Berlin"), False, 0),
    "twice": (Cron("30 2 * * *", "Europe/Berlin", repeated="twice"), False, 0),
    "midnight": (Cron("0 0 * * *", "Africa/Cairo"), False, 25 * 3_600_000),
    "office": (Cron("0 9-17/2 * * mon-fri", "America/Toronto"), False, 3 * 3_600_000),
    "last day": (Croniter("0 9 L * *", "Asia/Tokyo"), False, 0),
}


async def test_a_year_agrees_with_the_scheduler() -> None:
    """L3: the same runs and the same skipped slots as on a virtual clock, for a whole year."""
    clock = VirtualClock(START)
    ran: dict[str, list[int]] = {name: [] for name in JOBS}
    skipped: dict[str, list[int]] = {name: [] for name in JOBS}

    async def run(job: Row, context: RunContext) -> None:
        _, overlap, takes = JOBS[job["name"]]
        ran[job["name"]].append(context.due)
        if overlap:
            context.release()
        if takes:
            await clock.sleep(takes)

    since = clock.now()
    jobs = ObservableArray(Row(name=name) for name in JOBS)
    async with Scheduler(
        jobs,
        run,
        skipped=lambda job, due: skipped[job["name"]].append(due),
        plan=lambda row: JOBS[row["name"]][0],
        clock=clock,
    ):
        await clock.advance("365d")
        until = clock.now()
        stopped = [list(ran[name]) for name in JOBS], [list(skipped[name]) for name in JOBS]
        jobs.clear()
        await clock.advance("2d")
    for index, (name, (trigger, overlap, takes)) in enumerate(JOBS.items()):
        slots = list(starts(Simulated(name, trigger, overlap, takes), since, until))
        assert [slot for slot, runs in slots if runs] == stopped[0][index], name
        assert [slot for slot, runs in slots if not runs] == stopped[1][index], name


EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Any:
    """Import a program of the examples."""
    spec = spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["first_job", "fastapi_app", "flask_app"])
async def test_examples_agree_with_the_scheduler(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """L3: what `simulate` says of an example is what its application does, run by run."""
    program = example(name)
    clock = VirtualClock("2026-01-01T01:25:00Z")  # soon it is 02:30 in Berlin
    ran: Counter[tuple[str, str]] = Counter()

    async def count(context: Any, call_next: Any) -> None:
        ran[context.action.name, context.scheduled_at.astimezone(UTC).isoformat()] += 1

    program.entrypoint.schedule._clock = clock
    program.entrypoint.schedule._middlewares = (count,)
    since = clock.now()
    async with program.application:
        await clock.advance("6m")
        until = clock.now()
    expected = {
        (action.name, datetime.fromtimestamp(slot / 1000, UTC).isoformat())
        for action in program.application.plan()
        for slot, runs in starts(Simulated(action.name, action.trigger), since, until)
        if runs
    }
    assert set(ran) == expected
    assert set(ran.values()) == {1}


def test_timeline() -> None:
    """L3: counts by hour of a zone, the busiest minutes, overlaps and skipped slots."""
    jobs = [
        Simulated("a", Cron("0 9 * * *", "Europe/Berlin")),
        Simulated("b", Cron("0 8,20 * * *", "UTC"), takes=13 * 3_600_000),
        Simulated("c", Cron("0 8,20 * * *", "UTC"), overlap=True, takes=13 * 3_600_000),
        Simulated("never", Cron("0 0 1 1 *", "UTC")),
    ]
    timeline = simulate(jobs, START, "2026-01-08T00:00:00Z", timezone="Europe/Berlin")
    first, second, third, never = timeline.jobs
    assert (first.count, first.hours[9], sum(first.hours)) == (7, 7, 7)
    assert (second.count, second.skipped, second.overlapping) == (7, 7, 0)
    assert (third.count, third.skipped, third.overlapping) == (14, 0, 13)
    assert (never.count, never.first, never.last) == (0, None, None)
    assert [count for _, count in timeline.busiest] == [3] * 5
    assert timeline.busiest[0][0].isoformat() == "2026-01-01T09:00:00+01:00"
    assert first.first is not None
    assert first.first.isoformat() == "2026-01-01T09:00:00+01:00"


def test_year_of_a_hundred_actions() -> None:
    """L3: 876,000 runs are played one by one, each counted once."""
    jobs = [Simulated(f"job {number}", Every("1h", origin=number)) for number in range(100)]
    timeline = simulate(jobs, START, "2027-01-01T00:00:00Z")
    assert Counter(job.count for job in timeline.jobs) == {8760: 100}


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_heat_map_fits(width: int) -> None:
    """L5: names are shortened where there is no room, and the hours stay whole."""
    jobs = [Simulated("a rather long name of a job that nobody shortened", Every("1h"))]
    lines = heat_map(simulate(jobs, START, "2026-01-02T00:00:00Z"), width)
    assert all("|" + "█" * 24 + "|" in line for line in lines[1:])
    assert max(map(len, lines)) <= max(width, 45)


def test_picture_escapes_what_it_shows() -> None:
    """L3: a name is text, whatever is in it."""
    jobs = [Simulated("<b>&", Every("1h"))]
    drawn = svg(simulate(jobs, START, "2026-01-02T00:00:00Z"), 'a "title" <x>')
    assert "<b>" not in drawn
    assert "&lt;b&gt;&amp;" in drawn


def test_durations() -> None:
    """L3: durations are read like everywhere."""
    assert taking({"a": "5m", "b": 10}) == {"a": 300_000, "b": 10}
