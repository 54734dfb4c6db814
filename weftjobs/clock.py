"""The clock: the only place that reads the time or sleeps."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import anyio
import anyio.lowlevel

_SLICE = 10.0
"""The longest single sleep in seconds: a clock that was set is noticed within it."""

_TURN = 0.005
"""How many seconds a task may hold the event loop before it lets others run."""

_TURN_STEPS = 200
"""How many steps it may do instead where time is driven by hand, so that order is repeatable."""


class Clock(Protocol):
    """Where a scheduler takes the time from.

    `SystemClock` is the real one; `weftjobs.testing.VirtualClock` is driven by hand.
    """

    def now(self) -> int:
        """Return the time in milliseconds since the epoch."""

    async def sleep_until(self, milliseconds: int, /) -> int | None:
        """Sleep until `now()` has reached the given time.

        It may return early: who sleeps looks at the time again and sleeps on. When the clock
        is set back it does so, and returns the time that the clock showed before.
        """


class SystemClock:
    """The wall clock of this machine."""

    def now(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    async def sleep_until(self, milliseconds: int, /) -> int | None:
        """Sleep until the given time, looking at the clock every 10 seconds.

        So it is exact over any length, and a machine that was suspended, or a clock that
        was set, is noticed within 10 seconds.

        Returns:
            The time that the clock showed before, when it was set back.
        """
        end, before = milliseconds * 1_000_000, time.time_ns()
        while (left := end - before) > 0:
            await anyio.sleep(min(left / 1e9, _SLICE))
            now = time.time_ns()
            if now < before:
                return before // 1_000_000
            before = now
        return None


def hold(clock: Clock) -> AbstractContextManager[object]:
    """Keep a clock that is driven by hand from moving on while a worker thread is busy."""
    return clock.hold() if hasattr(clock, "hold") else nullcontext()


async def wait(clock: Clock, event: anyio.Event) -> None:
    """Wait for an event, on a clock that is driven by hand without keeping it from moving on."""
    if hasattr(clock, "wait"):
        await clock.wait(event)
    else:
        await event.wait()


class Turn:
    """How long a task has held the event loop since it last let others run."""

    __slots__ = ("_end", "_steps")

    def __init__(self, clock: Clock) -> None:
        self._steps = 0 if hasattr(clock, "hold") else None
        self.begin()

    def begin(self) -> None:
        """Begin anew: others have just run."""
        if self._steps is None:
            self._end = time.perf_counter() + _TURN
        else:
            self._steps = 0

    def over(self) -> bool:
        """Return, after a step, whether it is time to let others run."""
        if self._steps is None:
            return time.perf_counter() > self._end
        self._steps += 1
        return self._steps > _TURN_STEPS

    async def yield_to_others(self) -> None:
        """Let the other tasks of the event loop run."""
        await anyio.lowlevel.checkpoint()
        self.begin()
