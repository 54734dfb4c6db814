"""Jobs whose rows outlive the process: edits kept, code that wins, what was missed meanwhile."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.booting import Hooks
from weftjobs import Croniter, ObservableArray, Row
from weftjobs.stores import Edit, open_store
from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    Application,
    Controller,
    InvalidArgumentError,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

START = "2026-01-01T00:00:00Z"


class Life:
    """An application over stored rows, from one start of its process to the end of it."""

    def __init__(self, jobs: ObservableArray, clock: VirtualClock, **schedules: Any) -> None:
        self.ran: list[str] = []
        life = self

        def job(self: Controller) -> Any:
            async def run() -> None:
                life.ran.append(f"{self.context.action.name} {self.context.scheduled_at:%d %H:%M}")

            return run()

        methods = {
            name: schedule(name=name, **each)(copy_of(job)) for name, each in schedules.items()
        }
        controller: type[Controller] = type("Jobs", (Controller,), methods)
        self.hooks = Hooks()
        self.jobs = jobs
        self.adapter = schedule_entrypoint(
            jobs=jobs, clock=clock, on_error=self.hooks.on_error, on_skip=self.hooks.on_skip
        )
        self.application = Application(
            id="app",
            name="App",
            components={
                "entrypoint": build_entrypoints(controllers=[controller], schedule=self.adapter)
            },
            bootstrap=["entrypoint"],
        )

    def row(self, name: str) -> Row:
        return next(row for row in self.jobs if row.get("action") == name)


def copy_of(function: Any) -> Any:
    return lambda self: function(self)


@asynccontextmanager
async def living(path: Path, clock: VirtualClock, **schedules: Any) -> AsyncIterator[Life]:
    """Open the store, boot the application, and close both."""
    async with open_store(f"sqlite:///{path}") as store:
        life = Life(await store.open("jobs"), clock, **schedules)
        async with life.application:
            yield life


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


async def test_edits_and_last_survive_a_restart(path: Path) -> None:
    """P6: a job whose declaration has not changed keeps what operators made of its row."""
    clock = VirtualClock(START)
    async with living(
        path, clock, a={"every": "1h"}, b={"cron": "@daily", "timezone": "UTC"}
    ) as life:
        await clock.advance("1h")
        assert life.ran == ["a 01 01:00"]
        life.row("a")["every"] = "10m"
        life.row("b")["paused"] = True
        life.row("a")["note"] = "faster"
        order = [row["action"] for row in life.jobs]
    async with living(
        path, clock, a={"every": "1h"}, b={"cron": "@daily", "timezone": "UTC"}
    ) as life:
        assert life.row("a")["last"]["status"] == "ok"
        assert life.row("a")["note"] == "faster"
        assert [row["action"] for row in life.jobs] == order
        await clock.advance("20m")
        assert life.ran == ["a 01 01:10", "a 01 01:20"]
        await clock.advance("1d")
        assert not any(entry.startswith("b") for entry in life.ran)


async def test_code_that_has_changed_wins_and_the_history_says_so(path: Path) -> None:
    """P6: the row is what the code says; the edit before it and this one are in the history."""
    clock = VirtualClock(START)
    async with living(path, clock, a={"every": "1h"}) as life:
        life.row("a")["every"] = "10m"
    async with living(path, clock, a={"cron": "30 * * * *", "timezone": "UTC"}) as life:
        row = life.row("a")
        assert (row["cron"], row["tz"]) == ("30 * * * *", "UTC")
        assert "every" not in row
        await clock.advance("1h")
        assert life.ran == ["a 01 00:30"]
    async with open_store(f"sqlite:///{path}") as store:
        edits = [each async for each in store.history("jobs") if isinstance(each, Edit)]
    changes = edits[0].changes
    assert changes["every"] == ("10m", None)
    assert changes["cron"] == (None, "30 * * * *")
    assert changes["declared"][1]["cron"] == "30 * * * *"
    assert edits[1].changes == {"every": (3_600_000, "10m")}


async def test_new_job_is_appended(path: Path) -> None:
    """P6: the rows that are there stay where they are."""
    clock = VirtualClock(START)
    async with living(path, clock, b={"every": "1h"}):
        pass
    async with living(path, clock, a={"every": "1h"}, b={"every": "1h"}) as life:
        assert [row["action"] for row in life.jobs] == ["b", "a"]


async def test_row_of_a_job_that_is_gone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """P6: it stays and does not run, a warning names it, and it is found again when it is back."""
    clock = VirtualClock(START)
    async with living(path, clock, a={"every": "1h"}, gone={"every": "1h"}) as life:
        life.row("gone")["note"] = "kept"
    async with living(path, clock, a={"every": "1h"}) as life:
        await clock.advance("1h")
        assert life.ran == ["a 01 01:00"]
        assert life.row("gone")["note"] == "kept"
        assert life.hooks.errors == []
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warnings == ["schedule: rows of jobs that are gone stay, and do not run: gone"]
    async with living(path, clock, gone={"every": "1h"}, a={"every": "1h"}) as life:
        await clock.advance("1h")
        assert sorted(life.ran) == ["a 01 02:00", "gone 01 02:00"]
        assert life.row("gone")["note"] == "kept"


MISSED: dict[str, tuple[dict[str, Any], str]] = {
    "interval": ({"every": "1h"}, "2026-01-01T06:00:00+00:00"),
    "aligned": ({"every": "2h", "aligned": True}, "2026-01-01T06:00:00+00:00"),
    "cron": ({"cron": "0 */3 * * *", "timezone": "UTC"}, "2026-01-01T06:00:00+00:00"),
    "trigger": ({"when": Croniter("0 */2 * * *", "UTC")}, "2026-01-01T06:00:00+00:00"),
}


@pytest.mark.parametrize(("options", "latest"), MISSED.values(), ids=MISSED)
@pytest.mark.parametrize("catch_up", [False, True])
async def test_what_was_missed_while_the_process_was_down(
    path: Path, options: dict[str, Any], latest: str, catch_up: bool
) -> None:
    """P6: told once per job, the latest slot; with `catch_up` it runs once at launch instead."""
    clock = VirtualClock(START)
    options = {**options, "catch_up": catch_up}
    when = [options.pop("when")] if "when" in options else []

    def living_job() -> Any:
        return living_with(path, clock, when, options)

    async with living_job() as life:
        await clock.advance("3h")
        assert life.ran
        assert life.hooks.skips == []
    clock.jump("3h 20m")
    async with living_job() as life:
        await clock.advance(0)
        assert life.ran == (["job 01 06:20"] if catch_up else [])
        assert life.hooks.skips == ([] if catch_up else [("job", latest, "missed")])
    async with living_job() as life:
        await clock.advance(0)
        assert life.ran == []
        assert life.hooks.skips == []


@asynccontextmanager
async def living_with(
    path: Path, clock: VirtualClock, when: list[Any], options: dict[str, Any]
) -> AsyncIterator[Life]:
    async with open_store(f"sqlite:///{path}") as store:
        life = Life(await store.open("jobs"), clock)

        class Jobs(Controller):
            @schedule(*when, name="job", **options)
            async def job(self) -> None:
                life.ran.append(f"job {self.context.scheduled_at:%d %H:%M}")

        entrypoint = build_entrypoints(controllers=[Jobs], schedule=life.adapter)
        async with Application(
            id="app", name="App", components={"entrypoint": entrypoint}, bootstrap=["entrypoint"]
        ):
            yield life


async def test_nothing_is_missed_that_was_never_run(path: Path) -> None:
    """P6: it is judged from the last run; a job without one, and a paused one, missed nothing."""
    clock = VirtualClock(START)
    schedules = {"new": {"every": "1d"}, "paused": {"every": "1h"}}
    async with living(path, clock, **schedules) as life:
        await clock.advance("1h")
        life.row("paused")["paused"] = True
    clock.jump("2h")
    async with living(path, clock, **schedules) as life:
        assert life.hooks.skips == []


async def test_trigger_of_a_stored_row_stays_in_the_code(path: Path) -> None:
    """P6: the row shows it as text; another text is refused, and a schedule of its own is not."""
    clock = VirtualClock(START)
    async with living_with(path, clock, [Croniter("0 0 L * *", "UTC")], {}) as life:
        row = life.row("job")
        assert row["trigger"] == "Croniter('0 0 L * *', 'UTC')"
        row["trigger"] = "Croniter('0 0 1 * *', 'UTC')"
        await clock.advance("1h")
        ((error, _, _),) = life.hooks.errors
        assert "is not the trigger of this job" in str(error)
        row.update(trigger=None, every="1h")
        await clock.advance("1h")
        assert life.ran == ["job 01 02:00"]


async def test_component_that_gives_the_array(path: Path) -> None:
    """P6: named, it may be a component of the application, as `run()` needs it."""
    clock = VirtualClock(START)
    ran: list[str] = []

    @asynccontextmanager
    async def stored() -> AsyncIterator[ObservableArray]:
        async with open_store(f"sqlite:///{path}") as store:
            yield await store.open("jobs")

    class Jobs(Controller):
        @schedule("1h")
        async def job(self) -> None:
            ran.append(self.context.action.name)

    for _ in range(2):
        adapter = schedule_entrypoint(jobs="jobs", clock=clock)
        async with Application(
            id="app",
            name="App",
            components={
                "jobs": stored(),
                "entrypoint": build_entrypoints(controllers=[Jobs], schedule=adapter),
            },
            bootstrap=["jobs", "entrypoint"],
        ):
            await clock.advance("1h")
            assert len(adapter.jobs) == 1
    assert ran == ["Jobs.job", "Jobs.job"]


@pytest.mark.parametrize("jobs", [[], 5, {"a": 1}])
def test_wrong_jobs(jobs: Any) -> None:
    """Z3: what holds no rows is refused."""
    with pytest.raises(InvalidArgumentError, match=r"^jobs: "):
        schedule_entrypoint(jobs=jobs)


async def test_array_in_memory_is_kept_too() -> None:
    """P6: any array does; nothing of the rows that are there is lost."""
    clock = VirtualClock(START)
    jobs = ObservableArray([Row(action="other", note="mine")])
    life = Life(jobs, clock, a={"every": "1h"})
    async with life.application:
        await clock.advance("1h")
    assert [row["action"] for row in jobs] == ["other", "a"]
    assert life.ran == ["a 01 01:00"]
