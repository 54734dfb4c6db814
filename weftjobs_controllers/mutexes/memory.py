"""A mutex in the memory of one process, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from weftjobs import Clock, SystemClock
from weftjobs_controllers.mutexes._blocking import BlockingMutex, Result
from weftjobs_controllers.mutexes._record import Record


class MemoryMutex(BlockingMutex):
    """Locks in the memory of this process: several applications in one process, and tests.

        clock = VirtualClock("2026-01-01T00:00:00Z")
        mutex = MemoryMutex(clock=clock)

    It promises nothing to other processes.

    Args:
        lease: How long a lock is held unless it is renewed, at least 1 second:
            milliseconds, a `timedelta`, or text.
        clock: The time of the store.

    Raises:
        InvalidScheduleError: The lease is not a duration, or too short.
    """

    def __init__(
        self, *, lease: int | float | timedelta | str = "30s", clock: Clock | None = None
    ) -> None:
        super().__init__(lease)
        self._clock = SystemClock() if clock is None else clock
        self._records: dict[str, Record] = {}
        self._lock = threading.Lock()

    async def _call(
        self, function: Callable[[], Result], give_up: Callable[[], object] | None = None
    ) -> Result:
        # Nothing here blocks.
        return function()

    def _claim(self, key: str, nonce: str, lease: int, slot: int | None) -> int | None:
        with self._lock:
            record = self._record(key).claim(nonce, self._clock.now(), lease, slot)
            return record.token if record is not None and self._store(key, record) else None

    def _renew(self, key: str, nonce: str, lease: int) -> bool:
        with self._lock:
            return self._store(key, self._record(key).renew(nonce, self._clock.now(), lease))

    def _release(self, key: str, nonce: str, hold: int) -> bool:
        with self._lock:
            return self._store(key, self._record(key).release(nonce, self._clock.now(), hold))

    def _close(self) -> None:
        """Nothing is open."""

    def _record(self, key: str) -> Record:
        return self._records.get(key, Record())

    def _store(self, key: str, record: Record | None) -> bool:
        if record is None:
            return False
        self._records[key] = record
        return True
