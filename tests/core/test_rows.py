from __future__ import annotations

import copy
import pickle
import sys
import tracemalloc
from collections.abc import Callable, Iterable, MutableSequence
from types import FrameType
from typing import Any

import pytest

from weftjobs import Change, JobsError, ObservableArray, Row, atomic
from weftjobs.rows import MISSING, swap

Commit = tuple[Change, ...]
Edit = Callable[[ObservableArray], object]


def commits_of(jobs: ObservableArray) -> list[Commit]:
    commits: list[Commit] = []
    jobs.observe(commits.append)
    return commits


def named(names: str) -> ObservableArray:
    return ObservableArray(Row(name=name) for name in names)


def names_of(rows: Iterable[Row]) -> str:
    return "".join(row.get("name", "-") for row in rows)


def told(commit: Commit) -> list[tuple[object, ...]]:
    """A commit in short: kind, name and index, or kind, name, index, key, old and new."""
    short: list[tuple[object, ...]] = []
    for change in commit:
        name = change.row.get("name", "-")
        if change.kind in ("inserted", "removed"):
            assert change[3:] == (None, None, None)
            short.append((change.kind, name, change.index))
        elif change.kind == "moved":
            assert (change.key, change.new) == (None, change.index)
            short.append((change.kind, name, change.old, change.new))
        else:
            short.append((change.kind, name, *change[2:]))
    return short


def refusal(edit: Callable[[], object]) -> JobsError:
    with pytest.raises(JobsError) as caught:
        edit()
    assert caught.value.reason == "invalid"
    return caught.value


def test_is_a_mutable_sequence() -> None:
    """A2: an array is read like a list."""
    jobs = named("abc")
    a, b, c = jobs
    assert isinstance(jobs, MutableSequence)
    assert (len(jobs), jobs[0], jobs[-1]) == (3, a, c)
    assert (jobs[1:], jobs[::-1], jobs[5:]) == ([b, c], [c, b, a], [])
    assert list(reversed(jobs)) == [c, b, a]
    assert (a in jobs, Row(name="a") in jobs, "a" in jobs) == (True, False, False)
    assert (jobs.count(a), jobs.count(Row()), jobs.count(5)) == (1, 0, 0)
    assert (jobs.index(c), jobs.index(c, 2), jobs.index(c, -1), jobs.index(a, 0, -2)) == (
        2,
        2,
        2,
        0,
    )
    assert (bool(jobs), bool(ObservableArray())) == (True, False)


@pytest.mark.parametrize("index", [3, -4, 10**30])
def test_index_out_of_range(index: int) -> None:
    """A2: an index that is not there is an `IndexError`, and changes nothing."""
    jobs = named("abc")
    row = jobs[0]
    commits = commits_of(jobs)
    edits: list[Callable[[], object]] = [
        lambda: jobs[index],
        lambda: jobs.pop(index),
        lambda: jobs.__delitem__(index),
        lambda: jobs.__setitem__(index, Row()),
        lambda: jobs.move(row, index),
    ]
    for edit in edits:
        with pytest.raises(IndexError):
            edit()
    assert (names_of(jobs), commits) == ("abc", [])
    with pytest.raises(IndexError):
        ObservableArray().pop()


@pytest.mark.parametrize(
    "absent", [Row(), named("a")[0], "a", None], ids=["loose", "elsewhere", "text", "None"]
)
def test_what_is_not_in_the_array(absent: Any) -> None:
    """A2: a row that is not in the array is a `ValueError`, as in a list."""
    jobs = named("abc")
    for edit in (jobs.index, jobs.remove, lambda row: jobs.move(row, 0)):
        with pytest.raises(ValueError, match="is not in the array"):
            edit(absent)
    with pytest.raises(ValueError, match="is not in the array"):
        jobs.index(jobs[0], 1)
    with pytest.raises(ValueError, match="is not in the array"):
        jobs.index(jobs[2], 0, 2)
    assert names_of(jobs) == "abc"


