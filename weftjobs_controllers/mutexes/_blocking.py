"""What all mutexes share whose store is asked by calls that block: threads, and time-outs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Self, TypeVar
from uuid import uuid4

import anyio

from weftjobs import InvalidScheduleError, SystemClock, format_duration, to_duration
from weftjobs_controllers import _clocks
from weftjobs_controllers._threads import ThreadCall
from weftjobs_controllers.errors import check_text

Result = TypeVar("Result")

_LEAST_LEASE = 1_000


LONGEST_ANSWER = 5_000
"""How many ms after a claim was sent the store may still carry it out."""

_FRESH = 30_000
"""How many ms the time of the store is carried on without asking it again."""


class StoreTime:
    """The time of a store, as far as it can be told without asking.

    A server that was stopped carries out, when it goes on, what was sent to it meanwhile. A
    claim that nobody waits for any more would lock a job for a whole lease. So a claim says
    until when, by the store's own time, it is meant.

    Args:
        ask: Returns the time of the store, in ms since the epoch.
    """

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._clock = SystemClock()
        self._asked: int | None = None
        self._ahead = 0

    def now(self) -> int:
        """Return the time of the store, in ms since the epoch."""
        at = _clocks.elapsed(self._clock)
        if self._asked is None or at - self._asked > _FRESH:
            self._ahead = self._ask() - _clocks.elapsed(self._clock)
            self._asked = at
        return at + self._ahead


class BlockingMutex(ABC):
    """A mutex whose store is asked by calls that block, each in a thread of its own.

    The threads are daemons: a store that never answers cannot keep the process from ending.

    Attributes:
        lease: How many milliseconds a lock is held unless it is renewed.
    """

    lease: int

    def __init__(self, lease: int | float | timedelta | str) -> None:
        self.lease = to_duration(lease, "lease")
        if self.lease < _LEAST_LEASE:
            raise InvalidScheduleError(
                f"lease: {format_duration(self.lease)} is too short",
                fix="Give it at least 1 second: it has to be renewed several times in between.",
            )

    async def try_acquire(
        self, key: str, *, lease: int, slot: int | None = None
    ) -> BlockingLease | None:
        """Acquire a lock without waiting for it; see `Mutex.try_acquire`."""
        check_text("key", key)
        nonce = uuid4().hex
        attempt = _Attempt(self, key, nonce, lease, slot)
        token = await self._call(attempt.make, attempt.give_up)
        return None if token is None else BlockingLease(self, key, token, nonce, lease)

    async def aclose(self) -> None:
        """Close what the mutex keeps open."""
        await self._call(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _call(
        self, function: Callable[[], Result], give_up: Callable[[], object] | None = None
    ) -> Result:
        """Call a function in a thread; cancelled, it is left to itself."""
        call: ThreadCall[Result] = ThreadCall(function)
        try:
            await call.run()
        except anyio.get_cancelled_exc_class():
            if give_up is not None:
                give_up()
            raise
        return call.result()

    # What a store does: each is one atomic step, called in a thread

    @abstractmethod
    def _claim(self, key: str, nonce: str, lease: int, slot: int | None) -> int | None:
        """Acquire the lock and return its token; `None` when that is not possible."""

    @abstractmethod
    def _renew(self, key: str, nonce: str, lease: int) -> bool:
        """Renew the lease; answer whether it is still held."""

    @abstractmethod
    def _release(self, key: str, nonce: str, hold: int) -> bool:
        """Give the lock back; answer whether it was still held."""

    @abstractmethod
    def _close(self) -> None:
        """Close what is open."""


class BlockingLease:
    """A lease that can be renewed in any thread; see `Lease`."""

    def __init__(self, mutex: BlockingMutex, key: str, token: int, nonce: str, lease: int) -> None:
        self.key = key
        self.token = token
        self._mutex = mutex
        self._nonce = nonce
        self._lease = lease

    def __repr__(self) -> str:
        return f"<Lease of {self.key!r}, token {self.token}>"

    async def renew(self) -> bool:
        """Hold the lock for another full lease; answer whether it is still held."""
        return await self._mutex._call(self.renew_blocking)

    def renew_blocking(self) -> bool:
        """Renew it from a thread, with no need for an event loop."""
        return self._mutex._renew(self.key, self._nonce, self._lease)

    async def release(self, *, hold: int = 0) -> bool:
        """Give the lock back, held for another while; answer whether it was still held."""
        return await self._mutex._call(partial(self._mutex._release, self.key, self._nonce, hold))


class _Attempt:
    """An attempt to acquire a lock that gives it back when nobody waits for it any more."""

    def __init__(
        self, mutex: BlockingMutex, key: str, nonce: str, lease: int, slot: int | None
    ) -> None:
        self._claim = partial(mutex._claim, key, nonce, lease, slot)
        self._release = partial(mutex._release, key, nonce, 0)
        self._lock = threading.Lock()
        self._acquired = False
        self._given_up = False

    def make(self) -> int | None:
        """Acquire the lock, in a thread."""
        token = self._claim()
        if token is not None:
            with self._lock:
                self._acquired = True
                given_up = self._given_up
            if given_up:
                self._release()
        return token

    def give_up(self) -> None:
        """Have the lock given back, now or when it is acquired."""
        with self._lock:
            self._given_up = True
            acquired = self._acquired
        if acquired:
            threading.Thread(target=self._release, name="weftjobs", daemon=True).start()
