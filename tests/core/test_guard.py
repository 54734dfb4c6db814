"""Guards: what may refuse a commit before anybody is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftjobs import Change, JobsError, ObservableArray, Row, atomic


class Refused(Exception):
    pass


def guarded(*names: str) -> tuple[ObservableArray, list[tuple[Change, ...]], list[Any]]:
    """Return an array of named rows whose guard refuses what is called `no`."""
    jobs = ObservableArray([Row(name=name) for name in names])
    asked: list[tuple[Change, ...]] = []
    told: list[Any] = []

    def guard(commit: tuple[Change, ...]) -> None:
        asked.append(commit)
        for row in jobs:
            if row.get("name") == "no":
                raise Refused
        if any(change.kind == "removed" and change.row.get("keep") for change in commit):
            raise Refused

    jobs.guard(guard)
    jobs.observe(told.append)
    return jobs, asked, told


def names_of(jobs: ObservableArray) -> list[Any]:
    return [row.get("name") for row in jobs]


def test_guard_sees_the_commit_before_observers() -> None:
    """P3: it gets the same records, with the array showing the change."""
    jobs, asked, told = guarded("a")
    jobs[0]["name"] = "b"
    with atomic(jobs):
        jobs.append(Row(name="c"))
        jobs[0]["name"] = "d"
    assert asked == told
    assert [len(commit) for commit in asked] == [1, 2]


EDITS: dict[str, Any] = {
    "set": lambda jobs: jobs[0].__setitem__("name", "no"),
    "set anew": lambda jobs: jobs[2].__setitem__("name", "no"),
    "append": lambda jobs: jobs.append(Row(name="no")),
    "insert": lambda jobs: jobs.insert(1, Row(name="no")),
    "extend": lambda jobs: jobs.extend([Row(name="x"), Row(name="no")]),
    "replace": lambda jobs: jobs.__setitem__(0, Row(name="no")),
    "slice": lambda jobs: jobs.__setitem__(slice(0, 2), [Row(name="no")]),
    "remove": lambda jobs: jobs.remove(jobs[1]),
    "delete a slice": lambda jobs: jobs.__delitem__(slice(None)),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_refused_edit_has_not_happened(edit: Any) -> None:
    """P3: it is rolled back whole, nobody is told, and the error comes out of the edit."""
    jobs, _, told = guarded("a", "b")
    jobs.append(Row())
    jobs[1]["keep"] = True
    told.clear()
    before, rows = [dict(row) for row in jobs], list(jobs)
    with pytest.raises(Refused):
        edit(jobs)
    assert [dict(row) for row in jobs] == before
    assert list(jobs) == rows
    assert all(row in jobs for row in rows)
    assert told == []
    jobs[0]["name"] = "after"
    assert len(told) == 1


def test_refused_block_is_rolled_back_whole() -> None:
    """P3: of an atomic block nothing stays, and its new rows are free again."""
    jobs, _, told = guarded("a")
    fresh = Row(name="x")
    with pytest.raises(Refused), atomic(jobs):
        jobs.append(fresh)
        with atomic(jobs):
            del jobs[0]
        fresh["name"] = "no"
    assert names_of(jobs) == ["a"]
    assert told == []
    fresh["name"] = "y"
    jobs.append(fresh)
    assert names_of(jobs) == ["a", "y"]


def test_refused_deletion_of_a_field() -> None:
    """P3: the field is there again, in its place."""
    jobs = ObservableArray([Row(a=1, b=2, c=3)])

    def guard(commit: tuple[Change, ...]) -> None:
        raise Refused

    stop = jobs.guard(guard)
    with pytest.raises(Refused):
        del jobs[0]["b"]
    with pytest.raises(Refused):
        jobs.append(Row())
    with pytest.raises(Refused):
        jobs[:] = []
    assert list(jobs[0].items()) == [("a", 1), ("b", 2), ("c", 3)]
    stop()
    stop()
    del jobs[0]["b"]
    assert dict(jobs[0]) == {"a": 1, "c": 3}


def test_row_that_another_array_does_not_give_back() -> None:
    """A3: a block that is rolled back has its rows again, whatever that array's guard says."""
    first, second = ObservableArray([Row(n=1)]), ObservableArray()

    def refuse_removals(commit: tuple[Change, ...]) -> None:
        if any(change.kind == "removed" for change in commit):
            raise Refused

    def refuse(commit: tuple[Change, ...]) -> None:
        raise Refused

    second.guard(refuse_removals)
    first.guard(refuse)
    with pytest.raises(Refused), atomic(first):
        second.append(first.pop())
    assert [dict(row) for row in first] == [{"n": 1}]
    assert len(second) == 0


def test_latest_guard_is_asked_first() -> None:
    """P3: so that a store, which was there first, writes what all others have let pass."""
    jobs = ObservableArray()
    asked: list[str] = []
    jobs.guard(lambda commit: asked.append("store"))
    jobs.guard(lambda commit: asked.append("rule"))
    jobs.append(Row())
    assert asked == ["rule", "store"]


def test_nothing_changed_asks_nobody() -> None:
    """P3, A3: an equal value and an empty block are no commits."""
    jobs, asked, _ = guarded("a")
    jobs[0]["name"] = "a"
    with atomic(jobs):
        pass
    jobs.reverse()
    assert asked == []


@pytest.mark.parametrize("callback", [None, 5, "guard"])
def test_guard_has_to_be_callable(callback: Any) -> None:
    """Z3: what cannot be called is refused."""
    with pytest.raises(JobsError, match="cannot be called"):
        ObservableArray().guard(callback)


operations = st.lists(
    st.tuples(
        st.sampled_from(["append", "insert", "delete", "move", "reverse", "set", "slice"]),
        st.integers(0, 9),
        st.integers(0, 9),
        st.booleans(),
    ),
    max_size=12,
)


@given(operations)
def test_refused_and_accepted_edits_against_lists(operations: list[Any]) -> None:
    """P3: whatever was edited, a refusal leaves the array as it was before that edit."""
    jobs = ObservableArray([Row(n=number) for number in range(3)])
    refusing = False

    def guard(commit: tuple[Change, ...]) -> None:
        if refusing:
            raise Refused

    jobs.guard(guard)
    for name, first, second, refused in operations:
        refusing = refused
        before = [(row, dict(row)) for row in jobs]
        try:
            edit(jobs, name, first, second)
        except Refused:
            assert [(row, dict(row)) for row in jobs] == before
            assert [jobs.index(row) for row, _ in before] == list(range(len(before)))


def edit(jobs: ObservableArray, name: str, first: int, second: int) -> None:
    if name == "append":
        jobs.append(Row(n=first))
    elif name == "insert":
        jobs.insert(first, Row(n=second))
    elif name == "reverse":
        jobs.reverse()
    elif name == "slice":
        jobs[first:second] = [Row(n=first), Row(n=second)]
    elif len(jobs):
        row = jobs[first % len(jobs)]
        if name == "delete":
            jobs.remove(row)
        elif name == "move":
            jobs.move(row, second % len(jobs))
        else:
            row["n"] = second
