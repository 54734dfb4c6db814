"""One run as a request: middlewares, access control, a new controller, and its method."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from weftjobs import Clock
from weftjobs_controllers import _clocks
from weftjobs_controllers._threads import ThreadCall
from weftjobs_controllers.access import Rule, check_access
from weftjobs_controllers.actions import Action
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.controller import Controller
from weftjobs_controllers.errors import (
    InvalidArgumentError,
    LeaseLostError,
    RunAbortedError,
    RunTimeoutError,
)
from weftjobs_controllers.middlewares import Middleware, chained

ControllerFactory = Callable[[type[Controller], ScheduleContext], object]
"""Makes the controller of a run; may be `async`."""


CutShort = RunTimeoutError | LeaseLostError
"""Why a run is cut short."""


class Patience:
    """What may go on for a moment after its run was cancelled: threads, and cleaning up.

    Attributes:
        over: Whether it has ended.
    """

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self.over = False

    @contextmanager
    def shield(self) -> Iterator[anyio.CancelScope]:
        """Shield a block from being cancelled, until patience is over."""
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            if self.over:
                scope.cancel()
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def end(self) -> None:
        """Cancel what is shielded, now and later."""
        self.over = True
        for scope in list(self._scopes):
            scope.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What all runs of an entrypoint go through.

    Attributes:
        middlewares: Those of the entrypoint, then those of the adapter.
        rules: Those of the entrypoint.
        factory: Makes the controllers; `None` to call their classes.
        clock: The time that a timeout is measured by.
        patience: Ends when the application stops and its runs do not.
        ignored: Told why a run was cut short that goes on in its thread all the same.
        watch: Runs something beside a run.
    """

    middlewares: tuple[Middleware, ...]
    rules: tuple[Rule, ...]
    factory: ControllerFactory | None
    clock: Clock
    patience: Patience = field(default_factory=Patience)
    ignored: Callable[[ScheduleContext, CutShort], Awaitable[None]]
    watch: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


class Request:
    """One run of a job."""

    __slots__ = ("_action", "_context", "_cut", "_pipeline", "_scope")

    def __init__(self, pipeline: Pipeline, action: Action, context: ScheduleContext) -> None:
        self._pipeline = pipeline
        self._action = action
        self._context = context
        self._cut: CutShort | None = None
        self._scope: anyio.CancelScope | None = None

    async def make(self) -> None:
        """Run. What the method returns is ignored; what fails the run comes out.

        Raises:
            RunTimeoutError: It exceeded its timeout.
            LeaseLostError: It lost its lock.
            RunAbortedError: Its thread was left behind when the application stopped.
            AccessDeniedError: A rule refused it.
        """
        try:
            await self._run()
        except BaseException as error:
            if not await self._close(error):
                raise
        else:
            await self._close(None)
        finally:
            self._raise_loss()

    def _raise_loss(self) -> None:
        """Raise that the lock was lost, also when closing the scope hid that, or took long."""
        cut, self._cut = self._cut, None
        try:
            if isinstance(cut, LeaseLostError):
                raise cut
        finally:
            # The error would keep its frames alive, and they the error.
            del cut

    def cut_short(self, why: CutShort) -> None:
        """End the run: abort its signal, cancel it when it is `async`, and have it fail."""
        if self._cut is None:
            self._cut = why
            self._context.signal._abort()
            if self._scope is not None:
                self._scope.cancel()

    async def _close(self, error: BaseException | None) -> bool | None:
        """Leave what the run entered in its scope, whether it is cancelled or not."""
        scope = self._context._scope.stack
        if scope is None:
            return False
        details = (
            (None, None, None) if error is None else (type(error), error, error.__traceback__)
        )
        with self._pipeline.patience.shield():
            return await scope.__aexit__(*details)

    async def _run(self) -> None:
        spec = self._action.spec
        middlewares = (*self._pipeline.middlewares, *spec.middlewares)
        call = chained(middlewares, self._go_on) if middlewares else self._go_on
        if spec.timeout is None and spec.exclusive is None:
            await call(self._context)
        else:
            await self._limited(call(self._context))

    async def _limited(self, call: Awaitable[object]) -> None:
        ended = anyio.Event()
        if self._action.spec.timeout is not None:
            self._pipeline.watch(partial(self._time, self._action.spec.timeout, ended))
        try:
            with anyio.CancelScope() as self._scope:
                if self._cut is not None:
                    self._scope.cancel()
                await call
        except RunAbortedError:
            raise
        except Exception as error:
            if self._cut is not None:
                raise self._cut from error
            raise
        finally:
            ended.set()
        if self._cut is not None:
            raise self._cut

    async def _time(self, limit: int, ended: anyio.Event) -> None:
        """Cut the run short when it lasts too long; in a task of its own, which tells first."""
        with _clocks.move_on_after(self._pipeline.clock, limit):
            await ended.wait()
        if not ended.is_set():
            self.cut_short(RunTimeoutError(self._action.name, limit))

    async def _go_on(self, context: ScheduleContext) -> object:
        """Do what the middlewares are around."""
        spec = self._action.spec
        if spec.acl or spec.rule is not None:
            rules = self._pipeline.rules if spec.acl else ()
            own = () if spec.rule is None else (spec.rule,)
            await check_access((*rules, *own), context)
        controller = await self._make_controller(context)
        method = getattr(controller, self._action.method)
        if inspect.iscoroutinefunction(method):
            return await method()
        result = await self._call_in_thread(method)
        return await result if inspect.isawaitable(result) else result

    async def _make_controller(self, context: ScheduleContext) -> Controller:
        factory = self._pipeline.factory
        if factory is None:
            controller: object = self._action.controller()
        else:
            controller = factory(self._action.controller, context)
            if inspect.isawaitable(controller):
                controller = await controller
        if not isinstance(controller, Controller):
            raise InvalidArgumentError(
                "controller_factory",
                controller,
                "is not a controller",
                fix=f"Have it return an instance of {self._action.controller.__name__}.",
            )
        controller.context = context
        return controller

    async def _call_in_thread(self, method: Callable[[], object]) -> object:
        call: ThreadCall[object] = ThreadCall(method)
        with _clocks.hold(self._pipeline.clock):
            try:
                await call.run()
            except anyio.get_cancelled_exc_class():
                await self._wait_patiently(call)
        return call.result()

    async def _wait_patiently(self, call: ThreadCall[object]) -> None:
        """Wait for a thread although its run is cancelled, until patience is over."""
        signal = self._context.signal
        signal._abort()
        with self._pipeline.patience.shield() as scope:
            if self._cut is not None:
                await self._pipeline.ignored(self._context, self._cut)
            await call.wait()
        if scope.cancel_called:
            raise RunAbortedError(self._action.name, lost=True)
