"""The observable array of rows: every edit is a commit that its observers are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence
from contextlib import AbstractContextManager
from functools import partial
from operator import index as as_index
from typing import Any, Literal, NamedTuple, Protocol, SupportsIndex, overload

from weftjobs._commits import Commits, Subscription, raise_all
from weftjobs._places import Places, moves
from weftjobs._row import MISSING, Row, already_in_array, check_row, loose
from weftjobs.errors import JobsError, shown

__all__ = ["MISSING", "Change", "ObservableArray", "Row", "atomic", "check_array", "swap"]

Kind = Literal["inserted", "removed", "moved", "set", "deleted"]


class Change(NamedTuple):
    """One step of a commit, told as it happened.

    Attributes:
        kind: `inserted`, `removed` or `moved` for the array; `set` or `deleted` for a field.
        row: The row it happened to.
        index: Where the row is (after an insertion, a move or an edit) or was (before a
            removal), counted as if the changes of the commit were applied one by one.
        key: The field, for `set` and `deleted`.
        old: The value before, `None` when there was none; for `moved` the index before.
        new: The value after; for `moved` the index after.
    """

    kind: Kind
    row: Row
    index: int  # type: ignore[assignment]
    key: str | None = None
    old: Any = None
    new: Any = None


_change: Callable[[tuple[Any, ...]], Change] = partial(tuple.__new__, Change)
"""Makes a change of all six values, in a third less time than calling the class does."""

Observer = Callable[[tuple[Change, ...]], object]
Subscriptions = tuple[Subscription[Change], ...]


class Recorder(Protocol):
    """Keeps a record of each run; the array's lock is held around each call."""

    def begin(self, due: int) -> None:
        """Take in that `last` will say next that a run for this slot is running."""

    def begun(self) -> int | None:
        """Return the number of the run that it said so of; `None` when it did not."""

    def end(self, run: int, record: Mapping[str, Any] | None) -> None:
        """Take in how a run ended; `None` for a run that counts as none."""


