"""The schedule adapter: when jobs run, who hears of failures, and rows that are edited live."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import structlog
import structlog.testing

from tests.controllers.booting import Booted, application_of
from weftjobs import Every, InvalidScheduleError, Row, atomic
from weftjobs_controllers import (
    Controller,
    InvalidArgumentError,
    NotRunningError,
    UnknownActionError,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

LOGGER = "weftjobs_controllers"


class Noted(Controller):
    """Jobs that note the planned time of their runs; a class of its own for each test."""

    noted: list[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.noted = []

    def note(self) -> None:
        self.noted.append(self.context.scheduled_at.isoformat())


def booted_every(interval: str, **options: Any) -> tuple[Booted, list[str]]:
    """Return an application of one job that notes its planned times."""

    class Jobs(Noted):
        @schedule(every=interval)
        async def job(self) -> None:
            self.note()

    return Booted(Jobs, **options), Jobs.noted


async def test_interval_first_runs_one_interval_after_launch() -> None:
    """K8: nothing at launch, then once every interval."""
    booted, noted = booted_every("30s")
    async with booted.application:
        await booted.clock.advance("29s")
        assert noted == []
        await booted.clock.advance("61s")
    assert noted == [
        "2026-01-01T00:00:30+00:00",
        "2026-01-01T00:01:00+00:00",
        "2026-01-01T00:01:30+00:00",
    ]


def cron_jobs() -> type[Noted]:
    class Jobs(Noted):
        @schedule(cron="30 1 * * *")
        async def job(self) -> None:
            self.note()

    return Jobs


@pytest.mark.parametrize(
    ("start", "ran"),
    [
        ("2026-03-28T12:00:00Z", ["2026-03-30T01:30:00+01:00"]),
        ("2026-10-24T12:00:00Z", ["2026-10-25T01:30:00+01:00"]),
    ],
    ids=["spring gap", "autumn fold"],
)
async def test_cron_over_a_change_of_the_clocks(start: str, ran: list[str]) -> None:
    """C5: a time that the zone skips does not run, one that it repeats runs once."""
    jobs = cron_jobs()
    booted = Booted(jobs, start=start, timezone="Europe/London")
    async with booted.application:
        await booted.clock.advance("37h")
    assert jobs.noted == ran


@pytest.mark.parametrize(
    ("timezone", "tz"), [("Asia/Tokyo", "Asia/Tokyo"), (None, "America/Toronto")]
)
async def test_zone_of_a_cron_that_names_none(
    timezone: str | None, tz: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1: the zone is that of the application, else that of the process."""
    monkeypatch.setenv("TZ", "America/Toronto")
    booted = Booted(cron_jobs(), timezone=timezone)
    async with booted.application:
        assert booted.adapter.jobs[0]["tz"] == tz


async def test_trigger_is_used_as_it_is() -> None:
    """K1: a trigger object says when, down to its grid."""

    class Jobs(Noted):
        @schedule(Every("1h", origin="2026-01-01T00:10:00Z"))
        async def job(self) -> None:
            self.note()

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("2h")
        assert booted.adapter.jobs[0]["trigger"] == Every("1h", origin="2026-01-01T00:10:00Z")
    assert Jobs.noted == ["2026-01-01T00:10:00+00:00", "2026-01-01T01:10:00+00:00"]


class Failing(Controller):
    error = ValueError("no rows")

    @schedule("1m")
    async def job(self) -> None:
        raise self.error

    @schedule(every="1m", name="plain")
    def job_in_a_thread(self) -> None:
        raise self.error


async def test_failed_run_is_told_and_stops_nothing() -> None:
    """K9: `on_error` hears the error as raised, the job and the run; the job goes on."""
    booted = Booted(Failing)
    async with booted.application:
        await booted.clock.advance("2m")
        record = booted.adapter.jobs[0]["last"]
    told = sorted(
        (action.name, context.run, context.scheduled_at.isoformat())
        for error, action, context in booted.hooks.errors
        if context is not None and error is Failing.error and action == context.action
    )
    assert told == [
        ("Failing.job", 1, "2026-01-01T00:01:00+00:00"),
        ("Failing.job", 2, "2026-01-01T00:02:00+00:00"),
        ("plain", 1, "2026-01-01T00:01:00+00:00"),
        ("plain", 2, "2026-01-01T00:02:00+00:00"),
    ]
    assert record["error"] == {"message": "no rows"}


