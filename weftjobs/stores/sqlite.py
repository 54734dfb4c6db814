"""A store in a file, on the SQLite of the standard library."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import anyio.to_thread

from weftjobs.clock import Clock
from weftjobs.errors import JobsError, shown
from weftjobs.rows import Change, ObservableArray, Row
from weftjobs.stores._positions import spread
from weftjobs.stores._values import check, encoded
from weftjobs.stores.protocol import Edit, Run

if TYPE_CHECKING:
    from filelock import FileLock

T = TypeVar("T")

_APPLICATION = 0x77656674
"""What the header of our files says: "weft"."""

_VERSION = 1

_SCHEMA = """
CREATE TABLE arrays (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE rows (
    id INTEGER PRIMARY KEY AUTOINCREMENT, array INTEGER NOT NULL, position BLOB NOT NULL,
    fields TEXT NOT NULL
);
CREATE INDEX rows_in_order ON rows (array, position);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, array INTEGER NOT NULL, row INTEGER NOT NULL, due INTEGER NOT NULL,
    at INTEGER NOT NULL, ended INTEGER, status TEXT NOT NULL, error TEXT
);
CREATE INDEX runs_of_row ON runs (row, id);
CREATE INDEX runs_of_array ON runs (array, at);
CREATE TABLE edits (
    id INTEGER PRIMARY KEY, array INTEGER NOT NULL, row INTEGER NOT NULL, at INTEGER NOT NULL,
    kind TEXT NOT NULL, changes TEXT NOT NULL
);
CREATE INDEX edits_of_row ON edits (row, id);
CREATE INDEX edits_of_array ON edits (array, at);
CREATE TABLE gone (id INTEGER PRIMARY KEY, array INTEGER NOT NULL, row INTEGER NOT NULL);
CREATE INDEX gone_of_array ON gone (array, id);
"""

_SCHEDULE = {"at", "every", "cron", "tz", "trigger", "paused", "declared"}
"""The fields whose edits are kept in the history."""

_PRUNE_EVERY = 64
"""After how many entries of a row its history is shortened again."""

_CHECKPOINT_EVERY = 500
"""After how many commits the log is worked into the file, in a thread."""

_WAIT = 5.0
"""How many seconds another process may keep the file."""


class SQLiteStore:
    """Arrays in a file; `open_store("sqlite:///…")` makes one. See `Store`.

    Every commit is a transaction in the thread that makes it, some tens of microseconds; the
    disk itself is waited for in other threads, unless the store is synchronous.
    """

    def __init__(self, path: str, *, full: bool, kept_runs: int, clock: Clock) -> None:
        self.path = Path(path)
        self._full = full
        self._kept = kept_runs
        self._clock = clock
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._arrays: dict[str, _Stored] = {}
        self._commits = 0
        self._checkpointing = False
        self._closed = False

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    async def __aenter__(self) -> Self:
        await _in_thread(self._check_file)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await _in_thread(self._close)

    async def open(self, name: str, *, read_only: bool = False) -> ObservableArray:
        """Return an array with its rows in order; see `Store.open`."""
        _check_name(name)
        self._check_open()
        return await _in_thread(partial(self._copy if read_only else self._open, name))

    async def names(self) -> list[str]:
        """Return the names of the arrays that there are; see `Store.names`."""
        self._check_open()
        return await _in_thread(self._names)

    def number(self, name: str, row: Row) -> int:
        """Return the number of a row in the store; see `Store.number`."""
        stored = self._arrays.get(name)
        number = None if stored is None else stored.ids.get(row)
        if number is None:
            raise JobsError(
                f"row: {shown(row)} is not in the array {shown(name)} of {self.path}",
                reason="invalid",
                fix="Ask for a row of the array that store.open() gave.",
            )
        return number

    async def history(
        self,
        name: str,
        row: Row | int | None = None,
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> AsyncIterator[Run | Edit]:
        """Iterate over what became of the rows of an array; see `Store.history`."""
        self._check_open()
        number = self.number(name, row) if isinstance(row, Row) else row
        for entry in await _in_thread(partial(self._history, name, number, limit, before)):
            yield entry

    async def settled(self) -> None:
        """Wait until everything so far is on disk; see `Store.settled`."""
        self._check_open()
        if self._connection is not None:
            await _in_thread(partial(self._checkpoint, "FULL"))

    # Opening and closing, in a thread

    def _check_file(self) -> None:
        """Refuse a file that is not ours, having changed nothing of it."""
        if not self.path.parent.is_dir():
            raise self._error("its folder does not exist", fix="Make the folder first.")
        if self.path.exists():
            with self._reported(), closing(self._reader()) as connection:
                self._check_header(connection)

    def _check_header(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file has our tables; refuse what is another's."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION:
            if tables or application or version:
                raise self._error(
                    "it is a database of another program", fix="Give the store a file of its own."
                )
            return False
        if version > _VERSION:
            raise self._error(
                f"it is of version {version}, newer than {_VERSION}",
                fix="Upgrade weftjobs, or go back to a copy of the file.",
            )
        return True

    def _open(self, name: str) -> ObservableArray:
        with self._lock:
            self._check_open()
            if (stored := self._arrays.get(name)) is not None:
                return stored.jobs
            lock = self._lock_array(name)
            try:
                with self._reported():
                    stored = self._load(name, lock)
            except BaseException:
                lock.release()
                raise
            self._arrays[name] = stored
            return stored.jobs

    def _load(self, name: str, lock: FileLock) -> _Stored:
        connection = self._writer()
        with _transaction(connection):
            connection.execute("INSERT OR IGNORE INTO arrays (name) VALUES (?)", [name])
        (number,) = connection.execute("SELECT id FROM arrays WHERE name = ?", [name]).fetchone()
        rows = list(_rows_of(connection, number))
        jobs = ObservableArray(row for _, _, row in rows)
        stored = _Stored(self, number, jobs, lock)
        stored.ids = {row: id for id, _, row in rows}
        stored.positions = {row: position for _, position, row in rows}
        jobs.guard(stored.store)
        jobs._recorder = stored
        return stored

    def _copy(self, name: str) -> ObservableArray:
        with self._reported(), closing(self._reader()) as connection:
            if not self._check_header(connection):
                raise self._error("it is empty", fix="Open the array for writing once.")
            found = connection.execute("SELECT id FROM arrays WHERE name = ?", [name]).fetchone()
            if found is None:
                raise self._error(
                    f"it has no array {shown(name)}", fix="Look at the name; open it for writing."
                )
            jobs = ObservableArray(row for _, _, row in _rows_of(connection, found[0]))
        jobs.guard(self._refuse)
        return jobs

    def _refuse(self, commit: tuple[Change, ...]) -> None:
        raise self._error("it was opened read-only", fix="Open the array without read_only.")

    def _lock_array(self, name: str) -> FileLock:
        """Take the array for this process; two schedulers over one array run every row twice."""
        from filelock import FileLock, Timeout

        path = f"{self.path}.{quote(name, safe='')}.lock"
        lock = FileLock(path, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise JobsError(
                f"store: the array {shown(name)} of {self.path} is open in another process, "
                f"which has locked {path}",
                reason="locked",
                fix="End that process, or open the array with read_only=True.",
            ) from None
        except (OSError, NotImplementedError) as error:
            raise self._error(str(error), fix="See that the folder can be written to.") from error
        return lock

    def _writer(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(
                self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        has_tables = self._check_header(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._full else 'NORMAL'}")
        if not self._full:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        if not has_tables:
            with _transaction(connection):
                for statement in _SCHEMA.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _reader(self) -> sqlite3.Connection:
        place = f"file:{quote(str(self.path.absolute()))}?mode=ro"
        connection = sqlite3.connect(place, uri=True, timeout=_WAIT)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A folder that is read-only has no room for the files that readers share.
            connection.close()
            connection = sqlite3.connect(f"{place}&immutable=1", uri=True, timeout=_WAIT)
        return connection

    def _close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            stored, self._arrays = list(self._arrays.values()), {}
            connection, self._connection = self._connection, None
            for each in stored:
                each.jobs._recorder = None
                each.lock.release()
            if connection is not None:
                connection.close()

    # Working

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection in a transaction, with the lock held."""
        with self._lock:
            self._check_open()
            assert self._connection is not None, "an array is stored only while it is open"
            with self._reported(), _transaction(self._connection):
                yield self._connection
            self._commits += 1
            if self._commits >= _CHECKPOINT_EVERY and not (self._full or self._checkpointing):
                self._commits = 0
                self._checkpointing = True
                threading.Thread(
                    target=self._checkpoint_soon, name="weftjobs", daemon=True
                ).start()

    def _checkpoint_soon(self) -> None:
        try:
            self._checkpoint("PASSIVE")
        except JobsError:
            # The next one does it; the log has everything until then.
            pass
        finally:
            self._checkpointing = False

    def _checkpoint(self, kind: str) -> None:
        with (
            self._reported(),
            closing(sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)) as connection,
        ):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_checkpoint({kind})").fetchone()

    def _history(
        self, name: str, row: int | None, limit: int, before: int | None
    ) -> list[Run | Edit]:
        conditions = ["array = (SELECT id FROM arrays WHERE name = :name)"]
        conditions += ["row = :row"] if row is not None else []
        conditions += ["at < :before"] if before is not None else []
        where = " AND ".join(conditions)
        values = {"name": name, "row": row, "before": before, "limit": limit}
        statement = f"""
            SELECT * FROM (
                SELECT at, id, row, due, status, ended, error, NULL, NULL FROM runs WHERE {where}
                ORDER BY at DESC, id DESC LIMIT :limit
            ) UNION ALL SELECT * FROM (
                SELECT at, id, row, NULL, NULL, NULL, NULL, kind, changes FROM edits WHERE {where}
                ORDER BY at DESC, id DESC LIMIT :limit
            ) ORDER BY 1 DESC, 2 DESC LIMIT :limit
        """
        with self._reported(), closing(self._reader()) as connection:
            if not self._check_header(connection):
                return []
            return [_entry(*found) for found in connection.execute(statement, values)]

    def _names(self) -> list[str]:
        with self._reported(), closing(self._reader()) as connection:
            if not self._check_header(connection):
                return []
            return [name for (name,) in connection.execute("SELECT name FROM arrays ORDER BY id")]

    def _check_open(self) -> None:
        if self._closed:
            raise self._error("it is closed", fix="Use it inside its `async with` block.")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._error(str(error), fix=_fix_of(error)) from error

    def _error(self, what: str, *, fix: str) -> JobsError:
        return JobsError(f"store: {self.path}: {what}", reason="store", fix=fix)