class ObservableArray(MutableSequence[Row]):
    """A list of rows that tells its observers of every edit, from whatever thread it came.

        >>> jobs = ObservableArray([Row(name="cleanup", every="1h")])
        >>> stop = jobs.observe(lambda commit: print([change.kind for change in commit]))
        >>> jobs[0]["every"] = "2h"
        ['set']
        >>> with atomic(jobs):
        ...     jobs.append(Row(name="late", every=5000))
        ...     del jobs[0]
        ['inserted', 'removed']
        >>> stop()

    Iterating goes over the rows as they were when it began, so the array may be edited
    meanwhile. An observer that raises neither undoes the change nor keeps it from the
    other observers; its error is raised to whoever made the change.

    Args:
        rows: The rows to begin with.

    Raises:
        JobsError: `invalid`, here and wherever a row is added, for what is not a `Row` or
            already sits in an array.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: Places[Row] = Places()
        self._commits: Commits[Change] = Commits()
        self._lock = self._commits.lock
        self._recorder: Recorder | None = None
        self.extend(rows)

    def __repr__(self) -> str:
        return f"<ObservableArray of {len(self._rows)} rows>"

    def __reduce__(self) -> tuple[Any, ...]:
        return ObservableArray, (list(self),)

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Have a callback told of every commit from now on.

        It is called in the thread that made the commit, with a tuple of `Change` records,
        after the array already shows the change. It may edit the array: that edit is
        delivered as a commit of its own, once the current one has reached everybody.

        Returns:
            The function that stops it; calling it twice is harmless.
        """
        check_callback(callback)
        with self._lock:
            return self._commits.subscribe(callback)

    def guard(self, callback: Callable[[tuple[Change, ...]], object]) -> Callable[[], None]:
        """Have every commit pass a callback before it is delivered.

        The callback sees the commit as an observer would, with the array showing the change,
        and may refuse it by raising: the commit is rolled back whole, nobody is told, and the
        error comes out of the edit. It must not edit the array. Of several guards the latest
        is asked first.

        Args:
            callback: Called with the tuple of `Change` records.

        Returns:
            The function that stops it; calling it twice is harmless.

        Raises:
            JobsError: `invalid`, when the callback cannot be called.
        """
        check_callback(callback)
        with self._lock:
            return self._commits.guard(callback)

    # Reading

    def __len__(self) -> int:
        with self._lock:
            return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        with self._lock:
            return iter(self._rows.copy())

    def __reversed__(self) -> Iterator[Row]:
        with self._lock:
            return iter(self._rows[::-1])

    def __contains__(self, row: object) -> bool:
        with self._lock:
            return isinstance(row, Row) and row._array is self

    @overload
    def __getitem__(self, index: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Row | list[Row]:
        with self._lock:
            return self._rows[index]

    def index(self, row: object, start: int = 0, stop: int | None = None) -> int:
        """Return where a row is, without searching the array.

        Raises:
            ValueError: When the row is not in the array, or not between start and stop.
        """
        with self._lock:
            if isinstance(row, Row) and row._array is self:
                place = self._rows.locate(row)
                if place in range(*slice(start, stop).indices(len(self._rows))):
                    return place
        raise _not_in_array(row)

    def count(self, row: object) -> int:
        """Return 1 for a row of this array and 0 for anything else."""
        return int(row in self)

    # Editing

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        with self._lock:
            self._insert(len(self._rows), row)

    def insert(self, index: SupportsIndex, row: Row) -> None:
        """Add a row before the given index."""
        with self._lock:
            start, _, _ = slice(index, None).indices(len(self._rows))
            self._insert(start, row)

    def extend(self, rows: Iterable[Row]) -> None:
        """Add rows at the end in one commit, or none of them when one is refused."""
        rows = _listed(rows)
        with self._lock:
            self._splice(len(self._rows), len(self._rows), rows)

    @overload
    def __setitem__(self, index: SupportsIndex, value: Row) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Row]) -> None: ...
    def __setitem__(self, index: SupportsIndex | slice, value: Row | Iterable[Row]) -> None:
        if isinstance(index, slice):
            self._assign(index, _listed(value))
            return
        with self._lock:
            place = range(len(self._rows))[as_index(index)]
            self._splice(place, place + 1, [value])  # type: ignore[list-item]

    def _assign(self, where: slice, rows: list[Row]) -> None:
        with self._lock:
            start, stop, step = where.indices(len(self._rows))
            if step == 1:
                self._splice(start, max(start, stop), rows)
                return
            places = range(start, stop, step)
            low = min(places, default=0)
            high = max(places, default=-1) + 1
            window = self._rows.copy()
            window[where] = rows
            self._splice(low, high, window[low:high])

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        with self._lock:
            places = range(len(self._rows))[index]
            if isinstance(places, int):
                self._remove(places)
            elif places:
                low, high = min(places), max(places) + 1
                rows = [self._rows[i] for i in range(low, high) if i not in places]
                self._splice(low, high, rows)

    def pop(self, index: SupportsIndex = -1) -> Row:
        """Remove the row at the given index, the last one by default, and return it."""
        with self._lock:
            place = range(len(self._rows))[as_index(index)]
            row = self._rows[place]
            self._remove(place)
            return row

    def remove(self, row: object) -> None:
        """Remove a row, without searching the array.

        Raises:
            ValueError: When the row is not in the array.
        """
        with self._lock:
            if not (isinstance(row, Row) and row._array is self):
                raise _not_in_array(row)
            self._remove(self._rows.locate(row))

    def clear(self) -> None:
        """Remove every row in one commit."""
        del self[:]

    def move(self, row: Row, index: SupportsIndex) -> None:
        """Move a row of the array so that it ends up at the given index.

        Raises:
            ValueError: When the row is not in the array.
            IndexError: When the array has no such index.
        """
        with self._lock:
            old, new = self.index(row), range(len(self._rows))[as_index(index)]
            if old != new:
                self._shift(old, new)

    def sort(self, *, key: Callable[[Row], Any], reverse: bool = False) -> None:
        """Sort the rows by a key in one commit of moves."""
        with self._lock:
            self._splice(0, len(self._rows), sorted(self._rows, key=key, reverse=reverse))

    def reverse(self) -> None:
        """Reverse the order of the rows in one commit of moves."""
        with self._lock:
            self._splice(0, len(self._rows), self._rows[::-1])

    # The primitives that carry all mutation; the lock is held around each.

    def _is_guarded(self) -> bool:
        """Return whether a change has to be made in a block, so that it can be refused."""
        return bool(self._commits.guards) and not self._commits.marks

    def _shift(self, old: int, new: int) -> None:
        if self._is_guarded():
            with _Block(self):
                return self._shift(old, new)
        row = self._rows[old]
        self._rows.shift(old, new)
        change = Change("moved", row, new, None, old, new)
        return self._commits.emit((change,), (self._rows.shift, new, old))

    def _insert(self, index: int, row: Row) -> None:
        commits = self._commits
        if commits.guards and not commits.marks:
            with _Block(self):
                return self._insert(index, row)
        self._adopt(row)
        self._rows.place(index, row)
        change = _change(("inserted", row, index, None, None, None))
        return commits.emit((change,), (self._drop, row))

    def _remove(self, index: int) -> None:
        commits = self._commits
        if commits.guards and not commits.marks:
            with _Block(self):
                return self._remove(index)
        row = self._rows.take(index)
        fields = self._let_go(row)
        change = _change(("removed", row, index, None, None, None))
        return commits.emit((change,), (self._put_back, index, row, fields))

    def _splice(self, low: int, high: int, rows: list[Row]) -> None:
        """Make the rows from low up to high these: some kept, in any order, some new."""
        if self._is_guarded():
            with _Block(self):
                return self._splice(low, high, rows)
        for row in rows:
            check_row(row)
        before = self._rows[low:high]
        if before == rows:
            return None
        kept = _without_duplicates(rows).intersection(before)
        self._adopt_all([row for row in rows if row not in kept])
        fields = {row: self._let_go(row) for row in before if row not in kept}
        self._rows.replace(low, high, rows)
        changes = tuple(_splice_changes(low, before, rows, kept))
        undo = (self._replace_back, low, before, len(rows), fields)
        return self._commits.emit(changes, undo)

    def _write(self, row: Row, key: str, value: Any, *, anew: bool = False) -> None:
        fields, commits = row._fields, self._commits
        old = fields.get(key, MISSING)
        if not anew and _same(old, value):
            return
        if commits.guards and not commits.marks:
            with _Block(self):
                self._write(row, key, value, anew=anew)
            return
        fields[key] = value
        if not commits.marks and not commits.subscriptions:
            return
        if old is MISSING:
            change = Change("set", row, self._rows.locate(row), key, None, value)
            commits.emit((change,), (fields.pop, key))
        else:
            change = _change(("set", row, self._rows.locate(row), key, old, value))
            commits.emit((change,), (fields.__setitem__, key, old))

    def _erase(self, row: Row, key: str) -> None:
        if self._is_guarded():
            with _Block(self):
                return self._erase(row, key)
        before = row._fields
        row._fields = before.copy()
        old = row._fields.pop(key)
        change = Change("deleted", row, self._rows.locate(row), key, old)
        return self._commits.emit((change,), (setattr, row, "_fields", before))

    # Whose a row is

    def _adopt(self, row: Row) -> None:
        if type(row) is not Row:
            check_row(row)
        with loose:
            free = row._array is None
            if free:
                row._array = self
        if not free:
            raise already_in_array(row)

    def _adopt_all(self, rows: list[Row]) -> None:
        for done, row in enumerate(rows):
            try:
                self._adopt(row)
            except JobsError:
                for other in rows[:done]:
                    other._array = None
                raise

    def _let_go(self, row: Row) -> dict[str, Any]:
        """Make a row nobody's, and return its fields, which edits from now on leave alone."""
        fields = row._fields
        if self._commits.marks:
            row._fields = fields.copy()
        row._array = None
        return fields

    def _release(self, row: Row) -> None:
        with self._lock:
            if row._array is self:
                self._remove(self._rows.locate(row))

    def _let_go_unasked(self, row: Row) -> None:
        with self._lock:
            guards, self._commits.guards = self._commits.guards, ()
            try:
                if row._array is self:
                    self._remove(self._rows.locate(row))
            finally:
                self._commits.guards = guards

    # Rolling back: first what the list holds, then whose the rows are

    def _block(self) -> AbstractContextManager[None]:
        return _Block(self)

    def _drop(self, row: Row) -> None:
        self._rows.take(self._rows.locate(row))

    def _put_back(self, index: int, row: Row, fields: dict[str, Any]) -> None:
        self._rows.place(index, row)
        row._fields = fields

    def _replace_back(
        self, low: int, before: list[Row], length: int, fields: dict[Row, dict[str, Any]]
    ) -> None:
        self._rows.replace(low, low + length, before)
        for row in fields:
            row._fields = fields[row]

    def _roll_back(self) -> None:
        first: dict[Row, Kind] = {}
        for change in self._commits.roll_back():
            if change.kind in ("inserted", "removed"):
                first.setdefault(change.row, change.kind)
        errors: list[BaseException] = []
        for row, kind in first.items():
            if kind == "removed":
                self._reclaim(row, errors)
            elif row._array is self:
                row._array = None
        if errors:
            raise_all(errors)

    def _reclaim(self, row: Row, errors: list[BaseException]) -> None:
        """Take a row back, from another array if need be."""
        while True:
            with loose:
                holder = row._array
                if holder is None or holder is self:
                    row._array = self
                    return
            try:
                holder._release(row)
            except BaseException as error:
                errors.append(error)
                if row._array is holder:
                    # A guard refused it, but the row cannot be in two arrays.
                    holder._let_go_unasked(row)