async def test_controller_that_cannot_be_made() -> None:
    """K9a: what the constructor raises is told to `on_error`."""

    class Jobs(Controller):
        def __init__(self, db: object) -> None:
            self.db = db

        @schedule("1m")
        async def job(self) -> None: ...

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    ((error, _, context),) = booted.hooks.errors
    assert isinstance(error, TypeError)
    assert context is not None


async def test_failed_run_without_a_hook(caplog: pytest.LogCaptureFixture) -> None:
    """K9: by default a failure is logged with its traceback."""
    booted = Booted(Failing, hooked=False)
    async with booted.application:
        await booted.clock.advance("1m")
    logged = {record.getMessage(): record for record in caplog.records if record.name == LOGGER}
    record = logged["schedule: plain failed in run 1, planned at 2026-01-01T00:01:00+00:00"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is Failing.error
    assert len(logged) == 2


class Log:
    """A component with two of the methods of a logger."""

    def __init__(self, broken: bool = False) -> None:
        self.lines: list[tuple[str, str, object]] = []
        self.broken = broken

    def error(self, message: str, exc_info: object = None) -> None:
        if self.broken:
            raise OSError("disk full")
        self.lines.append(("error", message, exc_info))

    def info(self, message: str) -> None:
        self.lines.append(("info", message, None))


class Overlapping(Controller):
    @schedule("1m")
    async def job(self) -> None:
        await self.component("clock").sleep("90s")

    @schedule("1m", name="failing")
    async def failing(self) -> None:
        raise Failing.error


async def test_component_log(caplog: pytest.LogCaptureFixture) -> None:
    """K9: the component `log` is told what no hook is there for."""
    log = Log()
    booted = Booted(Overlapping, hooked=False, components={"log": log})
    async with booted.application:
        await booted.clock.advance("170s")
    assert [line for line in log.lines if line[0] == "info"] == [
        ("info", "schedule: Overlapping.job skipped at 2026-01-01T00:02:00+00:00 (overlap)", None)
    ]
    assert [line[2] for line in log.lines if line[0] == "error"] == [Failing.error] * 2
    assert [record for record in caplog.records if record.name == LOGGER] == []


async def test_structlog_as_the_component_log() -> None:
    """K9: a logger of structlog takes what would be logged, with the error."""
    booted = Booted(Overlapping, Failing, hooked=False, components={"log": structlog.get_logger()})
    with structlog.testing.capture_logs() as lines:
        async with booted.application:
            await booted.clock.advance("170s")
            booted.clock.jump("1h")
            await booted.clock.advance(0)
    levels = {line["log_level"] for line in lines}
    assert levels == {"info", "warning", "error"}
    assert [line["event"] for line in lines if line["log_level"] == "info"] == [
        "schedule: Overlapping.job skipped at 2026-01-01T00:02:00+00:00 (overlap)"
    ]
    failed = [line for line in lines if line["log_level"] == "error"]
    assert [line["exc_info"] for line in failed] == [Failing.error] * 6
    assert "Failing.job failed in run 1, planned at 2026-01-01T00:01:00+00:00" in str(failed)


async def test_component_log_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """K9: what a broken log does not take goes to the logger of the package."""
    booted = Booted(Failing, hooked=False, components={"log": Log(broken=True)})
    async with booted.application:
        await booted.clock.advance("1m")
    messages = [record.getMessage() for record in caplog.records]
    assert "schedule: the component log raised" in messages
    assert "schedule: plain failed in run 1, planned at 2026-01-01T00:01:00+00:00" in messages


async def test_slot_that_comes_during_a_run_is_skipped() -> None:
    """K8: the slot is reported to `on_skip` and not counted; the job goes on after it."""
    starts: list[tuple[int, str]] = []

    class Jobs(Controller):
        @schedule("1m")
        async def job(self) -> None:
            starts.append((self.context.run, self.context.scheduled_at.isoformat()))
            await self.component("clock").sleep("90s")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("290s")
    assert starts == [(1, "2026-01-01T00:01:00+00:00"), (2, "2026-01-01T00:03:00+00:00")]
    assert booted.hooks.skips == [
        ("Jobs.job", "2026-01-01T00:02:00+00:00", "overlap"),
        ("Jobs.job", "2026-01-01T00:04:00+00:00", "overlap"),
    ]
    assert booted.hooks.errors == []


@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "plain"])
async def test_hooks_that_raise(asynchronous: bool, caplog: pytest.LogCaptureFixture) -> None:
    """K9: a hook that raises is logged, what it was told as well, and stops nothing."""

    def plain(*facts: object) -> None:
        raise LookupError("no pager")

    async def awaited(*facts: object) -> None:
        plain(*facts)

    hook = awaited if asynchronous else plain
    booted = Booted(Failing)
    adapter = schedule_entrypoint(on_error=hook, name="jobs", clock=booted.clock)
    entrypoint = build_entrypoints(controllers=[Failing], schedule=adapter)
    async with application_of(entrypoint):
        await booted.clock.advance("1m")
        assert adapter.scheduler.next_due(adapter.jobs[0]) is not None
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("jobs: on_error raised") == 2
    assert "jobs: plain failed in run 1, planned at 2026-01-01T00:01:00+00:00" in messages


