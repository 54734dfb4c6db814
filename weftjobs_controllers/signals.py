"""The signal by which a run learns that it should end."""

from __future__ import annotations

from datetime import timedelta

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken, current_token

from weftjobs import Clock, to_duration
from weftjobs_controllers import _clocks
from weftjobs_controllers.errors import CannotRunHereError


class AbortSignal:
    """Tells a run that it should end: `self.signal` in a controller.

    It is aborted when the application stops and the run has not ended within the
    `shutdown_timeout`, when the run exceeds its `timeout`, and when an exclusive run loses its
    lock. An `async` run is cancelled as well; a plain method, which nothing can cancel, looks at
    the signal:

        @schedule("1h")
        def reindex(self) -> None:
            for document in documents():
                if self.signal.aborted:
                    return
                index(document)

    """

    __slots__ = ("_clock", "_event", "_made", "_token")

    def __init__(self, clock: Clock, token: EventLoopToken) -> None:
        self._clock = clock
        self._token = token
        self._made = False
        self._event: anyio.Event | None = None

    def __repr__(self) -> str:
        return f"<AbortSignal {'aborted' if self.aborted else 'not aborted'}>"

    @property
    def aborted(self) -> bool:
        """Whether the run should end; may be read in any thread."""
        return self._made

    async def wait(self) -> None:
        """Wait until the run should end."""
        if self._event is None:
            self._event = anyio.Event()
        if self.aborted:
            self._event.set()
        await self._event.wait()

    def wait_blocking(self, timeout: int | float | timedelta | str | None = None) -> bool:
        """Wait in a worker thread until the run should end, or a time has passed.

        Args:
            timeout: How long at most: milliseconds, a `timedelta`, or text such as `'1s'`.
                On a `VirtualClock` it is that clock's time.

        Returns:
            Whether the run should end.

        Raises:
            InvalidScheduleError: The timeout is not a duration.
            CannotRunHereError: It is called on the event loop, which it would block.
        """
        milliseconds = None if timeout is None else to_duration(timeout, "timeout")
        if on_event_loop():
            raise CannotRunHereError(
                "signal: wait_blocking()",
                "on the event loop, which it would block",
                fix="Write `await self.signal.wait()` there.",
            )
        if not self.aborted:
            anyio.from_thread.run(self._wait_for, milliseconds, token=self._token)
        return self.aborted

    async def _wait_for(self, milliseconds: int | None) -> None:
        with _clocks.rest(self._clock):
            if milliseconds is None:
                await self.wait()
            else:
                with _clocks.move_on_after(self._clock, milliseconds):
                    await self.wait()

    def _abort(self) -> None:
        """Abort the run, on the event loop."""
        self._made = True
        if self._event is not None:
            self._event.set()


def on_event_loop() -> bool:
    """Return whether this code runs inside an event loop."""
    try:
        current_token()
    except anyio.NoEventLoopError:
        return False
    return True
