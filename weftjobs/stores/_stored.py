"""One stored array: its commits become transactions, and its runs entries of the history."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from weftjobs.clock import Clock
from weftjobs.rows import Change, ObservableArray, Row
from weftjobs.stores._positions import spread
from weftjobs.stores._values import check, encoded

if TYPE_CHECKING:
    from filelock import FileLock

_SCHEDULE = {"at", "every", "cron", "tz", "trigger", "paused", "declared"}
"""The fields whose edits are kept in the history."""

_PRUNE_EVERY = 64
"""After how many entries of a row its history is shortened again."""


_LONGEST_KEY = 64
"""How many bytes of position a row may have before all rows are numbered anew."""


class Writer(Protocol):
    """Where transactions are made.

    Attributes:
        clock: Where the times of edits come from.
        kept_runs: How many runs of each row are remembered.
    """

    clock: Clock
    kept_runs: int

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Give a connection in a transaction."""


class Stored:
    """One array that is open for writing.

    Attributes:
        jobs: The array.
        lock: What keeps other processes from opening it.
        ids: The numbers of its rows.
        positions: The keys by which its rows sort.
    """

    def __init__(self, store: Writer, number: int, jobs: ObservableArray, lock: FileLock) -> None:
        self._store = store
        self._number = number
        self._due: int | None = None
        self._begun: int | None = None
        self._entries: dict[int, dict[str, int]] = {}
        self.jobs = jobs
        self.lock = lock
        self.ids: dict[Row, int] = {}
        self.positions: dict[Row, bytes] = {}

    # The guard

    def store(self, commit: tuple[Change, ...]) -> None:
        """Write a commit as one transaction, or refuse it."""
        changes = _Changes(commit, self.ids, self.jobs)
        encode = {row: encoded(row, row._fields) for row in changes.written}
        positions = self._place(changes.placed)
        with self._store.writing() as connection:
            ids = self._write(connection, changes, encode, positions)
        for row in changes.removed:
            del self.ids[row]
            del self.positions[row]
        self.ids |= ids
        self.positions |= positions

    def _write(
        self,
        connection: sqlite3.Connection,
        changes: _Changes,
        encode: Mapping[Row, str],
        positions: Mapping[Row, bytes],
    ) -> dict[Row, int]:
        now = self._store.clock.now()
        for row in changes.removed:
            self._remove(connection, self.ids[row], now)
        ids = {
            row: self._insert(connection, positions[row], encode[row], row, now)
            for row in changes.inserted
        }
        connection.executemany(
            "UPDATE rows SET fields = ? WHERE id = ?",
            [(encode[row], self.ids[row]) for row in changes.written if row not in ids],
        )
        connection.executemany(
            "UPDATE rows SET position = ? WHERE id = ?",
            [(key, self.ids[row]) for row, key in positions.items() if row not in ids],
        )
        for row, edited in changes.schedules.items():
            if row not in ids:
                self._note_edit(connection, self.ids[row], now, "edited", edited)
        self._note_begin(connection, changes, ids)
        return ids

    def _insert(
        self, connection: sqlite3.Connection, position: bytes, fields: str, row: Row, now: int
    ) -> int:
        statement = "INSERT INTO rows (array, position, fields) VALUES (?, ?, ?)"
        number = connection.execute(statement, [self._number, position, fields]).lastrowid
        assert number is not None
        self._entries[number] = {"runs": 0, "edits": 0}
        schedule = {key: (None, row._fields[key]) for key in _SCHEDULE & row._fields.keys()}
        self._note_edit(connection, number, now, "inserted", schedule)
        return number

    def _remove(self, connection: sqlite3.Connection, number: int, now: int) -> None:
        connection.execute("DELETE FROM rows WHERE id = ?", [number])
        self._note_edit(connection, number, now, "removed", {})
        self._entries.pop(number, None)
        connection.execute("INSERT INTO gone (array, row) VALUES (?, ?)", [self._number, number])
        # What is known of rows that are gone is bounded as well.
        forgotten = connection.execute(
            "SELECT id, row FROM gone WHERE array = ? ORDER BY id DESC LIMIT -1 OFFSET ?",
            [self._number, self._store.kept_runs],
        ).fetchall()
        for entry, row in forgotten:
            connection.execute("DELETE FROM runs WHERE row = ?", [row])
            connection.execute("DELETE FROM edits WHERE row = ?", [row])
            connection.execute("DELETE FROM gone WHERE id = ?", [entry])

    def _place(self, rows: Iterable[Row]) -> dict[Row, bytes]:
        """Return the keys of rows that have a new place, next to those that keep theirs."""
        placed = sorted((self.jobs._rows.locate(row), row) for row in set(rows)) if rows else []
        keys: dict[Row, bytes] = {}
        start = 0
        while start < len(placed):
            end = start + 1
            while end < len(placed) and placed[end][0] == placed[end - 1][0] + 1:
                end += 1
            low, high = placed[start][0] - 1, placed[end - 1][0] + 1
            before = self._key_at(low, keys) if low >= 0 else None
            after = self._key_at(high, keys) if high < len(self.jobs._rows) else None
            fresh = spread(before, after, end - start)
            keys |= {row: key for (_, row), key in zip(placed[start:end], fresh, strict=True)}
            start = end
        if max(map(len, keys.values()), default=0) > _LONGEST_KEY:
            rows = list(self.jobs._rows)
            return dict(zip(rows, spread(None, None, len(rows)), strict=True))
        return keys

    def _key_at(self, index: int, keys: Mapping[Row, bytes]) -> bytes:
        row = self.jobs._rows[index]
        return keys[row] if row in keys else self.positions[row]

    # The recorder

    def begin(self, due: int) -> None:
        """Take in for which slot the record of a run is about to be written."""
        self._due = due
        self._begun = None

    def begun(self) -> int | None:
        """Return the number of the run whose record was written."""
        self._due = None
        return self._begun

    def end(self, run: int, record: Mapping[str, Any] | None) -> None:
        """Write how a run ended."""
        with self._store.writing() as connection:
            if record is None:
                connection.execute("DELETE FROM runs WHERE id = ?", [run])
            else:
                error = record.get("error")
                values = [record["ended"], record["status"], error and json.dumps(error), run]
                statement = "UPDATE runs SET ended = ?, status = ?, error = ? WHERE id = ?"
                connection.execute(statement, values)

    def _note_begin(
        self, connection: sqlite3.Connection, changes: _Changes, ids: Mapping[Row, int]
    ) -> None:
        if self._due is None or changes.running is None:
            return
        number = ids.get(changes.running) or self.ids[changes.running]
        started = changes.running._fields["last"]["started"]
        statement = "INSERT INTO runs (array, row, due, at, status) VALUES (?, ?, ?, ?, 'running')"
        values = [self._number, number, self._due, started]
        self._begun = connection.execute(statement, values).lastrowid
        self._prune(connection, "runs", number)

    def _note_edit(
        self,
        connection: sqlite3.Connection,
        number: int,
        now: int,
        kind: str,
        changes: Mapping[str, object],
    ) -> None:
        statement = "INSERT INTO edits (array, row, at, kind, changes) VALUES (?, ?, ?, ?, ?)"
        connection.execute(statement, [self._number, number, now, kind, json.dumps(changes)])
        self._prune(connection, "edits", number)

    def _prune(self, connection: sqlite3.Connection, table: str, number: int) -> None:
        # What earlier lives of the process left is looked at with the first entry of this one.
        entries = self._entries.setdefault(number, {"runs": _PRUNE_EVERY, "edits": _PRUNE_EVERY})
        entries[table] += 1
        if entries[table] < _PRUNE_EVERY:
            return
        entries[table] = 0
        connection.execute(
            f"DELETE FROM {table} WHERE row = ? AND id <= "
            f"(SELECT id FROM {table} WHERE row = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            [number, number, self._store.kept_runs],
        )