def test_copies_of_an_array() -> None:
    """A2: an array is pickled and deep-copied with its rows; no observer comes along."""
    jobs = named("ab")
    commits = commits_of(jobs)
    for other in (copy.deepcopy(jobs), pickle.loads(pickle.dumps(jobs))):
        assert names_of(other) == "ab"
        assert jobs[0] not in other
        other.clear()
    assert "already sits in an array" in str(refusal(lambda: copy.copy(jobs)))
    assert (names_of(jobs), commits) == ("ab", [])


def test_iterating_is_over_the_rows_of_its_beginning() -> None:
    """A5: the array may be edited while it is gone through."""
    jobs = named("abc")
    for row in jobs:
        jobs.remove(row)
    assert list(jobs) == []


def new(names: str) -> list[Row]:
    return [Row(name=name) for name in names]


# Each edit is made to an array of rows a, b, c, d.
EDITS: dict[str, tuple[Edit, str, list[tuple[object, ...]]]] = {
    "append": (lambda jobs: jobs.append(*new("x")), "abcdx", [("inserted", "x", 4)]),
    "insert": (lambda jobs: jobs.insert(1, *new("x")), "axbcd", [("inserted", "x", 1)]),
    "insert negative": (lambda jobs: jobs.insert(-1, *new("x")), "abcxd", [("inserted", "x", 3)]),
    "insert far right": (lambda jobs: jobs.insert(99, *new("x")), "abcdx", [("inserted", "x", 4)]),
    "insert far left": (lambda jobs: jobs.insert(-99, *new("x")), "xabcd", [("inserted", "x", 0)]),
    "extend": (
        lambda jobs: jobs.extend(iter(new("xy"))),
        "abcdxy",
        [("inserted", "x", 4), ("inserted", "y", 5)],
    ),
    "+=": (
        lambda jobs: jobs.__iadd__(new("xy")),
        "abcdxy",
        [("inserted", "x", 4), ("inserted", "y", 5)],
    ),
    "pop": (lambda jobs: jobs.pop(), "abc", [("removed", "d", 3)]),
    "pop index": (lambda jobs: jobs.pop(0), "bcd", [("removed", "a", 0)]),
    "pop negative": (lambda jobs: jobs.pop(-2), "abd", [("removed", "c", 2)]),
    "remove": (lambda jobs: jobs.remove(jobs[1]), "acd", [("removed", "b", 1)]),
    "del": (lambda jobs: jobs.__delitem__(2), "abd", [("removed", "c", 2)]),
    "del negative": (lambda jobs: jobs.__delitem__(-4), "bcd", [("removed", "a", 0)]),
    "del slice": (
        lambda jobs: jobs.__delitem__(slice(1, 3)),
        "ad",
        [("removed", "c", 2), ("removed", "b", 1)],
    ),
    "del step": (
        lambda jobs: jobs.__delitem__(slice(None, None, 2)),
        "bd",
        [("removed", "c", 2), ("removed", "a", 0)],
    ),
    "del backwards": (
        lambda jobs: jobs.__delitem__(slice(None, None, -3)),
        "bc",
        [("removed", "d", 3), ("removed", "a", 0)],
    ),
    "clear": (
        lambda jobs: jobs.clear(),
        "",
        [("removed", "d", 3), ("removed", "c", 2), ("removed", "b", 1), ("removed", "a", 0)],
    ),
    "set": (
        lambda jobs: jobs.__setitem__(1, *new("x")),
        "axcd",
        [("removed", "b", 1), ("inserted", "x", 1)],
    ),
    "set negative": (
        lambda jobs: jobs.__setitem__(-1, *new("x")),
        "abcx",
        [("removed", "d", 3), ("inserted", "x", 3)],
    ),
    "set slice": (
        lambda jobs: jobs.__setitem__(slice(1, 3), new("x")),
        "axd",
        [("removed", "c", 2), ("removed", "b", 1), ("inserted", "x", 1)],
    ),
    "set empty slice": (
        lambda jobs: jobs.__setitem__(slice(2, 1), new("xy")),
        "abxycd",
        [("inserted", "x", 2), ("inserted", "y", 3)],
    ),
    "set step": (
        lambda jobs: jobs.__setitem__(slice(None, None, 2), new("xy")),
        "xbyd",
        [("removed", "c", 2), ("removed", "a", 0), ("inserted", "x", 0), ("inserted", "y", 2)],
    ),
    "set backwards": (
        lambda jobs: jobs.__setitem__(slice(None, 1, -1), new("xy")),
        "abyx",
        [("removed", "d", 3), ("removed", "c", 2), ("inserted", "y", 2), ("inserted", "x", 3)],
    ),
    "set slice to some of its own": (
        lambda jobs: jobs.__setitem__(slice(None), [jobs[3], *new("x"), jobs[0]]),
        "dxa",
        [
            ("removed", "c", 2),
            ("removed", "b", 1),
            ("moved", "d", 1, 0),
            ("inserted", "x", 1),
        ],
    ),
    "set slice to another order": (
        lambda jobs: jobs.__setitem__(slice(1, None), [jobs[3], jobs[1], jobs[2]]),
        "adbc",
        [("moved", "d", 3, 1)],
    ),
    "move right": (lambda jobs: jobs.move(jobs[0], 2), "bcad", [("moved", "a", 0, 2)]),
    "move left": (lambda jobs: jobs.move(jobs[3], 1), "adbc", [("moved", "d", 3, 1)]),
    "move to the end": (lambda jobs: jobs.move(jobs[1], -1), "acdb", [("moved", "b", 1, 3)]),
    "sort": (
        lambda jobs: jobs.sort(key=lambda row: row["name"] != "c"),
        "cabd",
        [("moved", "c", 2, 0)],
    ),
    "sort backwards": (
        lambda jobs: jobs.sort(key=lambda row: row["name"] > "a", reverse=True),
        "bcda",
        [("moved", "b", 1, 0), ("moved", "c", 2, 1), ("moved", "d", 3, 2)],
    ),
    "reverse": (
        lambda jobs: jobs.reverse(),
        "dcba",
        [("moved", "d", 3, 0), ("moved", "c", 3, 1), ("moved", "b", 3, 2)],
    ),
    "field": (
        lambda jobs: jobs[1].__setitem__("n", 1),
        "abcd",
        [("set", "b", 1, "n", None, 1)],
    ),
    "field again": (
        lambda jobs: jobs[0].__setitem__("name", "x"),
        "xbcd",
        [("set", "x", 0, "name", "a", "x")],
    ),
    "field to None": (
        lambda jobs: jobs[0].__setitem__("n", None),
        "abcd",
        [("set", "a", 0, "n", None, None)],
    ),
    "delete field": (
        lambda jobs: jobs[2].__delitem__("k"),
        "abcd",
        [("deleted", "c", 2, "k", 0, None)],
    ),
    "pop field": (
        lambda jobs: jobs[2].pop("k"),
        "abcd",
        [("deleted", "c", 2, "k", 0, None)],
    ),
    "popitem": (
        lambda jobs: jobs[2].popitem(),
        "abcd",
        [("deleted", "c", 2, "k", 0, None)],
    ),
    "setdefault": (
        lambda jobs: jobs[3].setdefault("n", 2),
        "abcd",
        [("set", "d", 3, "n", None, 2)],
    ),
    "update": (
        lambda jobs: jobs[3].update({"k": 1, "m": 2}, n=3),
        "abcd",
        [("set", "d", 3, "k", 0, 1), ("set", "d", 3, "m", None, 2), ("set", "d", 3, "n", None, 3)],
    ),
    "clear fields": (
        lambda jobs: jobs[1].clear(),
        "a-cd",
        [("deleted", "-", 1, "name", "b", None), ("deleted", "-", 1, "k", 0, None)],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_edit_is_one_commit(name: str) -> None:
    """A2, A3: each edit does what it does to a list, and is told as one commit."""
    edit, names, changes = EDITS[name]
    jobs = ObservableArray(Row(name=name, k=0) for name in "abcd")
    shown: list[str] = []
    commits = commits_of(jobs)
    jobs.observe(lambda commit: shown.append(names_of(jobs)))
    edit(jobs)
    assert names_of(jobs) == names
    assert [told(commit) for commit in commits] == [changes]
    assert shown == [names]
    assert [jobs.index(row) for row in jobs] == list(range(len(jobs)))


NO_EDITS: dict[str, Edit] = {
    "extend": lambda jobs: jobs.extend([]),
    "del slice": lambda jobs: jobs.__delitem__(slice(2, 2)),
    "set itself": lambda jobs: jobs.__setitem__(1, jobs[1]),
    "set slice": lambda jobs: jobs.__setitem__(slice(None), list(jobs)),
    "set step": lambda jobs: jobs.__setitem__(slice(None, None, -2), jobs[::-2]),
    "move": lambda jobs: jobs.move(jobs[-1], 3),
    "sort": lambda jobs: jobs.sort(key=lambda row: row["name"]),
    "same value": lambda jobs: jobs[0].__setitem__("name", "a"),
    "equal value": lambda jobs: jobs[0].__setitem__("k", [*jobs[0]["k"]]),
    "update": lambda jobs: jobs[0].update(name="a"),
    "setdefault": lambda jobs: jobs[0].setdefault("name", "x"),
    "pop": lambda jobs: jobs[0].pop("x", 5),
}


@pytest.mark.parametrize("name", NO_EDITS)
def test_what_changes_nothing_is_not_told(name: str) -> None:
    """A3: nothing is delivered when nothing changed."""
    jobs = ObservableArray(Row(name=name, k=[0]) for name in "abcd")
    commits = commits_of(jobs)
    NO_EDITS[name](jobs)
    with atomic(jobs):
        NO_EDITS[name](jobs)
    assert (names_of(jobs), commits) == ("abcd", [])


def test_pop_returns_the_row() -> None:
    """A2: what is popped is the row itself, free for another array."""
    jobs = named("ab")
    a, b = jobs
    assert (jobs.pop(0), jobs.pop()) == (a, b)
    assert list(ObservableArray([b, a])) == [b, a]


@pytest.mark.parametrize(
    "edit",
    [
        lambda jobs: jobs.__setitem__(slice(None, None, 2), new("xyz")),
        lambda jobs: jobs.__setitem__(slice(None, None, -1), []),
    ],
    ids=["longer", "empty"],
)
def test_slice_of_another_size(edit: Edit) -> None:
    """A2: a slice with a step takes as many rows as it has, as in a list."""
    jobs = named("abcd")
    commits = commits_of(jobs)
    with pytest.raises(ValueError, match="size"):
        edit(jobs)
    assert (names_of(jobs), commits) == ("abcd", [])


class Equal:
    """Equal to anything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<equal>"


class Odd:
    """Equal to nothing: comparing it raises, as comparing arrays of numbers does."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<odd>"


INTO: dict[str, Callable[[ObservableArray, Any], object]] = {
    "append": lambda jobs, row: jobs.append(row),
    "insert": lambda jobs, row: jobs.insert(0, row),
    "extend": lambda jobs, row: jobs.extend([Row(), row, Row()]),
    "set": lambda jobs, row: jobs.__setitem__(0, row),
    "set slice": lambda jobs, row: jobs.__setitem__(slice(1, 3), [Row(), row]),
    "set step": lambda jobs, row: jobs.__setitem__(slice(None, 3, 2), [Row(), row]),
    "set slice of some": lambda jobs, row: jobs.__setitem__(slice(0, 2), [jobs[1], row]),
}

each_way_in = pytest.mark.parametrize("name", INTO)


@each_way_in
@pytest.mark.parametrize(
    "bad",
    [None, 5, "a", {"every": 5}, [Row()], Row, ObservableArray(), Equal(), Odd()],
    ids=["None", "number", "text", "dict", "list", "class", "array", "equal", "odd"],
)
def test_refuses_what_is_no_row(name: str, bad: object) -> None:
    """A2, Z3: only rows come in; a refusal leaves everything as it was."""
    jobs = named("abcd")
    commits = commits_of(jobs)
    message = str(refusal(lambda: INTO[name](jobs, bad)))
    assert message.startswith("row: ")
    assert message.endswith(" is not a Row")
    assert (names_of(jobs), commits) == ("abcd", [])


@each_way_in
@pytest.mark.parametrize("elsewhere", [False, True])
def test_refuses_a_row_of_an_array(name: str, elsewhere: bool) -> None:
    """A2: a row sits in one array, once; a refusal leaves everything as it was."""
    jobs = named("abcd")
    row = named("x")[0] if elsewhere else jobs[3]
    commits = commits_of(jobs)
    error = refusal(lambda: INTO[name](jobs, row))
    assert str(error) == f"row: {row!r} already sits in an array"
    assert (names_of(jobs), commits, jobs.index(jobs[3])) == ("abcd", [], 3)


@pytest.mark.parametrize(
    "edit",
    [
        lambda jobs, row: jobs.extend([row, row]),
        lambda jobs, row: jobs.__setitem__(slice(0, 1), [row, Row(), row]),
        lambda jobs, row: jobs.__setitem__(slice(None, None, 3), [row, row]),
        lambda jobs, row: jobs.__setitem__(slice(0, 2), [jobs[0], row, jobs[0]]),
        lambda jobs, row: ObservableArray([row, row]),
        lambda jobs, row: jobs.extend([row, jobs[0]]),
        lambda jobs, row: jobs.extend([row, 5]),
    ],
    ids=["twice", "slice", "step", "kept twice", "new array", "beside a member", "beside none"],
)
def test_refused_rows_stay_free(edit: Callable[[ObservableArray, Row], object]) -> None:
    """A2: a row given twice, or beside a bad one, is left as free as it was."""
    jobs = named("abcd")
    commits = commits_of(jobs)
    row = Row(name="x")
    refusal(lambda: edit(jobs, row))
    assert (names_of(jobs), commits) == ("abcd", [])
    jobs.append(row)
    assert names_of(jobs) == "abcdx"


@pytest.mark.parametrize("bad", [None, 5, 2.5, Row], ids=repr)
def test_refuses_what_is_no_list(bad: Any) -> None:
    """A2, Z3: what cannot be gone through is no list of rows."""
    jobs = named("abcd")
    for edit in (ObservableArray, jobs.extend, lambda rows: jobs.__setitem__(slice(2), rows)):
        message = str(refusal(lambda edit=edit: edit(bad)))  # type: ignore[misc]
        assert message.startswith("rows: ")
        assert message.endswith(" is not a list of rows")
    assert names_of(jobs) == "abcd"


def test_rows_that_raise_on_the_way() -> None:
    """A2: an iterable that raises half-way leaves everything as it was."""
    jobs = named("ab")
    row = Row()

    def rows() -> Iterable[Row]:
        yield row
        raise ZeroDivisionError

    for edit in (jobs.extend, lambda rows: jobs.__setitem__(slice(None), rows)):
        with pytest.raises(ZeroDivisionError):
            edit(rows())
    jobs.append(row)
    assert len(jobs) == 3


def test_sort_key_that_raises() -> None:
    """A2: a sort that fails leaves the order as it was."""
    jobs = named("ba")
    commits = commits_of(jobs)
    with pytest.raises(KeyError):
        jobs.sort(key=lambda row: row["missing"])
    assert (names_of(jobs), commits) == ("ba", [])


def test_sort_is_stable() -> None:
    """A2: rows that compare equal keep their order, in reverse too."""
    jobs = named("abcdef")
    jobs.sort(key=lambda row: row["name"] in "bdf")
    assert names_of(jobs) == "acebdf"
    jobs.sort(key=lambda row: row["name"] in "bdf", reverse=True)
    assert names_of(jobs) == "bdface"


def test_swap() -> None:
    """A5: a value is replaced in one step, if it is still the one that was seen."""
    jobs = named("a")
    row = jobs[0]
    commits = commits_of(jobs)
    assert not swap(jobs, row, "name", MISSING, "b")
    assert not swap(named("b"), row, "name", row["name"], "b")
    assert not swap(jobs, row, "n", None, 1)
    assert swap(jobs, row, "n", MISSING, 1)
    assert swap(jobs, row, "n", row["n"], 2)
    assert swap(jobs, row, "n", row["n"], MISSING)
    assert swap(jobs, row, "n", MISSING, MISSING)
    assert [told(commit) for commit in commits] == [
        [("set", "a", 0, "n", None, 1)],
        [("set", "a", 0, "n", 1, 2)],
        [("deleted", "a", 0, "n", 2, None)],
    ]


def work_of(edit: Callable[[], object]) -> tuple[int, list[str], int]:
    """The lines run, the built-in functions called and the bytes taken by an edit."""
    lines: list[int] = []
    calls: list[str] = []

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        lines.append(frame.f_lineno)
        return trace

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            calls.append(argument.__name__)

    tracer, profiler = sys.gettrace(), sys.getprofile()
    tracemalloc.start()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        edit()
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return len(lines), calls, peak


@pytest.mark.parametrize(
    "edit",
    [
        lambda jobs, row: jobs.append(Row(every=5)),
        lambda jobs, row: row.__setitem__("every", 6),
        lambda jobs, row: row.__delitem__("every"),
        lambda jobs, row: row.get("every"),
        lambda jobs, row: jobs.index(row),
        lambda jobs, row: jobs.pop(),
    ],
    ids=["append", "set", "delete", "get", "index", "pop"],
)
def test_work_does_not_grow(edit: Callable[[ObservableArray, Row], object]) -> None:
    """A7: the steps and the memory of an edit are the same at 1,000 and at 100,000 rows."""

    def work(length: int) -> tuple[int, list[str], int]:
        jobs = ObservableArray(Row(every=5) for _ in range(length))
        jobs.append(Row())  # makes the list grow, so that the next one finds room
        commits_of(jobs)
        row = jobs[length // 2]
        return work_of(lambda: edit(jobs, row))

    work(10)  # tracing itself takes memory the first time
    (lines, calls, taken), (more_lines, more_calls, more_taken) = work(1_000), work(100_000)
    assert (more_lines, more_calls) == (lines, calls)
    assert max(taken, more_taken) < 20_000


@pytest.mark.parametrize(
    "edit",
    [
        lambda jobs: jobs.append(Row()),
        lambda jobs: jobs.pop(),
        lambda jobs: jobs.insert(0, Row()),
        lambda jobs: jobs.pop(0),
        lambda jobs: jobs.__setitem__(slice(0, 10), [Row(), Row()]),
        lambda jobs: jobs.__setitem__(slice(10, 0), [Row(), Row()]),
        lambda jobs: jobs.__setitem__(slice(-10, None), [Row()]),
        lambda jobs: jobs.move(jobs[0], 10),
        lambda jobs: jobs.reverse(),
    ],
    ids=["append", "pop", "insert", "shift", "shrink", "grow", "end", "move", "reverse"],
)
def test_rows_are_not_searched_for(edit: Edit) -> None:
    """A7: a queue's edits, at either end, leave the place of the other rows known."""
    jobs = ObservableArray(Row() for _ in range(1_000))
    for _ in range(20):
        edit(jobs)
    row = jobs[len(jobs) // 2]
    _, calls, _ = work_of(lambda: jobs.index(row))
    assert "index" not in calls
    assert "isqrt" not in calls


def test_a_row_costs_hundreds_of_bytes() -> None:
    """A7: a row with three fields, in an array that is observed, takes less than 500 bytes."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        jobs = ObservableArray()
        jobs.observe(lambda commit: None)
        for number in range(5_000):
            jobs.append(Row(name="digest", every=number, tz="UTC"))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(jobs) < 500
