"""The scheduler follows the array: every edit, from whatever thread, without a restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import pytest

from tests.core.scheduling import DAY, HOUR, MINUTE, START, Journal
from weftjobs import Change, ObservableArray, Row, RunContext, Scheduler, Trigger, atomic, plan_row


async def test_row_inserted_is_scheduled_from_now() -> None:
    """S2: whatever way a row comes in, it is scheduled."""
    journal = Journal()
    jobs = ObservableArray()
    async with journal.scheduler(jobs):
        jobs.append(Row(name="append", every="1h"))
        jobs.insert(0, Row(name="insert", every="1h"))
        jobs.extend([Row(name="extend", every="1h")])
        jobs[1:1] = [Row(name="slice", every="1h")]
        await journal.clock.advance("30m")
        jobs[0] = Row(name="assigned", every="1h")
        await journal.clock.advance("1h")
    assert journal.ran == [
        ("append", HOUR),
        ("extend", HOUR),
        ("slice", HOUR),
        ("assigned", HOUR * 3 // 2),
    ]


REMOVALS: dict[str, Callable[[ObservableArray, Row], object]] = {
    "remove": lambda jobs, row: jobs.remove(row),
    "pop": lambda jobs, row: jobs.pop(0),
    "del": lambda jobs, row: jobs.__delitem__(0),
    "slice": lambda jobs, row: jobs.__delitem__(slice(0, 1)),
    "replace": lambda jobs, row: jobs.__setitem__(slice(0, 1), []),
}


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
async def test_row_removed_is_cancelled(remove: Callable[[ObservableArray, Row], object]) -> None:
    """S2: whatever way a row leaves, it fires no more; the others do."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h"), Row(name="b", every="1h")])
    row = jobs[0]
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("1h")
        remove(jobs, row)
        assert scheduler.next_due(row) is None
        await journal.clock.advance("1h")
    assert journal.ran == [("a", HOUR), ("b", HOUR), ("b", 2 * HOUR)]


async def test_row_removed_and_put_back_is_armed_from_now() -> None:
    """S2: a row that comes back is a row inserted."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])
    async with journal.scheduler(jobs):
        await journal.clock.advance("30m")
        jobs.append(jobs.pop())
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR * 3 // 2]


async def test_moving_and_sorting_is_no_edit() -> None:
    """S2: where in the array a row is does not matter to its schedule."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h"), Row(name="b", every="40m")])
    async with journal.scheduler(jobs):
        await journal.clock.advance("30m")
        jobs.move(jobs[0], 1)
        jobs.reverse()
        jobs.sort(key=lambda row: row["every"])
        await journal.clock.advance("30m")
    assert journal.ran == [("b", 40 * MINUTE), ("a", HOUR)]


EDITS: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({"every": "1h"}, {"every": "20m"}, 50 * MINUTE),
    ({"every": "1h"}, {"every": None, "at": START + DAY}, DAY),
    ({"at": START + HOUR}, {"at": START + 40 * MINUTE}, 40 * MINUTE),
    ({"at": START + HOUR}, {"at": START + 2 * HOUR}, 2 * HOUR),
    ({"cron": "0 * * * *", "tz": "UTC"}, {"cron": "15 * * * *"}, 75 * MINUTE),
    ({"cron": "0 4 * * *", "tz": "UTC"}, {"tz": "Asia/Kolkata"}, 22 * HOUR + 30 * MINUTE),
    ({"every": "1h"}, {"every": None, "cron": "50 0 * * *", "tz": "UTC"}, 50 * MINUTE),
]


