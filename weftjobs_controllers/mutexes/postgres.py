"""A mutex in PostgreSQL."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from weftjobs_controllers._extras import required
from weftjobs_controllers.errors import InvalidArgumentError, MutexError, check_text
from weftjobs_controllers.mutexes._blocking import (
    LONGEST_ANSWER,
    BlockingMutex,
    Result,
    StoreTime,
)
from weftjobs_controllers.mutexes._record import MEMORY

_LONGEST_WAIT = 2.0
"""How many seconds the server has to answer."""

_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_CREATE = """
SELECT pg_advisory_xact_lock(hashtext('weftjobs'), hashtext('{table}'));
CREATE TABLE IF NOT EXISTS {table} (
    key text PRIMARY KEY,
    nonce text,
    token bigint NOT NULL,
    expires bigint NOT NULL,
    slot bigint,
    touched bigint NOT NULL
)
"""

_CLAIM = f"""
INSERT INTO {{table}} AS held (key, nonce, token, expires, slot, touched)
SELECT %(key)s, %(nonce)s, now, now + %(lease)s, %(slot)s, now FROM (SELECT {_NOW} AS now) AS clock
WHERE now <= %(latest)s
ON CONFLICT (key) DO UPDATE SET
    nonce = excluded.nonce,
    token = CASE held.nonce WHEN excluded.nonce THEN held.token
            ELSE greatest(held.token + 1, excluded.token) END,
    expires = excluded.expires,
    slot = coalesce(excluded.slot, held.slot),
    touched = excluded.touched
WHERE held.nonce = excluded.nonce OR held.expires <= excluded.touched AND (
    excluded.slot IS NULL OR held.slot IS NULL OR excluded.slot > held.slot
    OR held.slot > excluded.touched AND abs(excluded.touched - held.touched) >= {MEMORY}
)
RETURNING token
"""

_RENEW = f"""
UPDATE {{table}} SET expires = {_NOW} + %(lease)s, touched = {_NOW}
WHERE key = %(key)s AND nonce = %(nonce)s RETURNING token
"""

_RELEASE = f"""
UPDATE {{table}} SET nonce = NULL, expires = {_NOW} + %(hold)s, touched = {_NOW}
WHERE key = %(key)s AND nonce = %(nonce)s RETURNING token
"""


class PostgresMutex(BlockingMutex):
    """Locks in a table of PostgreSQL: instances on any number of machines.

        components={"mutex": PostgresMutex("postgresql://jobs@db.internal/app"), ...}

    A lock is a row with an end by the server's clock; there is no advisory lock, no state of
    a session and no prepared statement, so a pooler such as PgBouncer may stand in between.
    The table is made when it is not there. A server that loses its latest commits in a
    failover may forget a lock, and a holder that is paused for longer than its lease can
    overlap with the next one until it wakes. A resource that matters checks
    `context.lease_token`.

    Args:
        conninfo: Where the server is, as psycopg takes it: a URL, or `"host=… dbname=…"`.
        lease: How long a lock is held unless it is renewed, at least 1 second: milliseconds,
            a `timedelta`, or text.
        table: The table, with its schema if need be.

    Raises:
        InvalidScheduleError: The lease is not a duration, or too short.
        InvalidArgumentError: The table is not a name.
        MissingExtraError: psycopg is not installed.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        lease: int | float | timedelta | str = "30s",
        table: str = "weftjobs_locks",
    ) -> None:
        super().__init__(lease)
        if not re.fullmatch(
            r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", check_text("table", table), re.ASCII
        ):
            fix = "Name it with letters, digits and underscores, such as 'jobs.locks'."
            raise InvalidArgumentError("table", table, "is not the name of a table", fix=fix)
        self._psycopg = required("psycopg", extra="postgres")
        self._conninfo = check_text("conninfo", conninfo)
        self._table = ".".join(f'"{part}"' for part in table.split("."))
        self._store_time = StoreTime(self._time)
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"PostgresMutex in table {self._table}"

    def _claim(self, key: str, nonce: str, lease: int, slot: int | None) -> int | None:
        latest = self._reported(key, self._store_time.now) + LONGEST_ANSWER
        values = {"nonce": nonce, "lease": lease, "slot": slot, "latest": latest}
        return self._run(_CLAIM, key, values)

    def _renew(self, key: str, nonce: str, lease: int) -> bool:
        return self._run(_RENEW, key, {"nonce": nonce, "lease": lease}) is not None

    def _release(self, key: str, nonce: str, hold: int) -> bool:
        return self._run(_RELEASE, key, {"nonce": nonce, "hold": hold}) is not None

    def _run(self, statement: str, key: str, values: Mapping[str, object]) -> int | None:
        """Execute a statement, and return the token that it returns, if any."""
        filled = statement.format(table=self._table)
        return self._reported(key, lambda: self._try(filled, {"key": key, **values}))

    def _time(self) -> int:
        found = self._try(f"SELECT {_NOW}", {})
        assert found is not None, "it is one row"
        return found

    def _reported(self, key: str, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except (self._psycopg.Error, OSError) as error:
            raise MutexError(repr(self), key, error) from error

    def _try(self, statement: str, values: Mapping[str, object]) -> int | None:
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            try:
                return self._execute(idle, statement, values)
            except self._psycopg.OperationalError:
                # The server has closed it since: the statement may be made anew.
                pass
        return self._execute(self._connect(), statement, values)

    def _connect(self) -> Any:
        return self._psycopg.connect(
            self._conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=2,
            application_name="weftjobs",
        )

    def _execute(
        self, connection: Any, statement: str, values: Mapping[str, object]
    ) -> int | None:
        try:
            with _limited(connection):
                row = self._fetch(connection, statement, values)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return None if row is None else int(row[0])

    def _fetch(self, connection: Any, statement: str, values: Mapping[str, object]) -> Any:
        try:
            return connection.execute(statement, values).fetchone()
        except self._psycopg.errors.UndefinedTable:
            with connection.transaction():
                for part in _CREATE.format(table=self._table).split(";"):
                    connection.execute(part)
            return connection.execute(statement, values).fetchone()

    def _close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


@contextmanager
def _limited(connection: Any) -> Iterator[None]:
    """Cut a connection whose server does not answer: psycopg itself would wait for ever."""
    descriptor = os.dup(connection.fileno())
    limit = threading.Timer(_LONGEST_WAIT, _shut_down, (descriptor,))
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()
        os.close(descriptor)


def _shut_down(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connected:
        connected.shutdown(socket.SHUT_RDWR)