async def test_editing_a_row_reschedules() -> None:
    """K10: an edit of `every`, or into a cron, is followed from now on."""
    booted, noted = booted_every("1h")
    async with booted.application:
        row = booted.adapter.jobs[0]
        assert dict(row) == {
            "action": "Jobs.job",
            "every": 3_600_000,
            "overlap": False,
            "immediate": False,
            "exclusive": False,
        }
        row["every"] = "10m"
        await booted.clock.advance("10m")
        with atomic(booted.adapter.jobs):
            row["every"] = None
            row.update(cron="0 9 * * *", tz="Asia/Shanghai")
        (action,) = booted.entrypoint.actions
        await booted.clock.advance("1h")
        row["tz"] = "UTC"
        await booted.clock.advance("9h")
        assert row["last"]["status"] == "ok"
    assert action.schedule == "cron 0 9 * * *"
    assert noted == [
        "2026-01-01T00:10:00+00:00",
        "2026-01-01T09:00:00+08:00",
        "2026-01-01T09:00:00+00:00",
    ]


async def test_cron_of_an_edited_row_runs_once_in_a_fold() -> None:
    """C5: an edited cron follows the rule of controllers, not that of rows."""
    booted, noted = booted_every("1d", start="2026-10-24T12:00:00Z")
    async with booted.application:
        booted.adapter.jobs[0].update(every=None, cron="30 1 * * *", tz="Europe/London")
        await booted.clock.advance("20h")
    assert noted == ["2026-10-25T01:30:00+01:00"]


EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "not a duration": ({"every": "soon"}, "every: 'soon'"),
    "not a number": ({"every": float("nan")}, "every: nan"),
    "cron beside every": ({"cron": "@daily", "tz": "UTC"}, "row: has every=3600000 and cron="),
    "cron without tz": ({"every": None, "cron": "@daily"}, "tz: missing"),
    "unknown zone": ({"every": None, "cron": "@daily", "tz": "Mars"}, "tz: 'Mars'"),
    "trigger beside every": ({"trigger": Every("1s")}, "row: has trigger=Every("),
    "no trigger": ({"every": None, "trigger": 5}, "5 is not a trigger"),
    "nothing": ({"every": None}, "row: has none"),
}


@pytest.mark.parametrize(("edit", "wrong"), EDITS.values(), ids=EDITS)
async def test_broken_edit_is_told_without_a_context(edit: dict[str, Any], wrong: str) -> None:
    """K9a: a broken live edit goes to `on_error`, once; the mended row runs again."""
    booted, noted = booted_every("1h")
    async with booted.application:
        row = booted.adapter.jobs[0]
        row.update(edit)
        await booted.clock.advance("3h")
        assert noted == []
        assert booted.entrypoint.actions[0].next_time is None
        row.update(every="1h", cron=None, trigger=None)
        await booted.clock.advance("1h")
    ((error, action, context),) = booted.hooks.errors
    assert isinstance(error, InvalidScheduleError)
    assert wrong in str(error)
    assert (action.name, context) == ("Jobs.job", None)
    assert noted == ["2026-01-01T04:00:00+00:00"]


