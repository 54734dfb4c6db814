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
        clock: Clock,
    ) -> None:
        self.name = name
        self.jobs = ObservableArray()
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
        self._session = Session(self, entrypoint, actions, application)
        return self._session

    def _shut_down(self) -> None:
        self._session = None

    def _describe(self, action: Action) -> ActionInfo | None:
        return None if self._session is None else self._session.describe(action.name)


def schedule_entrypoint(
    *,
    on_error: OnError | None = None,
    on_skip: OnSkip | None = None,
    middlewares: Iterable[Middleware] = (),
    name: str = "schedule",
    grace: int | float | timedelta | str = "1m",
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
        clock=SystemClock() if clock is None else clock,
    )
