"""A scheduled method: as it was declared, as a job of a controller, and as others see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from weftjobs import Trigger

if TYPE_CHECKING:
    from weftjobs_controllers.controller import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """What one `@schedule` says. Exactly one of `every`, `cron` and `trigger` is set.

    Attributes:
        every: The interval in milliseconds.
        cron: The cron expression.
        timezone: The zone of the cron expression; `None` for that of the application.
        trigger: The trigger object.
        name: The name of the job; `None` for `Class.method`.
        description: What the job is for.
    """

    every: int | None = None
    cron: str | None = None
    timezone: ZoneInfo | None = None
    trigger: Trigger | None = None
    name: str | None = None
    description: str = ""


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
class ActionInfo:
    """A job as it is at one moment.

    Attributes:
        name: Its name, by default `Class.method`.
        description: What it is for.
        controller: The class that the method belongs to.
        method: The name of the method.
        schedule: Its schedule as text: `'every 30s'`, `'cron 0 3 * * *'`.
        next_time: When it runs next: an aware datetime, in the zone of its cron expression,
            for an interval in UTC. `None` when it is not scheduled.
    """

    name: str
    description: str
    controller: type[Controller]
    method: str
    schedule: str
    next_time: datetime | None
