"""Random programs of edits, on an array and on plain lists and dicts side by side."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weftjobs import Change, JobsError, ObservableArray, Row, atomic

Program: TypeAlias = list[tuple[Any, ...]]

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from([0, 1, True, 1.0, None, "x", [1]])
FIELDS = st.dictionaries(KEYS, VALUES, max_size=3)
NEW_ROWS = st.lists(FIELDS, max_size=3)
INDEX = st.integers(-12, 12)
SLICES = st.builds(
    slice, st.none() | INDEX, st.none() | INDEX, st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
)

EDITS = st.one_of(
    st.tuples(st.just("append"), FIELDS),
    st.tuples(st.just("insert"), INDEX, FIELDS),
    st.tuples(st.just("extend"), NEW_ROWS),
    st.tuples(st.just("put_back"), INDEX, INDEX),
    st.tuples(st.just("pop"), INDEX),
    st.tuples(st.just("remove"), INDEX),
    st.tuples(st.just("delete"), SLICES),
    st.tuples(st.just("assign"), SLICES, NEW_ROWS, st.integers(0, 99)),
    st.tuples(st.just("replace"), INDEX, FIELDS),
    st.tuples(st.just("move"), INDEX, INDEX),
    st.tuples(st.just("sort"), st.booleans()),
    st.tuples(st.just("reverse")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("refused"), INDEX),
    st.tuples(st.just("set"), INDEX, KEYS, VALUES),
    st.tuples(st.just("unset"), INDEX, KEYS),
    st.tuples(st.just("update"), INDEX, FIELDS),
    st.tuples(st.just("clear_fields"), INDEX),
    st.tuples(st.just("edit_removed"), INDEX, KEYS, VALUES),
)


def programs(depth: int) -> st.SearchStrategy[Program]:
    if not depth:
        return st.lists(EDITS, min_size=2, max_size=8)
    block = st.tuples(st.just("block"), programs(depth - 1), st.booleans())
    edits = st.builds(tuple, EDITS)  # else a block would be as rare as each of them
    return st.lists(st.one_of(edits, edits, block), min_size=3, max_size=8)


class FailedError(Exception):
    pass


class Mirror:
    """Rows and fields made up from what an observer is told, and from nothing else."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.rows: list[Row] = []
        self.fields: dict[Row, dict[str, Any]] = {}
        self.commits = 0

    def follow(self, commit: tuple[Change, ...]) -> None:
        self.commits += 1
        for change in commit:
            assert change.index >= 0
            getattr(self, change.kind)(change)
        assert self.rows == list(self.model.jobs)
        assert self.shown() == shown(self.rows, {row: dict(row.items()) for row in self.rows})

    def shown(self) -> list[object]:
        return shown(self.rows, self.fields)

    def inserted(self, change: Change) -> None:
        assert change.index <= len(self.rows)
        assert change.row not in self.rows
        self.rows.insert(change.index, change.row)
        self.fields[change.row] = self.model.came_with[change.row].pop(0)

    def removed(self, change: Change) -> None:
        assert self.rows.pop(change.index) is change.row

    def moved(self, change: Change) -> None:
        assert change.index == change.new != change.old
        assert self.rows.pop(change.old) is change.row
        self.rows.insert(change.new, change.row)

    def set(self, change: Change) -> None:
        assert self.rows[change.index] is change.row
        fields = self.fields[change.row]
        assert fields.get(str(change.key)) is change.old
        fields[str(change.key)] = change.new

    def deleted(self, change: Change) -> None:
        assert self.rows[change.index] is change.row
        assert self.fields[change.row].pop(str(change.key)) is change.old


