"""Rows of intervals under random edits and random time, against a model of a few lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.scheduling import START, Journal
from weftjobs import ObservableArray, Row

Step = tuple[str, int, int]

intervals = st.integers(1, 40)
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.just(0), intervals),
        st.tuples(st.just("edit"), st.integers(0, 5), intervals),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("put back"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.integers(0, 60)),
        st.tuples(st.just("jump"), st.just(0), st.integers(-50, 200)),
    ),
    max_size=25,
)


@dataclass
class Model:
    """What is due when, with time in ms since the start; `due` holds the slot and the order."""

    now: int = 0
    armed: int = 0
    every: dict[str, int] = field(default_factory=dict)
    due: dict[str, tuple[int, int]] = field(default_factory=dict)
    ran: list[tuple[str, int]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def arm(self, name: str, slot: int) -> None:
        self.armed += 1
        self.due[name] = slot, self.armed

    def plan(self, name: str, every: int) -> None:
        self.every[name] = every
        self.arm(name, self.now + every)

    def advance(self, duration: int) -> None:
        target = self.now + duration
        while self.due:
            (slot, _), name = min((due, name) for name, due in self.due.items())
            if slot > target:
                break
            self.now = max(self.now, slot)
            self.ran.append((name, slot))
            self.times.append(self.now)
            every = self.every[name]
            self.arm(name, slot + ((self.now - slot) // every + 1) * every)
        self.now = target


class Both:
    """The scheduler's array and the model, edited alike."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.jobs = ObservableArray()
        self.model = Model()
        self.names = 0

    async def step(self, kind: str, which: int, number: int) -> None:
        row = self.jobs[which % len(self.jobs)] if self.jobs else None
        if kind == "advance":
            await self.journal.clock.advance(number)
            self.model.advance(number)
        elif kind == "jump":
            self.journal.clock.jump(number)
            self.model.now += number
        elif kind == "add":
            self.names += 1
            self.jobs.append(Row(name=str(self.names), every=number))
            self.model.plan(str(self.names), number)
        elif row is not None:
            self.edit(kind, row, number)

    def edit(self, kind: str, row: Row, number: int) -> None:
        name = row["name"]
        if kind == "edit":
            row["every"] = number
            if self.model.every[name] != number:
                self.model.plan(name, number)
            return
        self.jobs.remove(row)
        del self.model.due[name]
        if kind == "put back":
            self.jobs.append(row)
            self.model.plan(name, self.model.every[name])


@settings(max_examples=60)
@given(steps)
async def test_intervals_fire_as_the_model_says(steps: list[Step]) -> None:
    """R2, S2, S4: whatever is edited, advanced and jumped, each slot comes when it should."""
    both = Both()
    async with both.journal.scheduler(both.jobs) as scheduler:
        for step in steps:
            await both.step(*step)
        await both.step("advance", 0, 45)
        told = {row["name"]: scheduler.next_due(row) for row in both.jobs}
    assert both.journal.ran == both.model.ran
    assert both.journal.times == both.model.times
    assert told == {name: START + slot for name, (slot, _) in both.model.due.items()}