@pytest.mark.parametrize(("before", "edit", "slot"), EDITS)
async def test_row_whose_schedule_changed_is_armed_from_now(
    before: dict[str, Any], edit: dict[str, Any], slot: int
) -> None:
    """S2: an edit of any of the four fields holds from now on."""
    journal = Journal()
    row = Row(before, name="a")
    async with journal.scheduler(ObservableArray([row])) as scheduler:
        await journal.clock.advance("30m")
        row.update(edit)
        assert scheduler.next_due(row) == START + slot
        await journal.clock.advance(slot - HOUR // 2)
    assert journal.slots == [slot]
    assert journal.times == [slot]


async def test_row_edited_while_it_runs() -> None:
    """S2: it is armed from now, also while it runs, and the run goes on."""
    journal = Journal()
    row = Row(name="a", every="1h", takes="10m")
    async with journal.scheduler(ObservableArray([row])):
        await journal.clock.advance("65m")
        row["every"] = "7m"
        await journal.clock.advance("20m")
    assert journal.slots == [HOUR, 72 * MINUTE]
    assert journal.skips == [("a", 79 * MINUTE)]
    assert journal.ended == [("a", 70 * MINUTE), ("a", 82 * MINUTE)]


async def test_several_edits_in_one_commit() -> None:
    """S2: a commit is taken in whole: a row that came and went never was."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h"), Row(name="b", every="1h")])
    async with journal.scheduler(jobs):
        with atomic(jobs):
            passing = Row(name="passing", at=START)
            jobs.append(passing)
            jobs.remove(passing)
            jobs.append(Row(name="c", every="1h"))
            jobs.append(jobs.pop(0))
            del jobs[0]
        await journal.clock.advance("1h")
    assert sorted(journal.ran) == [("a", HOUR), ("c", HOUR)]


async def test_commit_rolled_back_is_not_followed() -> None:
    """S2: an atomic block that raises leaves the schedule as it was."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])
    async with journal.scheduler(jobs):
        await journal.clock.advance("30m")
        with pytest.raises(ZeroDivisionError), atomic(jobs):
            jobs[0]["every"] = "5m"
            jobs.append(Row(name="b", at=START))
            raise ZeroDivisionError
        await journal.clock.advance("30m")
    assert journal.ran == [("a", HOUR)]


async def test_run_of_a_removed_row_finishes_and_writes_nothing() -> None:
    """S2: a run in flight when its row leaves goes to its end without writing back."""
    journal = Journal()
    row = Row(name="a", every="1h", takes="10m")
    jobs = ObservableArray([row])
    async with journal.scheduler(jobs):
        await journal.clock.advance("65m")
        jobs.remove(row)
        await journal.clock.advance("3h")
    assert journal.ended == [("a", 70 * MINUTE)]
    assert row["last"] == {"started": START + HOUR, "status": "running"}


async def test_only_last_is_written() -> None:
    """R1: every other field is the application's, whatever it is called."""
    fields = {"name": "a", "every": "1h", "due": 5, "status": [1], "": None, "self": "x"}
    journal = Journal()
    row = Row(fields)
    async with journal.scheduler(ObservableArray([row])):
        await journal.clock.advance("2h")
    assert dict(row) == fields | {"last": row["last"]}


async def test_run_may_edit_the_array() -> None:
    """S2: a run may edit its own row, remove it, and add others."""
    jobs = ObservableArray([Row(name="a", every="1h"), Row(name="b", every="1h")])
    journal = Journal()

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        if job["name"] == "b":
            jobs.remove(job)
        elif job["every"] == "1h":
            job["every"] = "3h"
            jobs.append(Row(name="c", every="10h"))

    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("11h")
    assert journal.ran == [
        ("a", HOUR),
        ("b", HOUR),
        ("a", 4 * HOUR),
        ("a", 7 * HOUR),
        ("a", 10 * HOUR),
        ("c", 11 * HOUR),
    ]


async def test_observer_may_edit_what_the_scheduler_writes_about() -> None:
    """S2: an observer that edits a row when its `last` changes is followed like anyone."""
    journal = Journal()
    jobs = ObservableArray([Row(name="a", every="1h")])

    def slow_down(commit: tuple[Change, ...]) -> None:
        for change in commit:
            if change.key == "last" and change.new["status"] == "ok":
                change.row["every"] = "2h"

    stop = jobs.observe(slow_down)
    async with journal.scheduler(jobs):
        await journal.clock.advance("5h")
    stop()
    assert journal.slots == [HOUR, 3 * HOUR, 5 * HOUR]


async def test_commit_costs_what_it_touches() -> None:
    """S2: an edit of one row asks nothing of the other rows."""
    planned: list[Row] = []

    def plan(row: Row) -> Trigger:
        planned.append(row)
        return plan_row(row)

    journal = Journal()
    jobs = ObservableArray([Row(every="1h") for _ in range(500)])
    async with journal.scheduler(jobs, plan=plan):
        planned.clear()
        jobs[7]["every"] = "2h"
        jobs.append(Row(every="1h"))
        assert planned == [jobs[7], jobs[-1]]
        planned.clear()
        await journal.clock.advance("1h")
        assert planned == []


async def test_edits_of_many_threads_are_followed() -> None:
    """A5: what threads edit at the same time is scheduled, all of it."""
    journal = Journal()
    jobs = ObservableArray()

    def add(number: int) -> None:
        for step in range(50):
            row = Row(name=f"{number}-{step}", every="1h")
            jobs.append(row)
            if step % 2:
                jobs.remove(row)
            else:
                row["every"] = "2h"

    async with journal.scheduler(jobs):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(anyio.to_thread.run_sync, add, number)
        await journal.clock.advance("2h")
    assert journal.slots == [2 * HOUR] * 100


EARLIER: dict[str, Callable[[ObservableArray], object]] = {
    "append": lambda jobs: jobs.append(Row(name="new", at=START)),
    "edit": lambda jobs: jobs[0].update(every=1),
    "move the instant": lambda jobs: jobs[1].update(at=START),
    "delete last": lambda jobs: jobs[2].pop("last"),
}


@pytest.mark.parametrize("edit", EARLIER.values(), ids=EARLIER)
@pytest.mark.parametrize("in_thread", [False, True], ids=["loop", "thread"])
async def test_edit_wakes_a_sleeping_scheduler(
    edit: Callable[[ObservableArray], object], in_thread: bool
) -> None:
    """S11: what is due earlier than anything before wakes it, from any thread."""
    far = 253_000_000_000_000
    jobs = ObservableArray(
        [
            Row(every="900d"),
            Row(at=far),
            Row(at=START, last={"started": START + 1, "status": "ok"}),
        ]
    )
    fired = anyio.Event()

    async def run(job: Row, context: RunContext) -> None:
        fired.set()

    async with Scheduler(jobs, run, skipped=lambda row, due: None):
        await anyio.wait_all_tasks_blocked()
        assert not fired.is_set()
        if in_thread:
            await anyio.to_thread.run_sync(edit, jobs)
        else:
            edit(jobs)
        with anyio.fail_after(10):
            await fired.wait()


async def test_edit_of_a_thread_is_taken_in_before_time_moves() -> None:
    """T2: edits made before an advance count, those of other threads too."""
    journal = Journal()
    jobs = ObservableArray()
    async with journal.scheduler(jobs):
        thread = threading.Thread(target=jobs.append, args=[Row(name="a", every="1h")])
        thread.start()
        thread.join()
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR]
