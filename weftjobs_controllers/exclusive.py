"""A lease held around a run: acquired, renewed while the run lasts, and given back."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import TaskGroup

from weftjobs import Clock, SystemClock
from weftjobs_controllers import _clocks
from weftjobs_controllers._posting import poster
from weftjobs_controllers.actions import Action, Exclusive
from weftjobs_controllers.errors import (
    LeaseLostError,
    MissingMutexError,
    MutexError,
    UnknownComponentError,
)

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application
    from weftjobs_controllers.mutexes.protocol import Lease, Mutex

LONGEST_CALL = 5.0
"""How many seconds the acquisition and the release of a lock may take, cancelled or not."""

_LEASE = 30_000
"""How many ms a lock is held of a mutex that has no setting for that."""

_LONGEST_HOLD = 30_000
"""How many ms after its planned time the lock of a run is held at most."""


def longest_hold(due: int, following: int | None) -> int:
    """Return how many ms after its planned time the lock of a run is held.

    That is half the gap to the next slot, and 30 seconds at most.

    Args:
        due: The planned time of the run, in ms since the epoch.
        following: The slot after it.
    """
    return _LONGEST_HOLD if following is None else min((following - due) // 2, _LONGEST_HOLD)


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that was acquired for a run.

    Attributes:
        lease: The lease.
        lasts: How many ms it lasts unless it is renewed.
        since: When it was asked for, in ms of the keeper's time.
    """

    lease: Lease
    lasts: int
    since: int


class Locks:
    """The locks of the exclusive jobs of one session."""

    def __init__(self, application: Application, clock: Clock) -> None:
        self._application = application
        self._clock = clock
        self._calls = 0
        self._quiet = anyio.Event()
        self._real = SystemClock()
        self._deadline: int | None = None

    def hurry(self) -> None:
        """Bound all calls together from now on, because the application stops."""
        if self._deadline is None:
            self._deadline = _clocks.elapsed(self._real) + int(LONGEST_CALL * 1000)

    async def acquire(self, action: Action, slot: int | None) -> Held | None:
        """Acquire the lock of a job without waiting for it; `None` when it is not to be had.

        Raises:
            MissingMutexError: The application has no such mutex.
            MutexError: It cannot be reached, or does not answer in time.
        """
        assert action.spec.exclusive is not None
        key = key_of(action)
        mutex = await self._mutex(action.name, action.spec.exclusive)
        lasts = getattr(mutex, "lease", _LEASE)
        since = _clocks.elapsed(self._clock)
        lease: Lease | None = None
        async with self._calling() as scope:
            lease = await mutex.try_acquire(key, lease=lasts, slot=slot)
        if scope.cancelled_caught:
            raise MutexError(repr(mutex), key, f"no answer within {LONGEST_CALL:g} s")
        return None if lease is None else Held(lease, lasts, since)

    async def release(self, held: Held, hold: int) -> None:
        """Give a lock back, held for so many more ms.

        Raises:
            MutexError: The mutex cannot be reached, or does not answer in time.
        """
        async with self._calling() as scope:
            await held.lease.release(hold=max(0, hold))
        if scope.cancelled_caught:
            what = f"no answer to its release within {LONGEST_CALL:g} s"
            raise MutexError("the store", held.lease.key, what)

    async def quiet(self) -> None:
        """Wait until no lock is being acquired or given back."""
        while self._calls:
            if self._quiet.is_set():
                self._quiet = anyio.Event()
            await self._quiet.wait()

    async def _mutex(self, action: str, exclusive: Exclusive) -> Mutex:
        mutex: Any = None
        try:
            with anyio.move_on_after(LONGEST_CALL) as scope:
                mutex = await self._application.get(exclusive.mutex)
        except UnknownComponentError:
            raise MissingMutexError(action, exclusive.mutex) from None
        if scope.cancelled_caught:
            what = f"it has not started within {LONGEST_CALL:g} s"
            raise MutexError(f"the component {exclusive.mutex!r}", action, what)
        if not hasattr(mutex, "try_acquire"):
            raise MissingMutexError(action, exclusive.mutex)
        return cast("Mutex", mutex)

    @asynccontextmanager
    async def _calling(self) -> AsyncIterator[anyio.CancelScope]:
        """Shield a call from being cancelled, within its bound of time."""
        self._calls += 1
        try:
            with _clocks.hold(self._clock):
                with anyio.move_on_after(self._bound(), shield=True) as scope:
                    yield scope
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    def _bound(self) -> float:
        """Return how many seconds a call may take."""
        if self._deadline is None:
            return LONGEST_CALL
        return max(0.1, (self._deadline - _clocks.elapsed(self._real)) / 1000)