class _Block:
    """The context manager behind `atomic`; it may be entered again while it is open."""

    __slots__ = ("_array",)

    def __init__(self, array: ObservableArray) -> None:
        self._array = array

    def __enter__(self) -> None:
        self._array._lock.acquire()
        self._array._commits.begin()

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            if kind is None:
                self._ask()
                self._array._commits.end()
            else:
                self._array._roll_back()
        finally:
            self._array._lock.release()

    def _ask(self) -> None:
        try:
            self._array._commits.ask()
        except BaseException:
            self._array._roll_back()
            raise


def atomic(array: ObservableArray) -> AbstractContextManager[None]:
    """Make everything that is written inside the block one commit.

    Blocks nest into the outermost one. A block that raises is rolled back whole and
    nothing of it is delivered; one that changed nothing delivers nothing.

    The block holds the array's lock, so other threads see all of it or nothing. Keep it
    short, and do not `await` inside: other tasks of the event loop would write into it.

        >>> jobs = ObservableArray([Row(every="1h"), Row(every="2h")])
        >>> with atomic(jobs):
        ...     for row in jobs:
        ...         row["paused"] = True

    Raises:
        JobsError: `not-a-list`, when it is not given an `ObservableArray`.
    """
    check_array(array, "array")
    return _Block(array)


