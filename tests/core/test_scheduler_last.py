"""The one field that the scheduler writes: `last`, the record of a row's most recent run."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import Change, ObservableArray, Row, RunContext, Scheduler

OLD = {"started": START - HOUR, "ended": START - HOUR, "status": "ok"}


def one_row(**fields: Any) -> tuple[Row, ObservableArray]:
    row = Row(fields, name="a", every="1h")
    return row, ObservableArray([row])


async def test_record_of_a_run_that_ends_well() -> None:
    """S3: `running` before `run` is called, then one replacement with `ended` and `ok`."""
    journal = Journal()
    row, jobs = one_row(takes=412)
    async with journal.scheduler(jobs):
        await journal.clock.advance("59m")
        assert "last" not in row
        await journal.clock.advance("1m")
        running = row["last"]
        assert running == {"started": START + HOUR, "status": "running"}
        await journal.clock.advance("1m")
    assert row["last"] == {"started": START + HOUR, "ended": START + HOUR + 412, "status": "ok"}
    assert running == {"started": START + HOUR, "status": "running"}


async def test_run_sees_its_own_record() -> None:
    """S3: the row says `running` when `run` is called, in a thread as on the loop."""
    seen: list[object] = []

    def run(job: Row, context: RunContext) -> None:
        seen.append(job["last"])

    async def async_run(job: Row, context: RunContext) -> None:
        run(job, context)

    for function in (run, async_run):
        journal = Journal()
        _, jobs = one_row(last=OLD)
        async with Scheduler(jobs, function, clock=journal.clock):
            await journal.clock.advance("1h")
    assert seen == [{"started": START + HOUR, "status": "running"}] * 2


async def test_two_commits_per_run() -> None:
    """S3: observers hear of exactly two changes per run, both of `last`."""
    journal = Journal()
    row, jobs = one_row()
    heard: list[tuple[Change, ...]] = []
    stop = jobs.observe(heard.append)
    async with journal.scheduler(jobs):
        await journal.clock.advance("1h")
    stop()
    running = {"started": START + HOUR, "status": "running"}
    ok = {"started": START + HOUR, "ended": START + HOUR, "status": "ok"}
    assert heard == [
        (Change("set", row, 0, "last", None, running),),
        (Change("set", row, 0, "last", running, ok),),
    ]


class Refused(Exception):
    reason = "empty"


class WithNumber(Exception):
    reason = 404


class WithoutWords(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class WithoutReason(Exception):
    @property
    def reason(self) -> str:
        raise ZeroDivisionError


async def test_record_of_a_run_that_raises() -> None:
    """S3: `failed`, with the message, and the reason when it is a string."""
    journal = Journal()
    row, jobs = one_row(takes="1m", raises=Refused("no rows"))
    async with journal.scheduler(jobs):
        await journal.clock.advance("62m")
    assert row["last"] == {
        "started": START + HOUR,
        "ended": START + HOUR + MINUTE,
        "status": "failed",
        "error": {"message": "no rows", "reason": "empty"},
    }


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no rows"), "no rows"),
        (WithNumber("not found"), "not found"),
        (WithoutReason("no reason"), "no reason"),
        (KeyError("tariff"), "'tariff'"),
    ],
)
async def test_record_has_no_reason_that_is_no_string(error: Exception, message: str) -> None:
    """S3: a `reason` that is missing, no string, or cannot be read is left out."""
    journal = Journal()
    row, jobs = one_row(raises=error)
    async with journal.scheduler(jobs):
        await journal.clock.advance("1h")
    assert row["last"]["status"] == "failed"
    assert row["last"]["error"] == {"message": message}
    assert journal.failures == [("a", error)]


async def test_message_is_cut() -> None:
    """S3: the message on the row has at most 500 characters, the error itself is whole."""
    journal = Journal()
    error = ValueError("x" * 1_000_000)
    row, jobs = one_row(raises=error)
    async with journal.scheduler(jobs):
        await journal.clock.advance("1h")
    assert len(row["last"]["error"]["message"]) == 500
    assert journal.failures == [("a", error)]


async def test_error_that_has_no_words() -> None:
    """S3: an error whose text cannot be had lands on the row all the same."""
    journal = Journal()
    row, jobs = one_row(raises=WithoutWords())
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
    assert row["last"]["status"] == "failed"
    assert isinstance(row["last"]["error"]["message"], str)
    assert journal.slots == [HOUR, 2 * HOUR]


async def test_end_is_never_before_the_start() -> None:
    """S3: a clock that is set back during a run does not make it end before it began."""
    journal = Journal()
    row, jobs = one_row()

    async def run(job: Row, context: RunContext) -> None:
        journal.clock.jump(-30 * MINUTE)

    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("1h")
    assert row["last"] == {"started": START + HOUR, "ended": START + HOUR, "status": "ok"}


OWN: dict[str, Any] = {"status": "mine"}


@pytest.mark.parametrize("raises", [False, True])
async def test_record_is_dropped_when_the_application_wrote_its_own(raises: bool) -> None:
    """S3: the application's own `last` stays, whatever the run comes to."""
    journal = Journal()
    row, jobs = one_row(takes="5m", **({"raises": ValueError()} if raises else {}))
    async with journal.scheduler(jobs):
        await journal.clock.advance("62m")
        row["last"] = OWN
        await journal.clock.advance("30m")
        assert row["last"] is OWN
        assert len(journal.ended) == 1
        await journal.clock.advance("40m")
    assert row["last"]["started"] == START + 2 * HOUR