def key_of(action: Action) -> str:
    """Return what the lock of an exclusive job is called."""
    exclusive = action.spec.exclusive
    assert exclusive is not None
    return f"schedule:{exclusive.key or action.name}"


class Keeper:
    """Keeps a lease while a run lasts, and tells when it is lost.

    It is renewed every third of it in a thread, so that a run that blocks the event loop does
    not lose it, where the lease can be renewed by a call that blocks and time is real; else on
    the event loop. What the event loop sees to is that nobody goes on without an answer.

    Args:
        action: The job.
        held: The lock.
        clock: Its time, when it is driven by hand; else time is monotonic.
        lost: Told once, on the event loop, that the lease is lost.
    """

    def __init__(
        self, action: Action, held: Held, clock: Clock, lost: Callable[[LeaseLostError], object]
    ) -> None:
        self._action = action
        self._held = held
        self._clock = clock
        self._lost = lost
        self._good = held.since
        self._limit = held.lasts * 9 // 10
        self._scope = anyio.CancelScope()
        self._refused = anyio.Event()
        self._stopped = threading.Event()
        renew = getattr(held.lease, "renew_blocking", None)
        self._renew = None if isinstance(clock, _clocks.HandDriven) else renew

    def start(self, tasks: TaskGroup) -> None:
        """Keep the lease from now on, although the run may block the event loop at once."""
        if self._renew is not None:
            self._post = poster()
            threading.Thread(target=self._renew_regularly, name="weftjobs", daemon=True).start()
        tasks.start_soon(self._keep)

    def stop(self) -> None:
        """Stop before the lease is given back."""
        self._stopped.set()
        self._scope.cancel()

    async def _keep(self) -> None:
        with self._scope:
            reason = await self._watch()
            if not self._stopped.is_set():
                held = (_clocks.elapsed(self._clock) - self._held.since) / 1000
                lease = self._held.lease
                error = LeaseLostError(self._action.name, lease.key, lease.token, reason, held)
                self._lost(error)

    async def _watch(self) -> str:
        """Wait until the lease is lost, and return why."""
        step = self._held.lasts // 3 if self._renew is None else self._held.lasts * 17 // 20
        ask_at = self._good + step
        while True:
            left = ask_at - _clocks.elapsed(self._clock)
            if left > 0:
                with _clocks.move_on_after(self._clock, left):
                    await self._refused.wait()
            if self._refused.is_set():
                return "revoked"
            if self._good + step > ask_at:
                # The thread has renewed it meanwhile.
                ask_at = self._good + step
                continue
            answer = await self._ask()
            if answer is False:
                return "revoked"
            now = _clocks.elapsed(self._clock)
            if answer:
                ask_at = self._good + step
            elif now >= self._good + self._limit:
                return "unreachable"
            else:
                ask_at = min(now + self._held.lasts // 10, self._good + self._limit)

    async def _ask(self) -> bool | None:
        """Renew the lease, and return whether it is still held; `None` without an answer."""
        began = _clocks.elapsed(self._clock)
        left = self._good + self._limit - began
        # Past the limit the process was stopped: it asks before it gives up.
        bound = max(min(left, self._held.lasts // 3), self._held.lasts // 20, 100)
        with _clocks.hold(self._clock), anyio.move_on_after(bound / 1000):
            try:
                renewed = await self._held.lease.renew()
            except Exception:
                return None
            if renewed:
                self._good = max(self._good, began)
            return renewed
        return None

    def _renew_regularly(self) -> None:
        assert self._renew is not None
        pause = self._held.lasts / 3
        while not self._stopped.wait(pause / 1000):
            began = _clocks.elapsed(self._clock)
            pause = self._held.lasts / 10
            try:
                renewed = self._renew()
            except Exception:
                continue
            if not renewed:
                self._post(self._refused.set)
                return
            self._good = max(self._good, began)
            pause = self._held.lasts / 3
