"""A mutex in a directory, for the processes of one machine."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from weftjobs_controllers.errors import MutexError
from weftjobs_controllers.mutexes._blocking import BlockingMutex
from weftjobs_controllers.mutexes._record import Record

if TYPE_CHECKING:
    from filelock import FileLock


class FileMutex(BlockingMutex):
    """Locks in a directory: the processes of one machine, with no server.

        components={"mutex": FileMutex("/var/lib/jobs/locks"), ...}

    While a run lasts it holds a lock of the operating system, which ends with the process: a
    holder that crashes blocks nobody. What has to outlive it, the fencing token, the latest
    slot and the hold after a run, is in a small file beside that.

    It promises nothing across machines, nor across containers that do not share the
    directory, nor on network filesystems without locks. Its time is the machine's.

    Args:
        directory: Where the files are; made when it is not there.
        lease: How often a holder makes sure that nobody has tampered with its files, three
            times in this time; at least 1 second: milliseconds, a `timedelta`, or text.

    Raises:
        InvalidScheduleError: The lease is not a duration, or too short.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        lease: int | float | timedelta | str = "30s",
    ) -> None:
        super().__init__(lease)
        self._directory = Path(directory).absolute()
        self._held: dict[str, FileLock] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"FileMutex({str(self._directory)!r})"

    def _claim(self, key: str, nonce: str, lease: int, slot: int | None) -> int | None:
        with self._reported(key):
            self._directory.mkdir(parents=True, exist_ok=True)
            lock = _lock_of(self._path(key, "lock"))
            if not _acquired(lock):
                return None
            try:
                record = self._read(key).claim(nonce, _now(), lease, slot)
                if record is not None:
                    self._write(key, record)
            except BaseException:
                lock.release()
                raise
            if record is None:
                lock.release()
                return None
            with self._lock:
                self._held[nonce] = lock
            return record.token

    def _renew(self, key: str, nonce: str, lease: int) -> bool:
        with self._reported(key):
            return nonce in self._held and self._read(key, held=True).nonce == nonce

    def _release(self, key: str, nonce: str, hold: int) -> bool:
        with self._lock:
            lock = self._held.pop(nonce, None)
        if lock is None:
            return False
        with self._reported(key):
            try:
                record = self._read(key, held=True).release(nonce, _now(), hold)
                if record is not None:
                    self._write(key, record)
                return record is not None
            finally:
                lock.release()

    def _close(self) -> None:
        """Nothing is open but what a run still holds, which may be of another application."""

    def _path(self, key: str, kind: str) -> Path:
        return self._directory / f"{sha256(key.encode()).hexdigest()[:32]}.{kind}"

    def _read(self, key: str, *, held: bool = False) -> Record:
        """Read a record, whose lock is held by whom it names or by who reads it."""
        try:
            fields = json.loads(self._path(key, "json").read_text())
        except FileNotFoundError:
            return Record()
        record = Record(**{name: fields[name] for name in asdict(Record())})
        if not all(type(each) is int for each in (record.token, record.expires, record.touched)):
            raise ValueError(f"its record is damaged: {fields}")
        if held:
            return record
        if record.nonce is not None or _now() < record.touched:
            # Its holder has crashed, or the clock was set back: the hold means nothing.
            return replace(record, nonce=None, expires=0)
        return record

    def _write(self, key: str, record: Record) -> None:
        fresh = self._path(key, f"{os.getpid()}.new")
        fresh.write_text(json.dumps({"key": key, **asdict(record)}))
        fresh.replace(self._path(key, "json"))

    @contextmanager
    def _reported(self, key: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError, NotImplementedError) as error:
            raise MutexError(repr(self), key, error) from error


def _lock_of(path: Path) -> FileLock:
    from filelock import FileLock

    return FileLock(path, thread_local=False, fallback_to_soft=False, preserve_lock_file=True)


def _acquired(lock: FileLock) -> bool:
    from filelock import Timeout

    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True


def _now() -> int:
    return time.time_ns() // 1_000_000