async def test_record_is_dropped_when_the_application_deleted_it() -> None:
    """S3: a `last` that was deleted during the run stays deleted."""
    journal = Journal()
    row, jobs = one_row(takes="5m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("62m")
        del row["last"]
        await journal.clock.advance("30m")
    assert "last" not in row


async def test_record_is_dropped_when_the_row_left() -> None:
    """S3: nothing is written to a row that is not in the array, nor in another array."""
    journal = Journal()
    row, jobs = one_row(takes="5m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("62m")
        jobs.remove(row)
        ObservableArray([row])
        await journal.clock.advance("30m")
    assert row["last"]["status"] == "running"
    assert len(journal.ended) == 1


async def test_record_of_a_dead_process_is_overwritten() -> None:
    """S5: a row found `running` is what a dead process left, and the next run overwrites it."""
    journal = Journal()
    row, jobs = one_row(last={"started": START - HOUR, "status": "running"})
    async with journal.scheduler(jobs):
        await journal.clock.advance("59m")
        assert row["last"]["started"] == START - HOUR
        await journal.clock.advance("1m")
    assert row["last"]["status"] == "ok"


@pytest.mark.parametrize("status", ["running", "ok", "failed"])
async def test_observer_that_raises_at_last(status: str) -> None:
    """A4: its error goes to `failed`; the run, the record and the schedule go on."""
    journal = Journal()
    row, jobs = one_row(**({"raises": ValueError("the run")} if status == "failed" else {}))

    def refuse(commit: tuple[Change, ...]) -> None:
        if commit[0].key == "last" and commit[0].new["status"] == status:
            raise ZeroDivisionError("the observer")

    stop = jobs.observe(refuse)
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
    stop()
    assert journal.slots == [HOUR, 2 * HOUR]
    told = [type(error) for _, error in journal.failures]
    assert told.count(ZeroDivisionError) == 2
    assert told.count(ValueError) == (2 if status == "failed" else 0)
    assert row["last"]["status"] == ("failed" if status == "failed" else "ok")


async def test_observer_that_raises_at_last_without_a_handler() -> None:
    """S7: without a handler its error ends the scheduler and comes out of the block."""
    journal = Journal()
    _, jobs = one_row()

    def refuse(commit: tuple[Change, ...]) -> None:
        raise ZeroDivisionError("the observer")

    jobs.observe(refuse)
    with pytest.raises(ExceptionGroup) as raised:
        async with Scheduler(jobs, journal.run, clock=journal.clock):
            await journal.clock.advance("2h")
            await anyio.sleep_forever()
    assert raised.group_contains(ZeroDivisionError)


async def test_observer_that_removes_the_row_when_it_begins() -> None:
    """S2: a row that an observer removes at `running` finishes its run and is left alone."""
    journal = Journal()
    row, jobs = one_row(takes="1m")

    def remove(commit: tuple[Change, ...]) -> None:
        if commit[0].key == "last":
            jobs.remove(row)

    jobs.observe(remove)
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("3h")
        assert scheduler.running(row) == 0
    assert journal.slots in ([], [HOUR])
    assert row["last"] == {"started": START + HOUR, "status": "running"}


@pytest.mark.parametrize("before", [{}, {"last": OLD}], ids=["none", "some"])
@pytest.mark.parametrize("threaded", [False, True], ids=["loop", "thread"])
async def test_run_that_counts_as_none(before: dict[str, Any], threaded: bool) -> None:
    """K9a: after `context.skip()` the row has the `last` of before, and no one is told."""
    journal = Journal()
    row, jobs = one_row(**before)

    def run(job: Row, context: RunContext) -> None:
        context.skip()
        assert job["last"]["status"] == "running"

    async def async_run(job: Row, context: RunContext) -> None:
        run(job, context)

    function = run if threaded else async_run
    async with Scheduler(
        jobs, function, clock=journal.clock, failed=journal.failed, skipped=journal.skipped
    ) as scheduler:
        await journal.clock.advance("1h")
        assert {key: row[key] for key in row if key == "last"} == before
        assert scheduler.next_due(row) == START + 2 * HOUR
    assert journal.failures == []
    assert journal.skips == []


async def test_one_off_that_counts_as_none_is_over_all_the_same() -> None:
    """K9a: putting `last` back is not an edit: the slot has come and does not come again."""
    journal = Journal()
    row = Row(name="a", at=START)

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        context.skip()

    async with Scheduler(ObservableArray([row]), run, clock=journal.clock):
        await journal.clock.advance("1h")
    assert journal.slots == [0]
    assert "last" not in row


async def test_run_that_asks_to_count_as_none_and_raises_is_a_failure() -> None:
    """S7: an error is never passed over, whatever the run asked for before."""
    journal = Journal()
    row, jobs = one_row()

    async def run(job: Row, context: RunContext) -> None:
        context.skip()
        raise ValueError("no rows")

    async with Scheduler(jobs, run, clock=journal.clock, failed=journal.failed):
        await journal.clock.advance("1h")
    assert row["last"]["status"] == "failed"
    assert len(journal.failures) == 1


async def test_skip_leaves_the_record_of_the_application() -> None:
    """S3: a `last` that the application wrote during a skipped run stays."""
    journal = Journal()
    row, jobs = one_row(last=OLD)

    async def run(job: Row, context: RunContext) -> None:
        job["last"] = OWN
        context.skip()

    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("1h")
    assert row["last"] is OWN