async def test_broken_edit_without_a_hook(caplog: pytest.LogCaptureFixture) -> None:
    """K9a: by default a broken edit is logged, with what is wrong."""
    booted, _ = booted_every("1h", hooked=False)
    async with booted.application:
        booted.adapter.jobs[0]["every"] = "soon"
        await booted.clock.advance("1m")
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == "schedule: Jobs.job: every: 'soon' is not a duration"


@pytest.mark.parametrize("name", ["Jobs.gone", None, ["Jobs.job"]])
async def test_row_of_no_job(name: Any, caplog: pytest.LogCaptureFixture) -> None:
    """K10: a row whose `action` names no job is reported and never runs."""
    booted, noted = booted_every("1h")
    async with booted.application:
        row = Row(action=name, every="1m")
        booted.adapter.jobs.append(row)
        await booted.clock.advance("5m")
        booted.adapter.scheduler.run_now(row)
        await booted.clock.advance("5m")
    assert noted == []
    assert booted.hooks.errors == []
    errors = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [type(error) for error in errors] == [UnknownActionError] * 2


async def test_row_that_is_given_to_another_job() -> None:
    """K10: its next slot runs the job that it names now, on the same schedule."""
    runs: list[str] = []

    class Jobs(Controller):
        @schedule("1m")
        async def one(self) -> None:
            runs.append(f"one by {self.context.action.name}")

        @schedule("1d")
        async def other(self) -> None:
            runs.append(f"other by {self.context.action.name}")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
        booted.adapter.jobs[0]["action"] = "Jobs.other"
        await booted.clock.advance("1m")
    assert booted.hooks.errors == []
    assert runs == ["one by Jobs.one", "other by Jobs.other"]


async def test_row_that_was_replaced() -> None:
    """K10: the job is what its row says, whichever row that is."""
    booted, noted = booted_every("1h")
    async with booted.application:
        booted.adapter.jobs[:] = [Row(action="Jobs.job", every="5m")]
        (action,) = booted.entrypoint.actions
        assert action.schedule == "every 5m"
        assert action.next_time is not None
        await booted.clock.advance("5m")
        del booted.adapter.jobs[0]
        assert booted.entrypoint.actions[0].next_time is None
    assert noted == ["2026-01-01T00:05:00+00:00"]


async def test_run_now() -> None:
    """K10: the scheduler of the adapter starts a run at once."""
    booted, noted = booted_every("1h")
    async with booted.application:
        await booted.clock.advance("10m")
        assert booted.adapter.scheduler.run_now(booted.adapter.jobs[0])
        await booted.clock.advance("10m")
    assert noted == ["2026-01-01T00:10:00+00:00"]


async def test_scheduler_is_there_while_the_application_runs() -> None:
    """K10: asked too early or too late, the adapter says so."""
    booted, _ = booted_every("1h")
    for _ in range(2):
        with pytest.raises(NotRunningError, match=r"schedule\.scheduler"):
            booted.adapter.scheduler.next_due(booted.adapter.jobs[0])
        async with booted.application:
            assert booted.adapter.scheduler.next_due(booted.adapter.jobs[0]) is not None


WRONG: dict[str, Any] = {
    "on_error": 5,
    "on_skip": "log",
    "name": "",
    "clock": object(),
    "middlewares": [5],
}


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_arguments(argument: str) -> None:
    """Z3: an argument that cannot be used is refused, with what to pass instead."""
    with pytest.raises(InvalidArgumentError) as raised:
        schedule_entrypoint(**{argument: WRONG[argument]})
    assert raised.value.argument == argument


async def test_plain_method_that_returns_an_awaitable() -> None:
    """K9a: what a plain method returns is awaited, and what that raises is a failed run."""
    awaited: list[int] = []

    class Jobs(Controller):
        @schedule("1m")
        def job(self) -> object:
            return self.work()

        async def work(self) -> None:
            awaited.append(self.context.run)
            if self.context.run == 2:
                raise ValueError("no rows")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("2m")
    assert awaited == [1, 2]
    assert [str(error) for error, _, _ in booted.hooks.errors] == ["no rows"]