class Model:
    """An array, and what it should hold: each edit is made to both."""

    def __init__(self) -> None:
        self.jobs = ObservableArray()
        self.rows: list[Row] = []
        self.fields: dict[Row, dict[str, Any]] = {}
        self.removed: list[Row] = []
        self.came_with: dict[Row, list[dict[str, Any]]] = {}
        self.saved: list[dict[Row, dict[str, Any]]] = []
        self.mirror = Mirror(self)
        self.jobs.observe(self.mirror.follow)

    def run(self, program: Program) -> bool:
        """Run a program, and return whether it changed anything."""
        changed = False
        for name, *arguments in program:
            before = self.mirror.commits
            did = getattr(self, name)(*arguments)
            changed |= did
            told = self.mirror.commits - before
            assert told == (did and not self.saved), (name, arguments)
            self.check()
        return changed

    def check(self) -> None:
        assert list(self.jobs) == self.rows
        assert [self.jobs.index(row) for row in self.rows] == list(range(len(self.rows)))
        assert shown(self.rows, self.fields) == [
            (row, list(map(typed, row.items()))) for row in self.jobs
        ]
        assert [row in self.jobs for row in self.removed] == [False] * len(self.removed)
        if not self.saved:
            assert self.mirror.shown() == shown(self.rows, self.fields)

    # The edits; each returns whether it changed anything

    def block(self, program: Program, fails: bool) -> bool:
        rows, removed = self.rows.copy(), self.removed.copy()
        came_with = {row: known.copy() for row, known in self.came_with.items()}
        self.saved.append({row: self.fields[row].copy() for row in rows})
        try:
            with atomic(self.jobs):
                changed = self.run(program)
                if fails:
                    raise FailedError
        except FailedError:
            self.rows, self.removed, self.came_with = rows, removed, came_with
            for row, fields in self.saved[-1].items():
                self.fields[row] = fields
            changed = False
        finally:
            saved = self.saved.pop()
        if self.saved and not fails:
            for row in saved:
                self.saved[-1].setdefault(row, saved[row])
        return changed

    def append(self, fields: dict[str, Any]) -> bool:
        (row,) = self.made([fields])
        self.jobs.append(row)
        self.rows.append(row)
        return True

    def insert(self, index: int, fields: dict[str, Any]) -> bool:
        (row,) = self.made([fields])
        self.jobs.insert(index, row)
        self.rows.insert(index, row)
        return True

    def extend(self, several: list[dict[str, Any]]) -> bool:
        rows = self.made(several)
        self.jobs.extend(rows)
        self.rows.extend(rows)
        return bool(rows)

    def put_back(self, which: int, index: int) -> bool:
        if not self.removed:
            return False
        row = self.removed.pop(which % len(self.removed))
        self.came(row)
        self.jobs.insert(index, row)
        self.rows.insert(index, row)
        return True

    def pop(self, index: int) -> bool:
        if self.out_of_range(index, lambda: self.jobs.pop(index)):
            return False
        row = self.jobs.pop(index)
        assert row is self.rows.pop(index)
        self.removed.append(row)
        return True

    def remove(self, index: int) -> bool:
        if not self.rows:
            return False
        row = self.rows.pop(index % len(self.rows))
        self.jobs.remove(row)
        self.removed.append(row)
        return True

    def delete(self, where: slice) -> bool:
        gone = self.rows[where]
        del self.jobs[where]
        del self.rows[where]
        self.removed += gone
        return bool(gone)

    def assign(self, where: slice, several: list[dict[str, Any]], seed: int) -> bool:
        """Replace a slice by some of its rows and some new ones, in any order."""
        random, old = Random(seed), self.rows[where]
        rows = [row for row in old if random.random() < 0.8]
        stepped = where.step not in (None, 1)
        new = self.made([{}] * (len(old) - len(rows)) if stepped else several)
        rows += new
        if random.random() < 0.7:
            random.shuffle(rows)
        before = self.rows.copy()
        self.rows[where] = rows
        self.jobs[where] = rows
        self.removed += [row for row in old if row not in rows]
        return self.rows != before

    def replace(self, index: int, fields: dict[str, Any]) -> bool:
        if self.out_of_range(index, lambda: self.jobs.__setitem__(index, Row())):
            return False
        (row,) = self.made([fields])
        self.jobs[index] = row
        self.removed.append(self.rows[index])
        self.rows[index] = row
        return True

    def move(self, which: int, index: int) -> bool:
        if not self.rows:
            return False
        row = self.rows[which % len(self.rows)]
        if self.out_of_range(index, lambda: self.jobs.move(row, index)):
            return False
        self.jobs.move(row, index)
        before = self.rows.copy()
        self.rows.remove(row)
        self.rows.insert(range(len(before))[index], row)
        return self.rows != before

    def sort(self, reverse: bool) -> bool:
        before = self.rows.copy()
        self.rows.sort(key=lambda row: repr(self.fields[row]), reverse=reverse)
        self.jobs.sort(key=lambda row: repr(dict(row.items())), reverse=reverse)
        return self.rows != before

    def reverse(self) -> bool:
        self.jobs.reverse()
        self.rows.reverse()
        return len(self.rows) > 1

    def clear(self) -> bool:
        return self.delete(slice(None))

    def refused(self, index: int) -> bool:
        bad = self.rows[index % len(self.rows)] if self.rows else Row
        with pytest.raises(JobsError):
            self.jobs.extend([Row(), bad])  # type: ignore[list-item]
        with pytest.raises(JobsError):
            self.jobs[:0] = [Row(), bad]  # type: ignore[list-item]
        return False

    def set(self, index: int, key: str, value: Any) -> bool:
        return self.update(index, {key: value})

    def update(self, index: int, values: dict[str, Any]) -> bool:
        if not self.rows:
            return False
        row = self.rows[index % len(self.rows)]
        before = self.fields[row].copy()
        row.update(values)
        for key, value in values.items():
            if key not in before or typed((key, before[key])) != typed((key, value)):
                self.fields[row][key] = value
        return list(map(typed, before.items())) != list(map(typed, self.fields[row].items()))

    def unset(self, index: int, key: str) -> bool:
        if not self.rows:
            return False
        row = self.rows[index % len(self.rows)]
        had = key in self.fields[row]
        if had:
            del row[key]
            del self.fields[row][key]
        else:
            with pytest.raises(KeyError):
                del row[key]
        return had

    def clear_fields(self, index: int) -> bool:
        if not self.rows:
            return False
        row = self.rows[index % len(self.rows)]
        row.clear()
        had = bool(self.fields[row])
        self.fields[row] = {}
        return had

    def edit_removed(self, index: int, key: str, value: Any) -> bool:
        """Edit a row that is in no array: nobody is told."""
        if self.removed:
            row = self.removed[index % len(self.removed)]
            row[key] = self.fields[row][key] = value
        return False

    def out_of_range(self, index: int, edit: Callable[[], object]) -> bool:
        if index in range(-len(self.rows), len(self.rows)):
            return False
        with pytest.raises(IndexError):
            edit()
        return True

    # What the mirror needs to know, and what a block that fails brings back

    def made(self, several: list[dict[str, Any]]) -> list[Row]:
        return [self.known(Row(fields)) for fields in several]

    def known(self, row: Row) -> Row:
        self.fields[row] = dict(row.items())
        self.came(row)
        return row

    def came(self, row: Row) -> None:
        self.came_with.setdefault(row, []).append(self.fields[row].copy())
        if self.saved:
            self.saved[-1].setdefault(row, self.fields[row].copy())


