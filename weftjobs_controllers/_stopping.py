"""The wish that an application stops: made in any thread, heard on its event loop."""

from __future__ import annotations

from typing import Any

import anyio
from anyio.lowlevel import current_token


class StopRequest:
    """Belongs to the event loop that it is created on.

    Attributes:
        made: Whether it was made, from the very moment on.
    """

    def __init__(self) -> None:
        self.made = False
        self._heard = anyio.Event()
        loop: Any = current_token().native_token
        on_asyncio = hasattr(loop, "call_soon_threadsafe")
        self._post = loop.call_soon_threadsafe if on_asyncio else loop.run_sync_soon

    def make(self) -> None:
        """Ask to stop, from any thread; asking again changes nothing."""
        self.made = True
        try:
            self._post(self._heard.set)
        except RuntimeError:
            # The event loop has ended, and the application with it.
            pass

    async def wait(self) -> None:
        """Wait until somebody asks."""
        await self._heard.wait()