class _Stored:
    """One array that is open for writing.

    Attributes:
        jobs: The array.
        lock: What keeps other processes from opening it.
        ids: The numbers of its rows.
        positions: The keys by which its rows sort.
    """

    def __init__(
        self, store: SQLiteStore, number: int, jobs: ObservableArray, lock: FileLock
    ) -> None:
        self._store = store
        self._number = number
        self._due: int | None = None
        self._begun: int | None = None
        self._entries: Counter[int] = Counter()
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
        now = self._store._clock.now()
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
            [(positions[row], self.ids[row]) for row in changes.placed if row not in ids],
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
        schedule = {key: (None, row._fields[key]) for key in _SCHEDULE & row._fields.keys()}
        self._note_edit(connection, number, now, "inserted", schedule)
        return number

    def _remove(self, connection: sqlite3.Connection, number: int, now: int) -> None:
        connection.execute("DELETE FROM rows WHERE id = ?", [number])
        self._note_edit(connection, number, now, "removed", {})
        connection.execute("INSERT INTO gone (array, row) VALUES (?, ?)", [self._number, number])
        # What is known of rows that are gone is bounded as well.
        forgotten = connection.execute(
            "SELECT id, row FROM gone WHERE array = ? ORDER BY id DESC LIMIT -1 OFFSET ?",
            [self._number, self._store._kept],
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
        self._entries[number] += 1
        if self._entries[number] < _PRUNE_EVERY:
            return
        del self._entries[number]
        connection.execute(
            f"DELETE FROM {table} WHERE row = ? AND id <= "
            f"(SELECT id FROM {table} WHERE row = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            [number, number, self._store._kept],
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


async def _in_thread(function: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(function)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise JobsError(
            f"name: {shown(name)} is not the name of an array",
            reason="invalid",
            fix="Name it with text, such as 'jobs'.",
        )


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _rows_of(connection: sqlite3.Connection, array: int) -> Iterator[tuple[int, bytes, Row]]:
    statement = "SELECT id, position, fields FROM rows WHERE array = ? ORDER BY position"
    for number, position, fields in connection.execute(statement, [array]):
        yield number, position, Row(json.loads(fields))


def _entry(
    at: int,
    number: int,
    row: int,
    due: int,
    status: str,
    ended: int | None,
    error: str | None,
    kind: str | None,
    changes: str,
) -> Run | Edit:
    if kind is None:
        return Run(at, row, due, status, ended, None if error is None else json.loads(error))
    pairs = {key: (before, after) for key, (before, after) in json.loads(changes).items()}
    return Edit(at, row, kind, pairs)


def _fix_of(error: Exception) -> str:
    text = str(error)
    if "full" in text:
        return "Make room on the disk; what is stored is whole, and other jobs go on."
    if "not a database" in text or "malformed" in text:
        return "Give the store a file of its own, or a copy that is whole."
    return "See that the file and its folder can be read and written by this process."
