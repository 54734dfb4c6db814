"""Planners and triggers, those that keep the rules and those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import (
    At,
    Every,
    InvalidScheduleError,
    ObservableArray,
    Row,
    Scheduler,
    Trigger,
    pausable,
    plan_row,
)


@dataclass(frozen=True)
class Scripted:
    """A trigger that answers what it is told to."""

    first_answer: Callable[[int], Any]
    after_answer: Callable[[int, int], Any] = lambda previous, now: None

    def first(self, now: int, /) -> int | None:
        answer: int | None = self.first_answer(now)
        return answer

    def after(self, previous: int, now: int, /) -> int | None:
        answer: int | None = self.after_answer(previous, now)
        return answer


def plan_field(row: Row) -> Trigger | None:
    """Take what `trigger` holds for the trigger, and plan other rows as usual."""
    trigger: Trigger | None = row["trigger"] if "trigger" in row else plan_row(row)
    return trigger


def fail(*_: int) -> int:
    raise ZeroDivisionError("the trigger is broken")


async def test_equal_trigger_is_not_an_edit() -> None:
    """R4: a change that leads to an equal trigger does not re-arm."""
    journal = Journal()
    row = Row(name="a", every="1h")
    async with journal.scheduler(ObservableArray([row])) as scheduler:
        await journal.clock.advance("30m")
        row["every"] = HOUR
        row["every"] = "60m"
        row["tz"] = "UTC"
        row["owner"] = "me"
        assert scheduler.next_due(row) == START + HOUR
        await journal.clock.advance("30m")
    assert journal.slots == [HOUR]


async def test_another_trigger_is_armed_from_now() -> None:
    """R4: a change that leads to another trigger re-arms."""
    journal = Journal()
    row = Row(name="a", every="1h")
    async with journal.scheduler(ObservableArray([row])):
        await journal.clock.advance("30m")
        row["every"] = "2h"
        await journal.clock.advance("5h")
    assert journal.slots == [HOUR * 5 // 2, HOUR * 9 // 2]


async def test_there_and_back_in_one_commit_is_an_edit_of_nothing() -> None:
    """R4: within a commit only the state in the end counts."""
    journal = Journal()
    row = Row(name="a", every="1h")
    jobs = ObservableArray([row])
    async with journal.scheduler(jobs):
        await journal.clock.advance("30m")
        row.update(every="2h")
        row.update(every="1h")
        await journal.clock.advance("45m")
        assert journal.slots == []
        await journal.clock.advance("15m")
    assert journal.slots == [HOUR * 3 // 2]


async def test_planner_of_ones_own() -> None:
    """R4: `plan` reads the rows its own way, and may leave a row out without a word."""

    def plan(row: Row) -> Trigger | None:
        return None if row["minutes"] is None else Every(row["minutes"] * MINUTE)

    journal = Journal()
    jobs = ObservableArray([Row(name="a", minutes=20), Row(name="b", minutes=None)])
    async with journal.scheduler(jobs, plan=plan) as scheduler:
        await journal.clock.advance("30m")
        assert scheduler.next_due(jobs[1]) is None
        jobs[1]["minutes"] = 25
        jobs[0]["minutes"] = None
        await journal.clock.advance("30m")
    assert journal.ran == [("a", 20 * MINUTE), ("b", 55 * MINUTE)]
    assert journal.failures == []


@pytest.mark.parametrize(
    "error", [InvalidScheduleError("plan: no tariff", fix="Name one."), KeyError("tariff")]
)
async def test_planner_that_raises_is_reported_as_it_raised(error: Exception) -> None:
    """R4: what the planner raises is reported once for that row; the others run."""

    def plan(row: Row) -> Trigger:
        if row["name"] == "bad":
            raise error
        return plan_row(row)

    journal = Journal()
    jobs = ObservableArray([Row(name="bad", every="1h"), Row(name="good", every="1h")])
    async with journal.scheduler(jobs, plan=plan):
        await journal.clock.advance("1h")
        jobs[0]["owner"] = "me"
        await journal.clock.advance(0)
    assert journal.failures == [("bad", error)]
    assert journal.ran == [("good", HOUR)]


@pytest.mark.parametrize("answer", [42, "1h", object(), True, ()])
async def test_planner_that_answers_no_trigger(answer: object) -> None:
    """R4: a planner that answers with something else is reported as invalid."""
    journal = Journal()
    jobs = ObservableArray([Row(name="bad", trigger=answer), Row(name="good", every="1h")])
    async with journal.scheduler(jobs, plan=plan_field):
        await journal.clock.advance("1h")
    assert journal.reasons == [("bad", "invalid")]
    assert journal.ran == [("good", HOUR)]


NONSENSE = [
    pytest.param("soon", id="text"),
    pytest.param(float(START + 2 * HOUR), id="float"),
    pytest.param(True, id="bool"),
    pytest.param(10**30, id="past the calendar"),
    pytest.param(-(10**30), id="before the calendar"),
]


@pytest.mark.parametrize("answer", NONSENSE)
async def test_first_that_answers_nonsense(answer: Any) -> None:
    """R4: a first slot that is no instant is reported for that row alone."""
    journal = Journal()
    bad = Row(name="bad", trigger=Scripted(lambda now: answer))
    jobs = ObservableArray([bad, Row(name="good", every="1h")])
    async with journal.scheduler(jobs, plan=plan_field) as scheduler:
        assert scheduler.next_due(bad) is None
        await journal.clock.advance("2h")
    assert journal.reasons == [("bad", "invalid")]
    assert journal.ran == [("good", HOUR), ("good", 2 * HOUR)]


@pytest.mark.parametrize(
    "answer",
    [
        *NONSENSE,
        pytest.param(START + HOUR, id="the previous slot"),
        pytest.param(START, id="an earlier slot"),
    ],
)
async def test_after_that_answers_nonsense(answer: Any) -> None:
    """R4: the slot runs, and a following one not past it is reported for that row alone."""
    journal = Journal()
    trigger = Scripted(lambda now: START + HOUR, lambda previous, now: answer)
    jobs = ObservableArray([Row(name="bad", trigger=trigger), Row(name="good", every="1h")])
    async with journal.scheduler(jobs, plan=plan_field) as scheduler:
        await journal.clock.advance("2h")
        assert scheduler.next_due(jobs[0]) is None
    assert journal.reasons == [("bad", "invalid")]
    assert sorted(journal.ran) == [("bad", HOUR), ("good", HOUR), ("good", 2 * HOUR)]


@pytest.mark.parametrize(
    ("trigger", "slots"),
    [(Scripted(fail), []), (Scripted(lambda now: START + HOUR, fail), [HOUR])],
    ids=["first", "after"],
)
async def test_trigger_that_raises(trigger: Trigger, slots: list[int]) -> None:
    """R4: it is reported for that row alone, and the row is scheduled again when fixed."""
    journal = Journal()
    bad = Row(name="bad", trigger=trigger)
    async with journal.scheduler(
        ObservableArray([bad, Row(name="good", every="1h")]), plan=plan_field
    ):
        await journal.clock.advance("90m")
        assert [(name, type(error)) for name, error in journal.failures] == [
            ("bad", ZeroDivisionError)
        ]
        bad["trigger"] = Every("1h")
        await journal.clock.advance("90m")
    assert [due for name, due in journal.ran if name == "bad"] == [*slots, HOUR * 5 // 2]
    assert [due for name, due in journal.ran if name == "good"] == [HOUR, 2 * HOUR, 3 * HOUR]
    assert len(journal.failures) == 1


async def test_trigger_that_raises_while_its_row_runs() -> None:
    """R4: a trigger asked about a slot that came during a run may raise like any other."""
    journal = Journal()
    trigger = Scripted(lambda now: START + HOUR if now < START + HOUR else fail())
    bad = Row(name="bad", trigger=trigger, takes="1h")
    async with journal.scheduler(
        ObservableArray([bad, Row(name="good", every="1h")]), plan=plan_field
    ) as scheduler:
        await journal.clock.advance("30m")
        scheduler.run_now(bad)
        await journal.clock.advance("150m")
    assert [due for name, due in journal.ran if name == "good"] == [HOUR, 2 * HOUR, 3 * HOUR]


async def test_after_that_raises_while_its_row_runs() -> None:
    """R4: the slot is skipped, and the trigger is reported once."""
    journal = Journal()
    bad = Row(name="bad", trigger=Scripted(lambda now: START + HOUR, fail), takes="1h")
    async with journal.scheduler(ObservableArray([bad]), plan=plan_field) as scheduler:
        await journal.clock.advance("30m")
        scheduler.run_now(bad)
        await journal.clock.advance("150m")
        assert scheduler.next_due(bad) is None
    assert [type(error) for _, error in journal.failures] == [ZeroDivisionError]
    assert journal.slots in ([HOUR // 2], [HOUR // 2, HOUR])


class Incomparable:
    """A trigger that cannot be compared."""

    def first(self, now: int, /) -> int | None:
        return now + HOUR

    def after(self, previous: int, now: int, /) -> int | None:
        return now + HOUR

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("the trigger is broken")

    def __hash__(self) -> int:
        return 0


async def test_trigger_that_cannot_be_compared() -> None:
    """R4: it is reported for its row; whoever edits the row hears nothing of it."""
    journal = Journal()
    bad = Row(name="bad", trigger=Incomparable())
    async with journal.scheduler(
        ObservableArray([bad, Row(name="good", every="1h")]), plan=plan_field
    ):
        await journal.clock.advance("30m")
        bad["trigger"] = Incomparable()
        await journal.clock.advance("30m")
    assert ("good", HOUR) in journal.ran
    assert {name for name, _ in journal.failures} == {"bad"}


async def test_trigger_that_ends() -> None:
    """R4: a trigger that answers `None` is over, and nothing is reported."""
    journal = Journal()
    trigger = Scripted(
        lambda now: START + HOUR,
        lambda previous, now: previous + HOUR if previous < START + 3 * HOUR else None,
    )
    row = Row(name="a", trigger=trigger)
    never = Row(name="never", trigger=Scripted(lambda now: None))
    async with journal.scheduler(ObservableArray([row, never]), plan=plan_field) as scheduler:
        await journal.clock.advance("1d")
        assert scheduler.next_due(row) is None
        assert scheduler.next_due(never) is None
    assert journal.slots == [HOUR, 2 * HOUR, 3 * HOUR]
    assert journal.failures == []


async def test_intervals_on_the_grid_of_the_clock() -> None:
    """R4: with an origin, processes that start at different times share one grid."""
    journal = Journal()
    await journal.clock.advance("7m")
    jobs = ObservableArray([Row(name="a", every="15m")])
    async with journal.scheduler(jobs, plan=partial(plan_row, origin=0)):
        await journal.clock.advance("30m")
    assert journal.slots == [15 * MINUTE, 30 * MINUTE]


async def test_paused_rows() -> None:
    """R4: `pausable` leaves a row with a true `paused` out; unpaused it is armed from now."""
    journal = Journal()
    row = Row(name="a", every="1h", paused=True)
    async with journal.scheduler(ObservableArray([row]), plan=pausable(plan_row)) as scheduler:
        await journal.clock.advance("90m")
        assert scheduler.next_due(row) is None
        row["paused"] = False
        await journal.clock.advance("1h")
        row["paused"] = True
        await journal.clock.advance("3h")
        del row["paused"]
        await journal.clock.advance("1h")
    assert journal.slots == [HOUR * 5 // 2, HOUR * 13 // 2]
    assert journal.failures == []


async def test_triggers_of_the_library_are_triggers_for_a_planner() -> None:
    """R4: `At` and `Every` are what a planner returns."""
    journal = Journal()
    jobs = ObservableArray(
        [
            Row(name="once", trigger=At(START + HOUR)),
            Row(name="grid", trigger=Every("1h", origin=START - HOUR // 2)),
        ]
    )
    async with journal.scheduler(jobs, plan=plan_field):
        await journal.clock.advance("2h")
    assert journal.ran == [("grid", HOUR // 2), ("once", HOUR), ("grid", HOUR * 3 // 2)]


async def test_trigger_that_removes_its_own_row() -> None:
    """R4: what a trigger does to the array when it is asked leaves nothing armed behind."""
    journal = Journal()
    other = Row(name="other", every="1h")

    class Leaving(Every):
        def after(self, previous: int, now: int, /) -> int | None:
            jobs.remove(leaving)
            return Every.after(self, previous, now)

    def plan(row: Row) -> Trigger:
        return Leaving("1h") if row is leaving else plan_row(row)

    leaving = Row(name="leaving", every="1h")
    jobs = ObservableArray([leaving, other])
    async with Scheduler(jobs, journal.run, plan=plan, clock=journal.clock) as scheduler:
        await journal.clock.advance("3h")
        assert scheduler.next_due(leaving) is None
    assert [name for name, _ in journal.ran] == ["other"] * 3
