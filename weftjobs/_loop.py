"""What the two event loops offer and anyio does not: posting without waiting, and who cancels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.lowlevel import current_token

Post = Callable[[Callable[[], object]], None]


def poster() -> Post:
    """Return what has a function called soon on this event loop, from any thread."""
    loop: Any = current_token().native_token
    call = loop.call_soon_threadsafe if on_asyncio() else loop.run_sync_soon

    def post(function: Callable[[], object]) -> None:
        try:
            call(function)
        except RuntimeError:
            # The loop has ended, and with it everything that could be told.
            pass

    return post


def on_asyncio() -> bool:
    """Return whether this event loop is asyncio's."""
    return hasattr(current_token().native_token, "call_soon_threadsafe")


def cancelled_from_outside(scope_cancelled: bool) -> bool:
    """Return whether a cancellation that just came up was meant for this task.

    On asyncio, awaiting a task that somebody else cancelled raises the same exception.
    """
    if scope_cancelled or not on_asyncio():
        return True
    import asyncio  # slow to import, and on trio not needed

    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
