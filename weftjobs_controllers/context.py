"""What a run is told about itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from weftjobs_controllers.actions import ActionInfo
from weftjobs_controllers.signals import AbortSignal

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application


T = TypeVar("T")


class Source:
    """Where a context finds what it does not hold itself, and the scope of its run.

    Attributes:
        stack: The scope, made when it is first used: most runs enter nothing in it.
    """

    stack: AsyncExitStack | None = None


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
        action: The job that runs, as it is when this is first asked for.
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
    _source: Source = field(default_factory=Source, repr=False)

    @classmethod
    def _of(cls, source: Source) -> ScheduleContext:
        """Return a context that asks its source for each fact, because most runs ask for few.

        Found out beforehand they would cost 4 µs a run. What a middleware makes of it with
        `dataclasses.replace` holds its facts itself.
        """
        context = object.__new__(cls)
        object.__setattr__(context, "_source", source)
        return context

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _FACTS:
                return getattr(self._source, name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)

    @property
    def scope(self) -> AsyncExitStack:
        """What is entered here is left when the run ends, whatever happened."""
        source = self._source
        return source.stack or keep_first(source, "stack", AsyncExitStack())

    def component(self, name: str) -> Any:
        """Return a component of the application that has started; see `Controller.component`."""
        return self.application.component(name)


def keep_first(holder: object, name: str, value: T) -> T:
    """Set an attribute unless it has been set, in one step, and return what it is.

    Threads that make something at the same time so get the same. A lock would do as well, but
    for a signal handler, which may ask while the code that it interrupts has the lock.
    """
    kept: T = vars(holder).setdefault(name, value)
    return kept


_FACTS = {each.name for each in fields(ScheduleContext) if not each.name.startswith("_")}
"""What a context tells that it may have to ask for."""
