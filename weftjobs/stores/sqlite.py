"""A store in a file, on the SQLite of the standard library."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote

import anyio.to_thread

from weftjobs.clock import Clock
from weftjobs.errors import JobsError, shown
from weftjobs.rows import Change, ObservableArray, Row
from weftjobs.stores._stored import Stored
from weftjobs.stores.protocol import Edit, Run
from weftjobs.units import Instant, to_instant

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

_CHECKPOINT_EVERY = 500
"""After how many commits the log is worked into the file, in a thread."""

_WAIT = 5.0
"""How many seconds another process may keep the file."""


_TRIES = 50
"""How often the file is asked for in that time, where SQLite itself does not wait."""


class SQLiteStore:
    """Arrays in a file; `open_store("sqlite:///…")` makes one. See `Store`.

    Every commit is a transaction in the thread that makes it, some tens of microseconds; the
    disk itself is waited for in other threads, unless the store is synchronous.
    """

    def __init__(self, path: str, *, full: bool, kept_runs: int, clock: Clock) -> None:
        # One file has one lock, by whatever name and from wherever it is opened.
        self.path = Path(path).resolve()
        self._log = self.path.with_name(f"{self.path.name}-wal")
        self._full = full
        self.kept_runs = kept_runs
        self.clock = clock
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._arrays: dict[str, Stored] = {}
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
        before: Instant | None = None,
    ) -> AsyncIterator[Run | Edit]:
        """Iterate over what became of the rows of an array; see `Store.history`."""
        self._check_open()
        _check_count("limit", limit)
        number = self.number(name, row) if isinstance(row, Row) else row
        if number is not None:
            _check_count("row", number)
        until = None if before is None else to_instant(before, "before")
        for entry in await _in_thread(partial(self._history, name, number, limit, until)):
            yield entry

    async def settled(self) -> None:
        """Wait until everything so far is on disk; see `Store.settled`."""
        self._check_open()
        if self._connection is not None:
            await _in_thread(self._sync)

    # Opening and closing, in a thread

    def _check_file(self) -> None:
        """Refuse a file that is not ours, having changed nothing of it."""
        with self._reported():
            found, exists = self.path.parent.is_dir(), self.path.exists()
        if not found:
            raise self._error("its folder does not exist", fix="Make the folder first.")
        if exists:
            with self._reported(), closing(self._reader()) as connection:
                self._check_header(connection)

    def _check_header(self, connection: sqlite3.Connection) -> bool:
        """Return whether the file has our tables; refuse what is another's."""
        with _snapshot(connection):
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
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

    def _load(self, name: str, lock: FileLock) -> Stored:
        connection = self._writer()
        with _transaction(connection):
            connection.execute("INSERT OR IGNORE INTO arrays (name) VALUES (?)", [name])
        (number,) = connection.execute("SELECT id FROM arrays WHERE name = ?", [name]).fetchone()
        rows = list(_rows_of(connection, number))
        jobs = ObservableArray(row for _, _, row in rows)
        stored = Stored(self, number, jobs, lock)
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
        _use_log(connection)
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._full else 'NORMAL'}")
        if not self._full:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        if not has_tables:
            with _transaction(connection):
                if self._check_header(connection):
                    # Another process was faster.
                    return
                for statement in _SCHEMA.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _reader(self) -> sqlite3.Connection:
        place = f"file:{quote(str(self.path))}?mode=ro"
        try:
            return _opened(place)
        except sqlite3.OperationalError:
            # A folder that is read-only has no room for the files that readers share. Without
            # them what is in the log could not be seen.
            if self._log.exists() and self._log.stat().st_size:
                raise
            return _opened(f"{place}&immutable=1")

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
                self._start_checkpoint()

    def _start_checkpoint(self) -> None:
        try:
            threading.Thread(target=self._checkpoint_soon, name="weftjobs", daemon=True).start()
        except RuntimeError:
            # There is no thread to be had; the next one does it.
            self._checkpointing = False

    def _sync(self) -> None:
        """Have what was committed survive a loss of power: it is in the log, or in the file."""
        with self._reported():
            for path in (self.path, self._log):
                if path.exists():
                    descriptor = os.open(path, os.O_RDONLY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)

    def _checkpoint_soon(self) -> None:
        try:
            self._checkpoint()
        except JobsError:
            # The next one does it; the log has everything until then.
            pass
        finally:
            self._checkpointing = False

    def _checkpoint(self) -> None:
        with (
            self._reported(),
            closing(sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)) as connection,
        ):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

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
        except (sqlite3.Error, OSError, OverflowError, json.JSONDecodeError) as error:
            raise self._error(str(error), fix=_fix_of(error)) from error

    def _error(self, what: str, *, fix: str) -> JobsError:
        return JobsError(f"store: {self.path}: {what}", reason="store", fix=fix)


async def _in_thread(function: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(function)


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or not 1 <= value < 1 << 63:
        raise JobsError(
            f"{name}: {shown(value)} is not a number from 1",
            reason="invalid",
            fix="Give 1 or more.",
        )


def _opened(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(place, uri=True, timeout=_WAIT)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise JobsError(
            f"name: {shown(name)} is not the name of an array",
            reason="invalid",
            fix="Name it with text, such as 'jobs'.",
        )


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, for which SQLite does not wait when the file is in use."""
    for attempt in range(_TRIES):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if attempt == _TRIES - 1:
                raise
            threading.Event().wait(_WAIT / _TRIES)


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Have all that is read be of one moment: another process may be making the tables."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


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
