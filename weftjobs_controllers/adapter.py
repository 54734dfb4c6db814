"""The schedule adapter: jobs become rows of an array, and due rows become runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from weftjobs import Clock, ObservableArray, Scheduler, SystemClock, to_duration
from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.errors import (
    AlreadyRunningError,
    InvalidArgumentError,
    NotRunningError,
    check_callable,
    check_text,
)
from weftjobs_controllers.middlewares import Middleware, check_middlewares
from weftjobs_controllers.reports import OnError, OnSkip
from weftjobs_controllers.session import Session

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application
    from weftjobs_controllers.entrypoint import Entrypoint


class ScheduleAdapter:
    """Runs the scheduled methods of an entrypoint; `schedule_entrypoint` makes one.

    Attributes:
        name: Its name.
        jobs: One row for each job, put there when the entrypoint starts: `action`, then
            `every` (ms), `cron` and `tz`, or `trigger`, then `overlap` and `immediate`, and
            `last`, the record of the latest run. An edit of a row's schedule is followed at
            once; a true `paused` takes the job off its schedule.
    """

    name: str
    jobs: ObservableArray

    def __init__(
        self,
        *,
        name: str,
        on_error: OnError | None,
        on_skip: OnSkip | None,
        middlewares: tuple[Middleware, ...],
        grace: int,
        jobs: ObservableArray | str | None,
        clock: Clock,
    ) -> None:
        self.name = name
        self.jobs = jobs if isinstance(jobs, ObservableArray) else ObservableArray()
        self._stored = jobs is not None
        self._component = jobs if isinstance(jobs, str) else None
        self._on_error = on_error
        self._on_skip = on_skip
        self._middlewares = middlewares
        self._grace = grace
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

    def _boot(
        self, entrypoint: Entrypoint, actions: dict[str, Action], application: Application
    ) -> Session:
        if self._session is not None:
            raise AlreadyRunningError(f"adapter {self.name!r}")
        if self._component is not None:
            self.jobs = check_jobs(application.component(self._component))
        self._session = Session(self, entrypoint, actions, application)
        return self._session

    def _shut_down(self) -> None:
        self._session = None

    def _describe(self, action: Action) -> ActionInfo | None:
        return None if self._session is None else self._session.describe(action.name)


def check_jobs(jobs: object) -> ObservableArray:
    """Return an array that has to be one."""
    if isinstance(jobs, ObservableArray):
        return jobs
    raise InvalidArgumentError(
        "jobs",
        jobs,
        "is not an ObservableArray",
        fix="Pass what `await store.open('jobs')` gives, or the name of a component.",
    )


def schedule_entrypoint(
    *,
    on_error: OnError | None = None,
    on_skip: OnSkip | None = None,
    middlewares: Iterable[Middleware] = (),
    name: str = "schedule",
    grace: int | float | timedelta | str = "1m",
    jobs: ObservableArray | str | None = None,
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
        on_error: Called as `on_error(error, action, context)` when a run failed, with its
            `ScheduleContext`, and with `None` for the context when a row of `jobs` was edited
            into one that cannot be scheduled. Default: the component `log`, else the logger
            `weftjobs_controllers`, is told, with the traceback.
        on_skip: Called as `on_skip(action, scheduled_at, reason)` when a run was skipped:
            `'overlap'`, the previous run was in progress; `'missed'`, it would have started
            later than `grace` allows; `'condition'`, its `skip_if` said so. Default: logged
            likewise, what was missed as a warning, the others as information.
        middlewares: Called as `await middleware(context, call_next)` around each run, inside
            those of the entrypoint.
        name: The name of the adapter, which begins every line that it logs.
        grace: How long after its planned time a run may start: milliseconds, a `timedelta`,
            or text. The slot that a machine slept through is skipped as missed.
        jobs: An array from a store, or the name of a component that gives one, to keep the
            rows in, so that their edits and `last` outlive the process. At the start each job
            finds its row by `action`: one whose declaration in the code has not changed keeps
            its edits, where the code has changed it wins, and rows of jobs that are gone stay
            and do not run. What was missed while the process was down is told to `on_skip`,
            once for each job, and noted in the row as `missed`; when the application stopped,
            as `seen`.
        clock: Where the time comes from; a test passes a `weftjobs.testing.VirtualClock`.

    Raises:
        InvalidArgumentError: An argument is not what it should be.
    """
    check_text("name", name)
    for argument, hook in (("on_error", on_error), ("on_skip", on_skip)):
        if hook is not None:
            check_callable(argument, hook)
    if clock is not None and not callable(getattr(clock, "sleep_until", None)):
        raise InvalidArgumentError(
            "clock",
            clock,
            "is not a clock",
            fix="Pass a VirtualClock in a test, else leave it out.",
        )
    return ScheduleAdapter(
        name=name,
        on_error=on_error,
        on_skip=on_skip,
        middlewares=check_middlewares(middlewares),
        grace=to_duration(grace, "grace"),
        jobs=jobs if jobs is None or isinstance(jobs, str) else check_jobs(jobs),
        clock=SystemClock() if clock is None else clock,
    )
