"""Having the event loop call a function soon, from any thread and without waiting for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio.lowlevel import current_token

Post = Callable[[Callable[[], object]], None]


def poster() -> Post:
    """Return what posts to the event loop that this is called on; nothing once it has ended."""
    loop: Any = current_token().native_token
    call = loop.call_soon_threadsafe if on_asyncio() else loop.run_sync_soon

    def post(function: Callable[[], object]) -> None:
        try:
            call(function)
        except RuntimeError:
            # The event loop has ended, and with it everything that could be told.
            pass

    return post


def on_asyncio() -> bool:
    """Return whether this event loop is asyncio's."""
    return hasattr(current_token().native_token, "call_soon_threadsafe")