def typed(item: tuple[str, Any]) -> tuple[str, str, Any]:
    key, value = item
    return key, type(value).__name__, value


def shown(rows: list[Row], fields: dict[Row, dict[str, Any]]) -> list[object]:
    return [(row, list(map(typed, fields[row].items()))) for row in rows]


@settings(max_examples=150)
@given(programs(depth=2))
def test_does_what_lists_and_dicts_do(program: Program) -> None:
    """A2, A3: the array agrees with a list after every edit, and so does who follows it.

    An observer that applies the changes one after another to a list of its own ends with
    the rows, the order and the fields of the array, whatever was nested and rolled back.
    """
    model = Model()
    model.extend([{"a": number} for number in range(5)])
    model.run(program)


@pytest.mark.parametrize("spread", [1, 40, 1_000], ids=["middle", "near", "anywhere"])
@pytest.mark.parametrize("seed", range(3))
def test_finds_rows_after_many_edits(spread: int, seed: int) -> None:
    """A2, A7: many insertions and removals in between do not lose a row's place."""
    random = Random(seed)
    jobs = ObservableArray(Row() for _ in range(1_000))
    rows = list(jobs)
    told: list[int] = []
    jobs.observe(lambda commit: told.append(commit[0].index))
    for number in range(3_000):
        index = (len(rows) + random.randrange(-spread, spread)) // 2 % len(rows)
        if random.random() < 0.5:
            rows.insert(index, row := Row())
            jobs.insert(index, row)
        else:
            jobs.remove(rows.pop(index))
        assert told.pop() == index
        if number % 50 == 0:
            index = random.randrange(len(rows))
            rows[index]["n"] = number
            assert told.pop() == index
    assert [jobs.index(row) for row in rows] == list(range(len(rows)))
