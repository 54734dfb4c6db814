"""One run as a request: a new controller, told about the run, and its method called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import anyio.to_thread

from weftjobs import Clock
from weftjobs_controllers.actions import Action
from weftjobs_controllers.context import ScheduleContext

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application

_THREADS = 40
"""How many plain methods run at once, each in a worker thread."""


@runtime_checkable
class _HandDriven(Protocol):
    """A clock that stands still until it is moved, and must not be while a thread works."""

    def hold(self) -> AbstractContextManager[object]: ...


class Requests:
    """Makes the runs of one application's jobs."""

    def __init__(self, application: Application, clock: Clock) -> None:
        self._application = application
        self._hold = clock.hold if isinstance(clock, _HandDriven) else nullcontext
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._unlimited = anyio.CapacityLimiter(math.inf)

    async def make(self, action: Action, context: ScheduleContext) -> None:
        """Run a job once. What its method raises comes out, what it returns does not."""
        controller = action.controller()
        controller.application = self._application
        controller.context = context
        await self._call(getattr(controller, action.method))

    async def _call(self, method: Callable[[], Any]) -> None:
        if inspect.iscoroutinefunction(method):
            await method()
            return
        async with self._threads:
            with self._hold():
                # Wrapped, because trio refuses a bare coroutine.
                (result,) = await anyio.to_thread.run_sync(
                    lambda: (method(),), limiter=self._unlimited, abandon_on_cancel=True
                )
        if inspect.isawaitable(result):
            await result
