"""What a clock that is driven by hand offers beside the time, and what stands in for it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

import anyio

from weftjobs import Clock


@runtime_checkable
class HandDriven(Clock, Protocol):
    """A clock that stands still until it is moved, such as `weftjobs.testing.VirtualClock`."""

    def hold(self) -> AbstractContextManager[object]:
        """Keep time from moving on while a thread works."""

    def rest(self) -> AbstractContextManager[object]:
        """Let time move on although the code is inside a `hold`."""

    def move_on_after(self, duration: int) -> AbstractContextManager[anyio.CancelScope, bool]:
        """Cancel the block after so many milliseconds."""

    async def advance_until(self, event: anyio.Event) -> None:
        """Move time on until an event is set."""


def hold(clock: Clock) -> AbstractContextManager[object]:
    """Keep a clock that is driven by hand from moving on while a thread works."""
    return clock.hold() if isinstance(clock, HandDriven) else nullcontext()


def rest(clock: Clock) -> AbstractContextManager[object]:
    """Let a clock that is driven by hand move on while a thread that works waits."""
    return clock.rest() if isinstance(clock, HandDriven) else nullcontext()


def move_on_after(
    clock: Clock, milliseconds: int
) -> AbstractContextManager[anyio.CancelScope, bool]:
    """Cancel a block when it lasts longer: by a clock driven by hand, else by monotonic time."""
    if isinstance(clock, HandDriven):
        return clock.move_on_after(milliseconds)
    return anyio.move_on_after(milliseconds / 1000)


def elapsed(clock: Clock) -> int:
    """Return a time in ms that only moves on: of a clock driven by hand, else monotonic."""
    return clock.now() if isinstance(clock, HandDriven) else time.monotonic_ns() // 1_000_000


async def wait(clock: Clock, event: anyio.Event) -> None:
    """Wait for an event when nobody is left who would move a clock that is driven by hand."""
    if isinstance(clock, HandDriven):
        await clock.advance_until(event)
    else:
        await event.wait()
