"""The end of an application: asked for in any thread, and how far it has come."""

from __future__ import annotations

import threading

import anyio

from weftjobs_controllers._posting import Post, poster


class Ending:
    """One per start of an application. The events are for those who wait in other threads.

    Attributes:
        asked: Whether somebody has asked it to stop, or it has ended by itself.
        runs_over: Whether no run is in progress any more, but those that were left behind.
        left: Whether its components have been left.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.runs_over = threading.Event()
        self.left = threading.Event()
        self._post: Post | None = None

    def attach(self) -> None:
        """Have the event loop that this is called on hear of it."""
        self._heard = anyio.Event()
        self._post = poster()
        if self.asked.is_set():
            self._heard.set()

    def ask(self) -> None:
        """Ask to stop, from any thread; asking again changes nothing."""
        self.asked.set()
        if self._post is not None:
            self._post(self._heard.set)

    async def heard(self) -> None:
        """Wait until somebody asks."""
        await self._heard.wait()

    def complete(self) -> None:
        """Tell that the application has ended, whatever the reason."""
        for event in (self.asked, self.runs_over, self.left):
            event.set()
