"""Threads that cannot keep the process from ending: for plain methods, and for an event loop."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import current_token

from weftjobs_controllers._posting import on_asyncio, poster

Backend = Literal["asyncio", "trio"]


Result = TypeVar("Result")


class ThreadCall(Generic[Result]):
    """A call of a plain function in a thread of its own, which may be left behind.

    anyio's worker threads are daemons on trio only: elsewhere one that never returns would
    keep the process alive.
    """

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        self._post = poster()
        self._token = current_token()
        self._done = anyio.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Start the call and wait until it has returned; cancelled, it goes on."""
        if on_asyncio():
            work = partial(_outside_of_loops().run, self._work_as_anyio)
            threading.Thread(target=work, name="weftjobs", daemon=True).start()
        else:
            await anyio.to_thread.run_sync(
                self._work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf)
            )
        await self.wait()

    async def wait(self) -> None:
        """Wait until the call has returned."""
        await self._done.wait()

    def result(self) -> Result:
        """Return what the call returned, or raise what it raised."""
        error, self._error = self._error, None
        if error is None:
            return cast(Result, self._result)
        try:
            raise error
        finally:
            # The frame that raises would keep the error alive, and the error its frames.
            del error

    def _work_as_anyio(self) -> None:
        # So that `anyio.from_thread.run` finds the event loop as in one of its own threads.
        threadlocals: Any = getattr(anyio.from_thread, "threadlocals", threading.local())
        threadlocals.current_token = self._token
        threadlocals.current_cancel_scope = None
        self._work()

    def _work(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error
        self._post(self._done.set)


def _outside_of_loops() -> Context:
    """Return a copy of this context in which no event loop seems to run."""
    context = copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context


class LoopThread:
    """An event loop in a daemon thread, which may be given up when it does not end.

    Attributes:
        ended: Whether the event loop has ended.
        error: What came out of it.

    Args:
        main: What runs on it.
        backend: Which event loop it is.
        on_end: Called in its thread when it has ended.
    """

    def __init__(
        self,
        main: Callable[[], Awaitable[None]],
        backend: Backend,
        on_end: Callable[[], object],
    ) -> None:
        self._main = main
        self._backend = backend
        self._on_end = on_end
        self._scope: anyio.CancelScope | None = None
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start the thread, with the context variables of this one."""
        run = partial(copy_context().run, self._run)
        threading.Thread(target=run, name="weftjobs event loop", daemon=True).start()

    def cancel(self) -> None:
        """Cancel what runs on the event loop, from any thread."""
        if self._scope is not None:
            self._post(self._scope.cancel)

    def _run(self) -> None:
        try:
            anyio.run(self._run_main, backend=self._backend)
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()
            self._on_end()

    async def _run_main(self) -> None:
        self._post = poster()
        with anyio.CancelScope() as self._scope:
            await self._main()
