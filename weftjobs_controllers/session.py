"""The jobs of an adapter from the start of their entrypoint to its end: due rows become runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import current_token

from weftjobs import (
    InvalidScheduleError,
    ObservableArray,
    Row,
    RunContext,
    Scheduler,
    Trigger,
)
from weftjobs_controllers import _clocks
from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.errors import (
    ComponentNotStartedError,
    JobExitError,
    LeaseLostError,
    MutexError,
    RunAbortedError,
    UnknownActionError,
    UnknownComponentError,
)
from weftjobs_controllers.exclusive import LONGEST_CALL, Held, Keeper, Locks, longest_hold
from weftjobs_controllers.planning import (
    describe,
    fields_of,
    latest_missed,
    latest_slot,
    moment,
    plan_action,
    synchronize,
    trigger_of,
)
from weftjobs_controllers.reports import Reports, SkipReason, logger
from weftjobs_controllers.requests import CutShort, Patience, Pipeline, Plan, Request, Route

if TYPE_CHECKING:
    from weftjobs_controllers.adapter import ScheduleAdapter
    from weftjobs_controllers.application import Application
    from weftjobs_controllers.entrypoint import Entrypoint

_THREADS = 40
"""How many plain methods run at once, each in a thread."""

_PATIENCE = 0.3
"""How many seconds a thread has to heed its signal, and what was cancelled to clean up."""


class Session:
    """The jobs of an adapter while an application runs.

    Attributes:
        adapter: The adapter.
        scheduler: What drives their rows.
        served: Whether they have been launched.
        over: Whether no run is in progress any more, but those that were left behind.
        shutdown_timeout: How many milliseconds the runs in progress have when it stops.
    """

    def __init__(
        self,
        adapter: ScheduleAdapter,
        entrypoint: Entrypoint,
        actions: dict[str, Action],
        application: Application,
    ) -> None:
        self.adapter = adapter
        self._actions = actions
        self._application = application
        self._clock = adapter._clock
        self._grace = adapter._grace
        self.shutdown_timeout = entrypoint._shutdown_timeout
        self._reports = Reports(
            adapter.name,
            adapter._on_error,
            adapter._on_skip,
            find_log=self._find_log,
            exit=application._fail,
        )
        self._patience = Patience()
        pipeline = Pipeline(
            application=application,
            middlewares=(*entrypoint._middlewares, *adapter._middlewares),
            rules=entrypoint._rules,
            factory=entrypoint._controller_factory,
            clock=self._clock,
            token=current_token(),
            patience=self._patience,
            describe=self._info,
            ignored=self._ignored,
            watch=self._watch,
        )
        self._routes = {name: Route(pipeline, action) for name, action in actions.items()}
        self._locks = Locks(application, self._clock)
        self._immediate: set[Row] = set()
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._in_progress: set[ScheduleContext] = set()
        self._failing: dict[int, tuple[BaseException, ScheduleContext, bool]] = {}
        self._scope = anyio.CancelScope(shield=True)
        self._aborted = False
        self.served = False
        self._leave = anyio.Event()
        self._ended = anyio.Event()
        self.over = anyio.Event()
        self._orphans: set[str] = set()
        self._plans: WeakKeyDictionary[Row, Plan] = WeakKeyDictionary()
        self._fill(adapter.jobs, stored=adapter._stored)
        self.scheduler = Scheduler(
            adapter.jobs,
            self._run,
            failed=self._failed,
            skipped=self._skipped,
            plan=self._plan,
            clock=self._clock,
        )

    def _fill(self, jobs: ObservableArray, *, stored: bool) -> None:
        """Make the rows of the jobs, or find those that have outlived the process."""
        timezone = self._application.timezone
        if stored:
            now = self._clock.now()
            self._orphans = set(synchronize(jobs, self._actions, timezone, now))
            if self._orphans:
                logger.warning(
                    "%s: rows of jobs that are gone stay, and do not run: %s",
                    self.adapter.name,
                    ", ".join(sorted(self._orphans)),
                )
        else:
            jobs[:] = [Row(fields_of(action, timezone)) for action in self._actions.values()]
        rows = reversed(jobs)
        self._rows = {row["action"]: row for row in rows if self._find_action(row) is not None}

    # Its life

    async def serve(self, launched: anyio.Event) -> None:
        """Run the jobs until they are stopped or aborted, in a task of its own."""
        if self._application.stopping:
            return
        self.served = True
        try:
            with self._scope:
                async with anyio.create_task_group() as self._keepers, self.scheduler:
                    await self._begin()
                    launched.set()
                    await self._leave.wait()
        finally:
            self._ended.set()
            self.over.set()

    async def _begin(self) -> None:
        """Start what runs at launch, and tell what was missed while the process was down."""
        for name, action in self._actions.items():
            row = self._rows[name]
            if row.get("paused"):
                continue
            try:
                missed = self._missed_while_down(action, row)
            except Exception as error:
                await self._reports.failed(error, self._info(action, row), None)
                missed = None
            if row.get("immediate") or (missed is not None and action.spec.catch_up):
                self._immediate.add(row)
                self.scheduler.run_now(row)
            if missed is not None and not action.spec.catch_up:
                self._note(row, missed=missed)
                scheduled_at = moment(missed, self._trigger_of(action, row))
                await self._reports.skipped(self._info(action, row), scheduled_at, "missed")

    def _note(self, row: Row, **facts: int) -> None:
        try:
            row.update(facts)
        except Exception as error:
            # A full disk is no reason not to start, nor not to stop.
            self._reports.log("error", f"{row.get('action')}: {error}", exc_info=error)

    def _missed_while_down(self, action: Action, row: Row) -> int | None:
        last = row.get("last")
        started = last.get("started") if isinstance(last, Mapping) else None
        if type(started) is not int:
            return None
        now = self._clock.now()
        noted = [started, row.get("missed"), row.get("seen")]
        # What lies ahead was noted by a clock that was wrong.
        since = max((each for each in noted if type(each) is int and each <= now), default=now)
        return latest_missed(self._trigger_of(action, row), since, now)

    async def stop(self) -> None:
        """Start nothing more; the runs in progress may end before they are aborted."""
        self._locks.hurry()
        with _clocks.move_on_after(self._clock, self.shutdown_timeout) as limit:
            await self.scheduler.stop()
        if self.served and self.adapter._stored:
            for row in self._rows.values():
                self._note(row, seen=self._clock.now())
        self._leave.set()
        if limit.cancelled_caught:
            await self.abort()
        if self.served:
            await self.over.wait()

    async def abort(self) -> None:
        """Abort the runs in progress. What does not end even so is left behind in a second."""
        self._aborted = True
        self._locks.hurry()
        for context in self._in_progress:
            context.signal._abort()
        self._scope.cancel()
        for _ in range(2):
            with anyio.move_on_after(_PATIENCE, shield=True):
                await self._ended.wait()
            self._patience.end()
        with anyio.move_on_after(LONGEST_CALL, shield=True):
            await self._locks.quiet()
        for context in list(self._in_progress):
            self._in_progress.discard(context)
            await self._tell_failed(context, RunAbortedError(context.action.name, lost=True))
        self.over.set()

    async def wait(self) -> None:
        """Wait until it is over, when nobody is left who would move the clock."""
        await _clocks.wait(self._clock, self.over)

    def describe(self, name: str) -> ActionInfo:
        """Return a job as it is now."""
        row = self._rows[name]
        if row not in self.adapter.jobs:
            # It was replaced, or taken off.
            row = next((each for each in self.adapter.jobs if each.get("action") == name), row)
            self._rows[name] = row
        return self._info(self._actions[name], row)

    # What the scheduler calls

    def _plan(self, row: Row) -> Trigger | None:
        # Every edit of the row comes by here, but those of `last`.
        self._plans.pop(row, None)
        name = row.get("action")
        if isinstance(name, str) and name in self._orphans:
            return None
        paused = row.get("paused")
        route = self._routes[self._action_of(row).name]
        spec = route.action.spec
        try:
            trigger = plan_action(row, aligned=spec.on_grid, trigger=spec.trigger)
        except InvalidScheduleError:
            self._plans[row] = Plan.of(row, route, None)
            if paused:
                return None
            raise
        self._plans[row] = Plan.of(row, route, trigger)
        return None if paused else trigger

    async def _run(self, row: Row, run: RunContext) -> None:
        if self._application.stopping:
            run.skip()
            return
        plan = self._plan_of(row)
        if plan.overlap:
            run.release()
        request = Request(plan, row, run.due)
        if run.by_hand and row in self._immediate:
            self._immediate.discard(row)
            request.at_launch = True
        context = ScheduleContext._of(request)
        self._in_progress.add(context)
        try:
            reason = await self._run_unless_skipped(request, context, run)
        except BaseException as error:
            self._take_failure(plan.route.action, context, error)
            raise
        finally:
            self._in_progress.discard(context)
        if reason is not None:
            run.skip()
            await self._reports.skipped(context.action, context.scheduled_at, reason)

    def _take_failure(
        self, action: Action, context: ScheduleContext, error: BaseException
    ) -> None:
        """Note which run an error is of; raise another where that says better why it failed."""
        judged = self._judged(action, error)
        told = context not in self._in_progress
        self._failing[id(judged)] = judged, context, told
        try:
            if judged is not error:
                raise judged from None if isinstance(judged, RunAbortedError) else error
        finally:
            # The errors would keep this frame alive, and it the errors.
            del judged, error

    def _judged(self, action: Action, error: BaseException) -> BaseException:
        """Return what a run has failed with: an abort and an exit are given a name."""
        if isinstance(error, Exception | GeneratorExit):
            return error
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return RunAbortedError(action.name, lost=False) if self._aborted else error
        if isinstance(error, BaseExceptionGroup):
            exits = error.subgroup((SystemExit, KeyboardInterrupt))
            if exits is None:
                return error
            error = _first_leaf(exits)
        self._application._fail(error)
        return JobExitError(action.name, error)

    async def _run_unless_skipped(
        self, request: Request, context: ScheduleContext, run: RunContext
    ) -> SkipReason | None:
        """Run, or return why that was skipped."""
        if self._is_late(request.due):
            return "missed"
        route = request.plan.route
        try:
            reason = await self._get_ready(request, context) if route.may_wait else None
            if reason is not None:
                return reason
            if route.is_exclusive:
                return await self._run_exclusively(request, context, run)
            request.start()
            await request.make(context)
            return None
        finally:
            if request.has_thread:
                self._threads.release()
            if request.stack is not None:
                # A condition may have entered something, and no run has left it.
                await request.leave()

    async def _get_ready(self, request: Request, context: ScheduleContext) -> SkipReason | None:
        """Wait for what a run needs before it starts, or return why it is skipped."""
        route = request.plan.route
        if await _is_true(route.action.spec.skip_if, context):
            return "condition"
        if route.is_plain:
            request.has_thread = await self._get_thread(request.due)
            if not request.has_thread:
                return "missed"
        return "missed" if self._is_late(request.due) or self._application.stopping else None

    async def _run_exclusively(
        self, request: Request, context: ScheduleContext, run: RunContext
    ) -> SkipReason | None:
        """Run with the lock of the job, or return why that was skipped."""
        action = request.plan.route.action
        slot, longest = self._slot_of(request, run)
        held = await self._locks.acquire(action, slot)
        if held is None:
            return "exclusive"
        keep = not request.plan.overlap
        try:
            if self._is_late(run.due) or self._application.stopping:
                return "missed"
            request.start(held.lease.token)
            if keep:
                await self._make_kept(request, context, held)
                return None
        finally:
            since = self._clock.now() - run.due
            # Counted from the planned time; a clock that was set back makes it no longer.
            await self._give_back(held, min(longest, longest - since) if keep else 0)
        # The slot is claimed, and runs of the job may overlap.
        await request.make(context)
        return None

    async def _make_kept(self, request: Request, context: ScheduleContext, held: Held) -> None:
        keeper = Keeper(request.plan.route.action, held, self._clock, request.cut_short)
        keeper.start(self._keepers)
        try:
            await request.make(context)
        except LeaseLostError as error:
            if not error._told:
                await self._ignored(context, error)
            raise
        finally:
            keeper.stop()

    async def _give_back(self, held: Held, hold: int) -> None:
        for attempt in range(2):
            try:
                await self._locks.release(held, hold)
            except MutexError as error:
                # The lease ends by itself.
                self._reports.log("warning", f"a lock was not given back: {error}")
            except Exception as error:
                # A lock of the operating system does not: no thread could be started, say.
                if attempt:
                    self._reports.log("error", f"a lock was not given back: {error}")
                continue
            return

    def _slot_of(self, request: Request, run: RunContext) -> tuple[int | None, int]:
        """Return the slot that a run claims, and how long after it its lock is held."""
        trigger = request.plan.trigger
        if not run.by_hand:
            following = None if trigger is None else trigger.after(run.due, run.due)
            return run.due, longest_hold(run.due, following)
        if not request.at_launch:
            return None, 0
        following = None if trigger is None else trigger.first(run.due)
        return latest_slot(trigger, run.due), longest_hold(run.due, following)

    def _is_late(self, due: int) -> bool:
        return self._clock.now() - due > self._grace

    async def _get_thread(self, due: int) -> bool:
        """Wait until a thread is free, but no longer than a run may start."""
        try:
            self._threads.acquire_nowait()
        except anyio.WouldBlock:
            left = max(1, due + self._grace - self._clock.now() + 1)
            with _clocks.move_on_after(self._clock, left):
                await self._threads.acquire()
                return True
            return False
        return True

    async def _failed(self, row: Row, error: Exception) -> None:
        _, context, told = self._failing.pop(id(error), (None, None, False))
        if context is not None:
            if not (told or (isinstance(error, CutShort) and error._told)):
                await self._tell_failed(context, error)
        elif (action := self._find_action(row)) is not None:
            await self._reports.failed(error, self._info(action, row), None)
        else:
            self._reports.log("error", str(error), exc_info=error)

    def _watch(self, watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have something be watched beside a run."""
        self._keepers.start_soon(watch)

    async def _ignored(self, context: ScheduleContext, error: CutShort) -> None:
        """Tell why a run was cut short before it ends, which a thread may never do."""
        error._told = True
        await self._tell_failed(context, error)

    async def _tell_failed(self, context: ScheduleContext, error: Exception) -> None:
        over = self._patience.over
        shield = anyio.move_on_after(_PATIENCE, shield=True) if over else self._patience.shield()
        with shield as scope:
            await self._reports.failed(error, context.action, context)
        if scope.cancelled_caught:
            self._reports.log("error", f"on_error did not end in time for {error}", exc_info=error)

    async def _skipped(self, row: Row, due: int) -> None:
        action = self._find_action(row)
        if action is not None:
            scheduled_at = moment(due, self._trigger_of(action, row))
            await self._reports.skipped(self._info(action, row), scheduled_at, "overlap")

    def _info(self, action: Action, row: Row) -> ActionInfo:
        due = self.scheduler.next_due(row) if self.served else self._first_due(row)
        plan = self._plan_of(row, action)
        return describe(action, plan.trigger, plan.schedule, due)

    def _first_due(self, row: Row) -> int | None:
        """Return when a row will be due first if its job is launched now."""
        try:
            trigger = self._plan(row)
            return None if trigger is None else trigger.first(self._clock.now())
        except Exception:
            # It is reported once the job is launched.
            return None

    def _trigger_of(self, action: Action, row: Row) -> Trigger | None:
        return self._plan_of(row, action).trigger

    def _plan_of(self, row: Row, action: Action | None = None) -> Plan:
        """Return what a row says, read as one of a job whatever job it names now."""
        plan = self._plans.get(row)
        if plan is None:
            action = self._action_of(row) if action is None else action
            trigger = trigger_of(row, aligned=action.spec.on_grid, trigger=action.spec.trigger)
            plan = Plan.of(row, self._routes[action.name], trigger)
        return plan

    def _action_of(self, row: Row) -> Action:
        action = self._find_action(row)
        if action is None:
            raise UnknownActionError(row.get("action"))
        return action

    def _find_action(self, row: Row) -> Action | None:
        name = row.get("action")
        return self._actions.get(name) if isinstance(name, str) else None

    def _find_log(self) -> Any:
        try:
            log = self._application.component("log")
        except (UnknownComponentError, ComponentNotStartedError):
            return logger
        return log if callable(getattr(log, "error", None)) else logger


async def _is_true(condition: Any, context: ScheduleContext) -> bool:
    if condition is None:
        return False
    answer = condition(context)
    return bool(await answer if inspect.isawaitable(answer) else answer)


def _first_leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
