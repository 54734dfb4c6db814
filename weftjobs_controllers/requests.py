"""One run as a request: middlewares, access control, a new controller, and its method."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import EventLoopToken

from weftjobs import Clock, Row, Trigger
from weftjobs_controllers import _clocks
from weftjobs_controllers._threads import ThreadCall
from weftjobs_controllers.access import Rule, check_access
from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.context import ScheduleContext, Source, keep_first
from weftjobs_controllers.controller import Controller
from weftjobs_controllers.errors import (
    InvalidArgumentError,
    LeaseLostError,
    RunAbortedError,
    RunTimeoutError,
)
from weftjobs_controllers.middlewares import Middleware, chained
from weftjobs_controllers.planning import moment, text_of
from weftjobs_controllers.signals import AbortSignal

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application

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
        application: The application.
        middlewares: Those of the entrypoint, then those of the adapter.
        rules: Those of the entrypoint.
        factory: Makes the controllers; `None` to call their classes.
        clock: The time that a timeout is measured by.
        token: Stands for the event loop.
        patience: Ends when the application stops and its runs do not.
        describe: Describes a job as its row is now.
        ignored: Told why a run was cut short that goes on in its thread all the same.
        watch: Runs something beside a run.
    """

    application: Application
    middlewares: tuple[Middleware, ...]
    rules: tuple[Rule, ...]
    factory: ControllerFactory | None
    clock: Clock
    token: EventLoopToken
    patience: Patience = field(default_factory=Patience)
    describe: Callable[[Action, Row], ActionInfo]
    ignored: Callable[[ScheduleContext, CutShort], Awaitable[None]]
    watch: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


