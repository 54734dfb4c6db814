"""One-offs: once, however late, and again only when they are asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import Change, ObservableArray, Row, RunContext, Scheduler


def once(at: int, **fields: Any) -> tuple[Row, ObservableArray]:
    row = Row(fields, name="a", at=START + at)
    return row, ObservableArray([row])


async def test_past_instant_runs_once_on_start() -> None:
    """S5: a one-off in the past runs once, at once, due when it was."""
    journal = Journal()
    row, jobs = once(-7 * HOUR)
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("3h")
        assert scheduler.next_due(row) is None
    assert journal.slots == [-7 * HOUR]
    assert journal.times == [0]


async def test_past_instant_added_later_runs_once() -> None:
    """S5: the same holds for a row that comes in with a past instant."""
    journal = Journal()
    jobs = ObservableArray()
    async with journal.scheduler(jobs):
        await journal.clock.advance("1h")
        jobs.append(Row(name="a", at=START))
        await journal.clock.advance("1h")
    assert journal.slots == [0]
    assert journal.times == [HOUR]


@pytest.mark.parametrize(
    ("last", "runs"),
    [
        ({"started": START - HOUR, "ended": START, "status": "ok"}, False),
        ({"started": START - HOUR + 1, "status": "failed"}, False),
        ({"started": START - HOUR, "status": "running"}, False),
        ({"started": float(START), "status": "ok"}, False),
        ({"started": START - HOUR - 1, "status": "ok"}, True),
        ({"started": START - HOUR - 1, "status": "running"}, True),
        ({}, True),
        ({"status": "ok"}, True),
        ({"started": None}, True),
        ({"started": "soon"}, True),
        ({"started": True}, True),
        ({"started": float("nan")}, True),
        ("done", True),
        ([START], True),
        (None, True),
    ],
)
async def test_last_says_whether_it_is_done(last: Any, runs: bool) -> None:
    """S5: it is done when `last.started` is not before `at`; `running` counts as started."""
    journal = Journal()
    row, jobs = once(-HOUR, last=last)
    async with journal.scheduler(jobs) as scheduler:
        assert (scheduler.next_due(row) is not None) == runs
        await journal.clock.advance("1h")
    assert journal.slots == ([-HOUR] if runs else [])


async def test_periodic_row_of_a_dead_process_is_scheduled_as_usual() -> None:
    """S5: a row found `running` is not running."""
    journal = Journal()
    row = Row(name="a", every="1h", last={"started": START - 1, "status": "running"})
    async with journal.scheduler(ObservableArray([row])) as scheduler:
        assert scheduler.running(row) == 0
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR, 2 * HOUR]


async def test_it_does_not_run_again_in_the_next_scheduler() -> None:
    """S5: `last` on the row is all that it takes to know, in another scheduler too."""
    journal = Journal()
    _, jobs = once(HOUR)
    for _ in range(3):
        async with journal.scheduler(jobs):
            await journal.clock.advance("1h")
    assert journal.slots == [HOUR]


async def test_moving_the_instant_past_the_last_start_runs_it_again() -> None:
    """S5: moved past its last start it runs again; moved elsewhere it does not."""
    journal = Journal()
    row, jobs = once(HOUR)
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
        row["at"] = START + HOUR // 2
        await journal.clock.advance("1h")
        assert journal.slots == [HOUR]
        row["at"] = START + 2 * HOUR
        await journal.clock.advance("1h")
        assert journal.slots == [HOUR, 2 * HOUR]
        row["at"] = START + 10 * HOUR
        await journal.clock.advance("7h")
    assert journal.slots == [HOUR, 2 * HOUR, 10 * HOUR]


async def test_deleting_last_runs_it_again() -> None:
    """S5: without `last` it never ran, so it runs, once."""
    journal = Journal()
    row, jobs = once(HOUR)
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
        del row["last"]
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR, HOUR]
    assert journal.times == [HOUR, 2 * HOUR]


async def test_last_written_by_the_application_counts() -> None:
    """S5: an older start makes it run again, one that is past the instant makes it done."""
    journal = Journal()
    row, jobs = once(HOUR)
    async with journal.scheduler(jobs) as scheduler:
        row["last"] = {"started": START + HOUR, "status": "ok"}
        assert scheduler.next_due(row) is None
        await journal.clock.advance("2h")
        assert journal.slots == []
        row["last"] = {"started": START, "status": "ok"}
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR]


async def test_last_of_a_periodic_row_is_no_matter() -> None:
    """S5: only one-offs ask `last` whether they are done."""
    journal = Journal()
    row = Row(name="a", every="1h", last={"started": START + 9 * HOUR, "status": "ok"})
    async with journal.scheduler(ObservableArray([row])):
        await journal.clock.advance("1h")
        row["last"] = {"started": START + 99 * HOUR}
        await journal.clock.advance("1h")
        del row["last"]
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR, 2 * HOUR, 3 * HOUR]


async def test_instant_that_comes_while_it_runs_waits_for_the_end() -> None:
    """S5: moved to an instant within its own run, it runs once when that run ends."""
    journal = Journal()
    row, jobs = once(HOUR, takes="30m")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("65m")
        row["at"] = START + 70 * MINUTE
        await journal.clock.advance("10m")
        assert scheduler.next_due(row) == START + 70 * MINUTE
        assert scheduler.running(row) == 1
        await journal.clock.advance("3h")
    assert journal.slots == [HOUR, 70 * MINUTE]
    assert journal.times == [HOUR, 90 * MINUTE]
    assert journal.skips == []


async def test_instant_moved_twice_while_it_runs_is_one_run() -> None:
    """S5: what was moved on while it waited runs for the last instant only."""
    journal = Journal()
    row, jobs = once(HOUR, takes="30m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("65m")
        row["at"] = START + 70 * MINUTE
        await journal.clock.advance("10m")
        row["at"] = START + 80 * MINUTE
        await journal.clock.advance("3h")
    assert journal.ran == [("a", HOUR), ("a", 80 * MINUTE)]
    assert journal.times == [HOUR, 90 * MINUTE]


@pytest.mark.parametrize(
    ("edit", "slots"),
    [
        ({"at": START + 3 * HOUR}, [HOUR, 3 * HOUR]),
        ({"at": None, "every": "2h"}, [HOUR, 75 * MINUTE + 2 * HOUR]),
        ({"at": None}, [HOUR]),
    ],
    ids=["later", "every", "nothing"],
)
async def test_waiting_instant_that_is_edited_away(edit: dict[str, Any], slots: list[int]) -> None:
    """S5: an instant that waits for the run to end is forgotten when the row changes."""
    journal = Journal()
    row, jobs = once(HOUR, takes="30m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("65m")
        row["at"] = START + 70 * MINUTE
        await journal.clock.advance("10m")
        row.update(edit)
        await journal.clock.advance("150m")
    assert journal.slots == slots


async def test_waiting_instant_of_a_row_that_left() -> None:
    """S5: a row that is gone when its run ends does not run again."""
    journal = Journal()
    row, jobs = once(HOUR, takes="30m")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("65m")
        row["at"] = START + 70 * MINUTE
        await journal.clock.advance("10m")
        jobs.remove(row)
        assert scheduler.next_due(row) is None
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR]


async def test_waiting_instant_that_the_application_marked_as_done() -> None:
    """S5: a `last` that says it is done holds for an instant that waits as well."""
    journal = Journal()
    row, jobs = once(HOUR, takes="30m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("65m")
        row["at"] = START + 70 * MINUTE
        await journal.clock.advance("10m")
        row["last"] = {"started": START + 70 * MINUTE, "status": "ok"}
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR]


async def test_last_deleted_while_it_runs() -> None:
    """S5: deleting `last` during the run asks for another one, once, when that run ends."""
    journal = Journal()
    row, jobs = once(HOUR, takes="30m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("65m")
        del row["last"]
        await journal.clock.advance("3h")
    assert journal.slots == [HOUR, HOUR]
    assert journal.times == [HOUR, 90 * MINUTE]


AGAIN: dict[str, Callable[[Row], object]] = {
    "delete last": lambda row: row.pop("last"),
    "replace last": lambda row: row.update(last=None),
    "move": lambda row: row.update(at=START + HOUR - 1, last={"started": START}),
}


@pytest.mark.parametrize("ask", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("threaded", [False, True], ids=["loop", "thread"])
async def test_run_that_asks_for_another_one_as_it_ends(
    ask: Callable[[Row], object], threaded: bool
) -> None:
    """S5: a run that asks for another one and ends at once gets it, once."""
    journal = Journal()
    row, jobs = once(HOUR)

    def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        if len(journal.ran) == 1:
            ask(job)

    async def async_run(job: Row, context: RunContext) -> None:
        run(job, context)

    async with Scheduler(jobs, run if threaded else async_run, clock=journal.clock) as scheduler:
        await journal.clock.advance("2h")
        assert scheduler.next_due(row) is None
    assert len(journal.ran) == 2
    assert journal.times == [HOUR, HOUR]


async def test_observer_that_asks_for_another_run_at_the_end_of_one() -> None:
    """S5: an edit made when the end of a run is recorded is an edit like any other."""
    journal = Journal()
    row, jobs = once(HOUR)

    def ask_once(commit: tuple[Change, ...]) -> None:
        if commit[0].key == "last" and commit[0].new["status"] == "ok" and len(journal.ran) == 1:
            row["at"] = START + HOUR + 1
            row["at"] = START + HOUR - 1
            row["last"] = {"started": START, "status": "ok"}

    stop = jobs.observe(ask_once)
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
    stop()
    assert journal.slots == [HOUR, HOUR - 1]


async def test_removed_and_put_back_after_it_ran() -> None:
    """S5: a one-off that comes back with its `last` is done."""
    journal = Journal()
    row, jobs = once(HOUR)
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
        jobs.remove(row)
        jobs.append(row)
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR]


async def test_same_instant_written_again_is_no_edit() -> None:
    """R4: the instant of a one-off that ran, written another way, does not run it again."""
    journal = Journal()
    row, jobs = once(HOUR)
    async with journal.scheduler(jobs):
        await journal.clock.advance("2h")
        row["at"] = "2026-01-01T01:00:00Z"
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR]


async def test_run_by_hand_before_the_instant_does_not_count() -> None:
    """S9: `run_now` ahead of the instant does not move it."""
    journal = Journal()
    row, jobs = once(HOUR)
    async with journal.scheduler(jobs) as scheduler:
        scheduler.run_now(row)
        await journal.clock.advance("2h")
    assert journal.slots == [0, HOUR]