def check_array(array: object, name: str) -> None:
    """Refuse what is not an `ObservableArray`, with reason `not-a-list`."""
    if not isinstance(array, ObservableArray):
        raise JobsError(
            f"{name}: {shown(array)} is not an ObservableArray",
            reason="not-a-list",
            fix=f"Pass {name}=ObservableArray([Row(...), ...]).",
        )


def check_callback(callback: object) -> None:
    """Refuse what cannot be told of commits."""
    if not callable(callback):
        raise JobsError(
            f"callback: {shown(callback)} cannot be called",
            reason="invalid",
            fix="Pass a function that takes the tuple of changes.",
        )


def swap(array: ObservableArray, row: Row, key: str, old: object, new: object) -> bool:
    """Replace a field's value in one step, if the row is in the array and still holds it.

    Either value may be `MISSING`.
    """
    with array._lock:
        if row._array is not array or row._fields.get(key, MISSING) is not old:
            return False
        if new is not MISSING:
            # Two runs may start in one millisecond, and their records are equal.
            array._write(row, key, new, anew=True)
        elif old is not MISSING:
            array._erase(row, key)
        return True


def _not_in_array(row: object) -> ValueError:
    return ValueError(f"{shown(row)} is not in the array")


def _splice_changes(
    low: int, before: list[Row], rows: list[Row], kept: set[Row]
) -> Iterator[Change]:
    for index in range(len(before) - 1, -1, -1):
        if before[index] not in kept:
            yield Change("removed", before[index], low + index)
    for row, old, new in moves([r for r in before if r in kept], [r for r in rows if r in kept]):
        yield Change("moved", row, low + new, None, low + old, low + new)
    for index, row in enumerate(rows, low):
        if row not in kept:
            yield Change("inserted", row, index)


def _listed(rows: object) -> list[Row]:
    if not isinstance(rows, Iterable):
        raise JobsError(
            f"rows: {shown(rows)} is not a list of rows",
            reason="invalid",
            fix="Pass [Row(...), ...].",
        )
    return list(rows)


def _without_duplicates(rows: list[Row]) -> set[Row]:
    given: set[Row] = set()
    for row in rows:
        if row in given:
            raise already_in_array(row)
        given.add(row)
    return given


def _same(old: object, new: object) -> bool:
    if type(old) is not type(new):
        return False
    try:
        return old is new or (bool(old == new) and _fold(old) == _fold(new))
    except Exception:
        return False


def _fold(value: object) -> object:
    # Two datetimes that stand an hour apart are equal when only their fold differs.
    return getattr(value, "fold", None)
