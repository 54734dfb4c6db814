"""What a run is told about itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from weftjobs_controllers.actions import ActionInfo
from weftjobs_controllers.signals import AbortSignal

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application


class LazyScope:
    """The scope of a run, made when it is first used: most runs enter nothing in it."""

    __slots__ = ("stack",)

    def __init__(self) -> None:
        self.stack: AsyncExitStack | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScheduleContext:
    """What a run is told: `self.context` in a controller.

    Middlewares, access rules, `skip_if`, a `controller_factory` and `on_error` get it too.

    Attributes:
        schedule: The schedule as text: `'every 30s'`, `'cron 0 3 * * *'`.
        scheduled_at: The planned time, which the run may start a few milliseconds after: an
            aware datetime, in the zone of the cron expression, for an interval in UTC.
        run: The number of the run since the application started, from 1. Skipped runs are
            not counted.
        action: The job that runs.
        application: The application that runs it.
        signal: Tells the run that it should end.
        lease_token: The fencing token of an exclusive run: an integer that grows with every
            acquisition of its lock. `None` for other runs.
    """

    schedule: str
    scheduled_at: datetime
    run: int
    action: ActionInfo
    application: Application = field(repr=False)
    signal: AbortSignal = field(repr=False)
    lease_token: int | None = None
    _scope: LazyScope = field(default_factory=LazyScope, repr=False)

    def _set(self, **facts: int) -> None:
        """Fill in what is known only when the run starts, before anybody relies on it."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def scope(self) -> AsyncExitStack:
        """What is entered here is left when the run ends, whatever happened."""
        if self._scope.stack is None:
            self._scope.stack = AsyncExitStack()
        return self._scope.stack

    def component(self, name: str) -> Any:
        """Return a component of the application that has started; see `Controller.component`."""
        return self.application.component(name)
