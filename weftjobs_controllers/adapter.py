"""The schedule adapter: jobs become rows of an array, and due rows become runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from weftjobs import Clock, ObservableArray, Row, RunContext, Scheduler, SystemClock, Trigger
from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.errors import (
    AlreadyRunningError,
    ComponentNotStartedError,
    InvalidArgumentError,
    NotRunningError,
    UnknownActionError,
    UnknownComponentError,
    check_text,
)
from weftjobs_controllers.planning import describe, moment, plan_action, row_of, trigger_of
from weftjobs_controllers.reports import OnError, OnSkip, Reports, logger
from weftjobs_controllers.requests import Requests

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application


class ScheduleAdapter:
    """Runs the scheduled methods of an entrypoint; `schedule_entrypoint` makes one.

    Attributes:
        name: Its name.
        jobs: One row for each job, put there when the entrypoint starts: `action`, then
            `every` (ms), `cron` and `tz`, or `trigger`, and `last`, the record of the latest
            run. An edit of a row's schedule is followed at once.
    """

    name: str
    jobs: ObservableArray

    def __init__(
        self, name: str, on_error: OnError | None, on_skip: OnSkip | None, clock: Clock
    ) -> None:
        self.name = name
        self.jobs = ObservableArray()
        self._hooks = on_error, on_skip
        self._clock = clock
        self._session: Session | None = None

    def __repr__(self) -> str:
        return f"<ScheduleAdapter {self.name!r} of {len(self.jobs)} jobs>"

    @property
    def scheduler(self) -> Scheduler:
        """What drives `jobs`: it answers `run_now(row)` and `next_due(row)`.

        Raises:
            NotRunningError: The entrypoint has not started, or has stopped.
        """
        if self._session is None:
            raise NotRunningError(f"{self.name}.scheduler")
        return self._session.scheduler

    @contextmanager
    def _booted(
        self, actions: Mapping[str, Action], application: Application
    ) -> Iterator[Session]:
        if self._session is not None:
            raise AlreadyRunningError(f"adapter {self.name!r}")
        self._session = Session(self, actions, application)
        try:
            yield self._session
        finally:
            self._session = None

    def _describe(self, action: Action) -> ActionInfo | None:
        return None if self._session is None else self._session.describe(action.name)


def schedule_entrypoint(
    *,
    on_error: OnError | None = None,
    on_skip: OnSkip | None = None,
    name: str = "schedule",
    clock: Clock | None = None,
) -> ScheduleAdapter:
    """Return the adapter that runs the scheduled methods of an entrypoint.

        def on_error(error, action, context):
            print(f"{action.name} failed: {error}")

        build_entrypoints(
            controllers=[JobController], schedule=schedule_entrypoint(on_error=on_error)
        )

    A run that raises does not stop its job. Hooks may be `async`; a plain one is called on
    the event loop. One that raises is logged, and stops nothing.

    Args:
        on_error: Called as `on_error(error, action, context)` when a run raised, with its
            `ScheduleContext`, and with `None` for the context when a row of `jobs` was edited
            into one that cannot be scheduled. Default: the component `log`, else the logger
            `weftjobs_controllers`, is told, with the traceback.
        on_skip: Called as `on_skip(action, scheduled_at, reason)` when a run was skipped: the
            reason `'overlap'` says that the previous run was still in progress. Default:
            logged likewise, as information.
        name: The name of the adapter, which begins every line that it logs.
        clock: Where the time comes from; a test passes a `weftjobs.testing.VirtualClock`.

    Raises:
        InvalidArgumentError: An argument is not what it should be.
    """
    check_text("name", name)
    for argument, hook in (("on_error", on_error), ("on_skip", on_skip)):
        if hook is not None and not callable(hook):
            raise InvalidArgumentError(
                argument, hook, "cannot be called", fix="Pass a function, or leave it out."
            )
    if clock is not None and not callable(getattr(clock, "sleep_until", None)):
        raise InvalidArgumentError(
            "clock",
            clock,
            "is not a clock",
            fix="Pass a VirtualClock in a test, else leave it out.",
        )
    return ScheduleAdapter(name, on_error, on_skip, SystemClock() if clock is None else clock)


class Session:
    """The jobs of an adapter from the start of the entrypoint to its end."""

    def __init__(
        self, adapter: ScheduleAdapter, actions: Mapping[str, Action], application: Application
    ) -> None:
        self._actions = actions
        self._application = application
        self._requests = Requests(application, adapter._clock)
        self._reports = Reports(adapter.name, *adapter._hooks, self._find_log)
        self._started: Counter[str] = Counter()
        self._failing: dict[int, ScheduleContext] = {}
        self._rows = {
            name: row_of(action, application.timezone) for name, action in actions.items()
        }
        adapter.jobs[:] = self._rows.values()
        self.scheduler = Scheduler(
            adapter.jobs,
            self._run,
            failed=self._failed,
            skipped=self._skipped,
            plan=self._plan,
            clock=adapter._clock,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the jobs; leaving the block lets the runs in progress finish."""
        async with self.scheduler:
            try:
                yield
            finally:
                await self.scheduler.stop()

    def describe(self, name: str) -> ActionInfo:
        """Return a job as it is now."""
        return self._info(self._actions[name], self._rows[name])

    # What the scheduler calls

    def _plan(self, row: Row) -> Trigger:
        self._action_of(row)
        return plan_action(row)

    async def _run(self, row: Row, run: RunContext) -> None:
        if self._application.stopping:
            run.skip()
            return
        action = self._action_of(row)
        context = self._context(action, row, run.due)
        try:
            await self._requests.make(action, context)
        except BaseException as error:
            # The scheduler hands it to _failed before anything else happens.
            self._failing[id(error)] = context
            raise

    async def _failed(self, row: Row, error: Exception) -> None:
        context = self._failing.pop(id(error), None)
        if context is not None:
            await self._reports.failed(error, context.action, context)
        elif (action := self._find_action(row)) is not None:
            await self._reports.failed(error, self._info(action, row), None)
        else:
            self._reports.log("error", str(error), exc_info=error)

    async def _skipped(self, row: Row, due: int) -> None:
        action = self._find_action(row)
        if action is not None:
            scheduled_at = moment(due, trigger_of(row))
            await self._reports.skipped(self._info(action, row), scheduled_at, "overlap")

    def _context(self, action: Action, row: Row, due: int) -> ScheduleContext:
        self._started[action.name] += 1
        info = self._info(action, row)
        return ScheduleContext(
            schedule=info.schedule,
            scheduled_at=moment(due, trigger_of(row)),
            run=self._started[action.name],
            action=info,
        )

    def _info(self, action: Action, row: Row) -> ActionInfo:
        return describe(action, row, self.scheduler.next_due(row))

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
