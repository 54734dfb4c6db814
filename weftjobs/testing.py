"""Time driven by hand, so that a week of schedule takes milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import count

import anyio
import anyio.lowlevel

from weftjobs._loop import on_asyncio
from weftjobs.errors import InvalidScheduleError, JobsError, shown
from weftjobs.units import (
    MAX_INSTANT,
    Duration,
    Instant,
    to_datetime,
    to_duration,
    to_instant,
)

_ROUNDS = 20
"""How often others get a turn before anyio is asked, which on asyncio looks every 0.1 s only."""


_LOOK = 0.05
"""How many seconds `advance_until` waits before it looks for new sleepers."""


class _Sleeper:
    """One wait for a time; `elapsed` when it is for a length of time, whatever the clock says.

    With a scope it is a deadline: when its time has come, the scope is cancelled.
    """

    __slots__ = ("before", "due", "elapsed", "event", "order", "scope")

    def __init__(
        self, due: int, order: int, elapsed: bool, scope: anyio.CancelScope | None = None
    ) -> None:
        self.before: int | None = None
        self.due = due
        self.order = order
        self.elapsed = elapsed
        self.event = anyio.Event()
        self.scope = scope

    def __lt__(self, other: _Sleeper) -> bool:
        return (self.due, self.order) < (other.due, other.order)

    def wake(self) -> None:
        self.event.set()
        if self.scope is not None:
            self.scope.cancel()


class _Hold:
    """A worker thread at work, and how many waits it is in that are not waited for."""

    __slots__ = ("resting",)

    def __init__(self) -> None:
        self.resting = 0


class VirtualClock:
    """A clock that stands still until it is moved.

        clock = VirtualClock("2026-03-28T00:00:00Z")
        async with Scheduler(jobs, run, clock=clock):
            await clock.advance("26h")

    Leaving the block waits for the runs in progress. One that sleeps on the clock ends only
    when the clock is advanced that far: leaving before that is an error.

    Args:
        start: The time it shows at first: ms since the epoch, an aware `datetime`, or ISO
            8601 text with an offset.

    Raises:
        InvalidScheduleError: When the start is not an instant.
    """

    def __init__(self, start: Instant) -> None:
        self._now = to_instant(start, "start")
        self._order = count()
        self._sleepers: list[_Sleeper] = []
        self._holds: set[_Hold] = set()
        self._changed: anyio.Event | None = None
        self._advancing = False
        self._jumped = False

    def __repr__(self) -> str:
        return f"<VirtualClock at {to_datetime(self._now).isoformat()}>"

    def now(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return self._now

    async def sleep_until(self, milliseconds: int, /) -> int | None:
        """Sleep until the clock was advanced to the given time, or has jumped.

        Returns:
            The time that the clock showed before, when it jumped back.
        """
        sleeper = await self._wait(milliseconds, elapsed=False)
        return sleeper.before if sleeper is not None else None

    async def sleep(self, duration: Duration) -> None:
        """Sleep for a length of time, for example in a run that takes it.

        Args:
            duration: Milliseconds, a `timedelta`, or text such as `'5m'`.
        """
        await self._wait(self._now + to_duration(duration, "duration"), elapsed=True)

    async def advance(self, duration: Duration) -> None:
        """Move time on, firing everything on the way in order, each at its own time.

        Edits made before are taken in before time moves. It returns when all that was set
        off has settled: what runs has ended, or waits; plain runs, in their worker threads,
        have ended, or sleep on this clock, or wait in `Scheduler.stop()`. A thread that an
        `async` run starts itself is waited for when it does so inside `clock.hold()`.

        Args:
            duration: Milliseconds, a `timedelta`, or text such as `'26h'`; 0 fires what is
                due now.

        Raises:
            InvalidScheduleError: When it is not a duration, or negative.
            JobsError: `invalid`, when the clock is being advanced already.
        """
        step = _to_step(duration)
        if step < 0:
            raise InvalidScheduleError(
                f"duration: {shown(duration)} is negative", fix="Step back with clock.jump()."
            )
        target = to_instant(self._now + step, "clock")
        if self._advancing:
            raise JobsError(
                "clock: it is being advanced already",
                reason="invalid",
                fix="Advance it from one task only; a run that takes time awaits clock.sleep().",
            )
        await self._move(target)
        self._now = max(self._now, target)

    async def advance_until(self, event: anyio.Event) -> None:
        """Move time on, firing everything on the way in order, until an event is set.

        While somebody else advances the clock it only waits.
        """
        while not event.is_set():
            if not self._advancing:
                await self._move(MAX_INSTANT, event)
            # What time does not move, a thread or a socket, may put another to sleep.
            with anyio.move_on_after(_LOOK):
                await event.wait()

    def jump(self, duration: Duration) -> None:
        """Set the clock with nothing firing, as on a machine that slept, or by an operator.

        What has come due meanwhile fires late, with the next `advance`.

        Args:
            duration: Milliseconds, a `timedelta`, or text such as `'3d'`; negative numbers
                and negative `timedelta`s step back.

        Raises:
            InvalidScheduleError: When it is not a duration.
        """
        step = _to_step(duration)
        before, self._now = self._now, to_instant(self._now + step, "clock")
        self._jumped = True
        if step < 0:
            for sleeper in self._sleepers:
                sleeper.before = max(before, sleeper.before or before)
                if sleeper.elapsed:
                    sleeper.due += step
            heapify(self._sleepers)

    @contextmanager
    def move_on_after(self, duration: Duration) -> Iterator[anyio.CancelScope]:
        """Cancel the code of this block when it lasts longer, like `anyio.move_on_after`.

        Args:
            duration: Milliseconds, a `timedelta`, or text such as `'5m'`, by this clock.

        Raises:
            InvalidScheduleError: When it is not a duration.
        """
        due = self._now + to_duration(duration, "duration")
        with anyio.CancelScope() as scope:
            deadline = _Sleeper(due, next(self._order), elapsed=True, scope=scope)
            heappush(self._sleepers, deadline)
            token = _bounded.set(True)
            try:
                yield scope
            finally:
                _bounded.reset(token)
                deadline.event.set()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep time from moving on until the block ends, unless its code sleeps on the clock."""
        hold = _Hold()
        self._holds.add(hold)
        token = _held.set(hold)
        try:
            yield
        finally:
            _held.reset(token)
            self._holds.discard(hold)
            self._notify()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Let time move on although the code of this block is inside a `hold`."""
        hold = _held.get()
        if hold is None:
            yield
            return
        hold.resting += 1
        self._notify()
        try:
            yield
        finally:
            hold.resting -= 1

    async def wait(self, event: anyio.Event) -> None:
        """Wait for an event that what is in progress leads to, as `Scheduler.stop()` does.

        Raises:
            JobsError: `invalid`, when that would be without end: what is in progress sleeps on
                the clock, nobody advances it, and this is not inside `move_on_after`.
        """
        with self.rest():
            if not self._advancing and not _bounded.get():
                await anyio.wait_all_tasks_blocked()
            asleep = [s.due for s in self._sleepers if s.elapsed and not s.event.is_set()]
            if asleep and not (self._advancing or event.is_set() or _bounded.get()):
                raise JobsError(
                    f"clock: a run sleeps until {to_datetime(min(asleep)).isoformat()}, "
                    "and nobody advances the clock any more",
                    reason="invalid",
                    fix="Advance it past that before the scheduler is stopped.",
                )
            await event.wait()

    async def _wait(self, due: int, *, elapsed: bool) -> _Sleeper | None:
        if due <= self._now:
            await anyio.lowlevel.checkpoint()
            return None
        sleeper = _Sleeper(due, next(self._order), elapsed)
        heappush(self._sleepers, sleeper)
        try:
            with self.rest():
                await sleeper.event.wait()
        finally:
            sleeper.event.set()
        return sleeper

    async def _move(self, target: int, until: anyio.Event | None = None) -> None:
        """Move time from one sleeper to the next, up to the target or until an event is set."""
        self._advancing = True
        try:
            await self._settle()
            await self._wake_after_jump()
            while not (until is not None and until.is_set()):
                sleeper = self._soonest(target)
                if sleeper is None:
                    break
                self._now = max(self._now, sleeper.due)
                await self._wake_due()
        finally:
            self._advancing = False

    def _soonest(self, target: int) -> _Sleeper | None:
        """Return who wakes first, if not past the target; those who gave up are dropped."""
        sleepers = self._sleepers
        while sleepers and sleepers[0].event.is_set():
            heappop(sleepers)
        return sleepers[0] if sleepers and sleepers[0].due <= target else None

    async def _wake_due(self) -> None:
        """Wake all that sleep until now, in order, and wait for what that sets off."""
        while self._soonest(self._now) is not None:
            heappop(self._sleepers).wake()
            if on_asyncio():
                # Its queue is first in, first out: the order stays without settling in between.
                continue
            await anyio.wait_all_tasks_blocked()
        await self._settle()

    async def _wake_after_jump(self) -> None:
        """Have those who sleep until a time look at the clock again."""
        if not self._jumped:
            return
        self._jumped = False
        for sleeper in sorted(self._sleepers):
            if not sleeper.elapsed:
                sleeper.wake()
        await self._settle()

    async def _settle(self) -> None:
        """Wait until every task waits and no worker thread is at work."""
        while True:
            for _ in range(_ROUNDS):
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            if all(hold.resting for hold in self._holds):
                return
            self._changed = anyio.Event()
            await self._changed.wait()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()


_held: ContextVar[_Hold | None] = ContextVar("weftjobs_held", default=None)
"""The hold that the code is inside of; it follows a run into its thread and back."""


_bounded: ContextVar[bool] = ContextVar("weftjobs_bounded", default=False)
"""Whether the code is inside of a `move_on_after`."""


def _to_step(duration: Duration) -> int:
    """Read a duration that may be nothing, or negative."""
    if duration in (0, timedelta()) and not isinstance(duration, bool):
        return 0
    backwards = (isinstance(duration, timedelta) and duration < timedelta()) or (
        isinstance(duration, int | float) and duration < 0
    )
    if backwards:
        return -to_duration(-duration, "duration")  # type: ignore[operator]
    return to_duration(duration, "duration")