class _Changes:
    """A commit, netted: what became of each row in the end.

    Attributes:
        inserted: The rows that were not in the array before.
        removed: Those that are not any more.
        placed: Those that stand somewhere else, the inserted ones included.
        written: Those whose fields are to be written, the inserted ones included.
        schedules: What was changed about when rows run, by field: the value before and after.
        running: The row whose `last` says that it runs now.
    """

    def __init__(
        self, commit: tuple[Change, ...], known: Mapping[Row, int], jobs: ObservableArray
    ) -> None:
        self.inserted: list[Row] = []
        self.removed: list[Row] = []
        self.placed: dict[Row, None] = {}
        self.written: dict[Row, None] = {}
        self.schedules: dict[Row, dict[str, tuple[object, object]]] = {}
        self.running: Row | None = None
        for row in dict.fromkeys(change.row for change in commit):
            if row._array is not jobs:
                self.removed += [row] if row in known else []
            elif row not in known:
                self.inserted.append(row)
                self.placed[row] = self.written[row] = None
        for change in commit:
            if change.row._array is jobs:
                self._take(change)

    def _take(self, change: Change) -> None:
        row, key = change.row, change.key
        if key is None:
            self.placed[row] = None
            if change.kind != "moved":
                # Taken out and put back: what was edited meanwhile was told to nobody.
                self.written[row] = None
            return
        check(row, key, row._fields.get(key))
        self.written[row] = None
        if key in _SCHEDULE:
            edited = self.schedules.setdefault(row, {})
            before = edited[key][0] if key in edited else change.old
            edited[key] = before, row._fields.get(key)
        last = row._fields.get("last")
        if key == "last" and isinstance(last, dict) and last.get("status") == "running":
            self.running = row
