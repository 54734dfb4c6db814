"""A scheduled method: as it was declared, as a job of a controller, and as others see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from weftjobs import Trigger

if TYPE_CHECKING:
    from weftjobs_controllers.access import Rule
    from weftjobs_controllers.context import ScheduleContext
    from weftjobs_controllers.controller import Controller
    from weftjobs_controllers.middlewares import Middleware


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusive:
    """How a job is exclusive: `@schedule(..., exclusive=Exclusive(mutex="locks"))`.

    Attributes:
        mutex: The name of the component that has the locks.
        key: What the lock is called after `schedule:`; `None` for the name of the job. Jobs
            that share a key exclude one another, and a slot that two of them have in common
            is run by one of them.
    """

    mutex: str = "mutex"
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """What one `@schedule` says. Exactly one of `every`, `cron` and `trigger` is set.

    Attributes:
        every: The interval in milliseconds.
        cron: The cron expression.
        timezone: The zone of the cron expression; `None` for that of the application.
        trigger: The trigger object.
        overlap: Whether a run may start while the previous one is in progress.
        immediate: Whether it also runs once as soon as the application has launched.
        exclusive: How it runs in one instance of the application at a time, if it does.
        catch_up: Whether it runs once at launch for what was missed while the process was down.
        aligned: Whether the interval lies on the grid of the clock.
        timeout: How many milliseconds a run may last.
        skip_if: Says of a run whether it is skipped.
        name: The name of the job; `None` for `Class.method`.
        description: What the job is for.
        acl: Whether the rules of the entrypoint are asked.
        rule: A rule of its own.
        middlewares: Its own middlewares, the first one outermost.
        groups: The groups that it belongs to.
    """

    every: int | None = None
    cron: str | None = None
    timezone: ZoneInfo | None = None
    trigger: Trigger | None = None
    overlap: bool = False
    immediate: bool = False
    exclusive: Exclusive | None = None
    catch_up: bool = False
    aligned: bool = False
    timeout: int | None = None
    skip_if: Callable[[ScheduleContext], object] | None = None
    name: str | None = None
    description: str = ""
    acl: bool = False
    rule: Rule | None = None
    middlewares: tuple[Middleware, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def on_grid(self) -> bool:
        """Whether its times lie on the grid of the clock: asked for, or shared by instances."""
        return self.aligned or self.exclusive is not None


@dataclass(frozen=True, slots=True)
class Action:
    """A job: one `@schedule` on one method of one controller."""

    name: str
    spec: ActionSpec
    controller: type[Controller]
    method: str

    @property
    def place(self) -> str:
        """Where the job is written, as far as a name can tell."""
        return f"{self.controller.__module__}.{self.controller.__qualname__}.{self.method}"


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """A job as its code declares it, for those who look at an application that does not run.

    Attributes:
        name: Its name.
        schedule: Its schedule as text.
        trigger: Says when it runs.
        overlap: Whether its runs may overlap.
        idle: Why it never runs; `None` when it does.
    """

    name: str
    schedule: str
    trigger: Trigger
    overlap: bool
    idle: str | None


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """A job as it is at one moment.

    Attributes:
        name: Its name, by default `Class.method`.
        description: What it is for.
        groups: The groups that it belongs to.
        acl: Whether the rules of its entrypoint are asked before a run.
        controller: The class that the method belongs to.
        method: The name of the method.
        schedule: Its schedule as text: `'every 30s'`, `'cron 0 3 * * *'`.
        next_time: When it runs next: an aware datetime, in the zone of its cron expression,
            for an interval in UTC. `None` when it is not scheduled.
    """

    name: str
    description: str
    groups: tuple[str, ...]
    acl: bool
    controller: type[Controller]
    method: str
    schedule: str
    next_time: datetime | None