class Route:
    """The way that all runs of one job go, found out once.

    Attributes:
        action: The job.
        pipeline: What it has in common with other jobs.
        middlewares: All that its runs pass, the first one outermost.
        rules: All that are asked.
        function: The method, as the class has it.
        is_plain: Whether that is called in a thread.
        is_exclusive: Whether a run needs a lock.
        is_limited: Whether a run may be cut short.
        may_wait: Whether a run that is due may wait before it starts.
        runs: How many runs have started.
    """

    def __init__(self, pipeline: Pipeline, action: Action) -> None:
        spec = action.spec
        own = () if spec.rule is None else (spec.rule,)
        self.action = action
        self.pipeline = pipeline
        self.middlewares = (*pipeline.middlewares, *spec.middlewares)
        self.rules: tuple[Rule, ...] = (*pipeline.rules, *own) if spec.acl else own
        self.function = getattr(action.controller, action.method)
        self.is_plain = not inspect.iscoroutinefunction(self.function)
        self.is_exclusive = spec.exclusive is not None
        self.is_limited = spec.timeout is not None or self.is_exclusive
        self.may_wait = self.is_plain or spec.skip_if is not None
        self.runs = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the row of a job says, read at each edit of it because every run asks for it.

    Attributes:
        route: The way that its runs go.
        trigger: When it runs; `None` when it cannot be scheduled.
        schedule: That as text.
        overlap: Whether its runs may overlap.
    """

    route: Route
    trigger: Trigger | None
    schedule: str
    overlap: bool

    @classmethod
    def of(cls, row: Row, route: Route, trigger: Trigger | None) -> Plan:
        """Return the plan of a row with a trigger."""
        return cls(route, trigger, text_of(trigger), bool(row.get("overlap")))


class Request(Source):
    """One run of a job, and where its context finds what is asked for.

    Attributes:
        plan: What the row said when the run was due.
        row: The row.
        due: The planned time, in ms since the epoch.
        run: The number of the run; before it starts, the one that it would have had at once.
        lease_token: The fencing token of an exclusive run.
        at_launch: Whether it is the run that the launch of its job set off.
        has_thread: Whether a thread is kept free for it.
    """

    lease_token: int | None = None
    at_launch = False
    has_thread = False
    _action: ActionInfo | None = None
    _signal: AbortSignal | None = None
    _cut: CutShort | None = None
    _scope: anyio.CancelScope | None = None

    def __init__(self, plan: Plan, row: Row, due: int) -> None:
        self.plan = plan
        self.row = row
        self.due = due
        self.run = plan.route.runs + 1

    # What the context tells

    @property
    def schedule(self) -> str:
        """The schedule as text."""
        return self.plan.schedule

    @property
    def scheduled_at(self) -> datetime:
        """The planned time."""
        return moment(self.due, self.plan.trigger)

    @property
    def action(self) -> ActionInfo:
        """The job, as it is when it is first asked for."""
        if self._action is not None:
            return self._action
        route = self.plan.route
        return keep_first(self, "_action", route.pipeline.describe(route.action, self.row))

    @property
    def application(self) -> Application:
        """The application."""
        return self.plan.route.pipeline.application

    @property
    def signal(self) -> AbortSignal:
        """Tells the run that it should end."""
        if self._signal is not None:
            return self._signal
        pipeline = self.plan.route.pipeline
        return keep_first(self, "_signal", AbortSignal(pipeline.clock, pipeline.token))

    # Its life

    def start(self, lease_token: int | None = None) -> None:
        """Count the run; others of the job may have started since it was due."""
        route = self.plan.route
        route.runs += 1
        self.run = route.runs
        self.lease_token = lease_token

    async def make(self, context: ScheduleContext) -> None:
        """Run. What the method returns is ignored; what fails the run comes out.

        Raises:
            RunTimeoutError: It exceeded its timeout.
            LeaseLostError: It lost its lock.
            RunAbortedError: Its thread was left behind when the application stopped.
            AccessDeniedError: A rule refused it.
        """
        try:
            await self._call(context)
        except BaseException as error:
            if not await self.leave(error):
                raise
        else:
            if self.stack is not None:
                await self.leave()
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
            self.signal._abort()
            if self._scope is not None:
                self._scope.cancel()

    async def leave(self, error: BaseException | None = None) -> bool | None:
        """Leave what the run entered in its scope, whether it is cancelled or not."""
        if self.stack is None:
            return False
        details = (
            (None, None, None) if error is None else (type(error), error, error.__traceback__)
        )
        with self.plan.route.pipeline.patience.shield():
            try:
                return await self.stack.__aexit__(*details)
            finally:
                del self.stack

    def _call(self, context: ScheduleContext) -> Awaitable[object]:
        route = self.plan.route
        call = chained(route.middlewares, self._go_on) if route.middlewares else self._go_on
        return self._limited(call(context)) if route.is_limited else call(context)

    async def _limited(self, call: Awaitable[object]) -> None:
        ended = anyio.Event()
        route = self.plan.route
        if route.action.spec.timeout is not None:
            route.pipeline.watch(partial(self._time, route.action.spec.timeout, ended))
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
        route = self.plan.route
        with _clocks.move_on_after(route.pipeline.clock, limit):
            await ended.wait()
        if not ended.is_set():
            self.cut_short(RunTimeoutError(route.action.name, limit))

    async def _go_on(self, context: ScheduleContext) -> object:
        """Do what the middlewares are around."""
        route = self.plan.route
        action, factory = route.action, route.pipeline.factory
        if route.rules:
            await check_access(route.rules, context)
        if factory is None:
            controller: object = action.controller()
        else:
            controller = factory(action.controller, context)
            if inspect.isawaitable(controller):
                controller = await controller
        if not isinstance(controller, Controller):
            raise _not_a_controller(controller, action.controller)
        controller.context = context
        method = getattr(controller, action.method)
        # A factory may make one of another class, and anybody may put something in its place.
        known = getattr(method, "__func__", None) is route.function
        is_plain = route.is_plain if known else not inspect.iscoroutinefunction(method)
        if not is_plain:
            return await method()
        result = await self._call_in_thread(method, context)
        return await result if inspect.isawaitable(result) else result

    async def _call_in_thread(
        self, method: Callable[[], object], context: ScheduleContext
    ) -> object:
        call: ThreadCall[object] = ThreadCall(method)
        with _clocks.hold(self.plan.route.pipeline.clock):
            try:
                await call.run()
            except anyio.get_cancelled_exc_class():
                await self._wait_patiently(call, context)
        return call.result()

    async def _wait_patiently(self, call: ThreadCall[object], context: ScheduleContext) -> None:
        """Wait for a thread although its run is cancelled, until patience is over."""
        self.signal._abort()
        route = self.plan.route
        with route.pipeline.patience.shield() as scope:
            if self._cut is not None:
                await route.pipeline.ignored(context, self._cut)
            await call.wait()
        if scope.cancel_called:
            raise RunAbortedError(route.action.name, lost=True)


def _not_a_controller(made: object, controller_class: type[Controller]) -> InvalidArgumentError:
    return InvalidArgumentError(
        "controller_factory",
        made,
        "is not a controller",
        fix=f"Have it return an instance of {controller_class.__name__}.",
    )
