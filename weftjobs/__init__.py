"""A scheduler over an observable array of rows: a row says when, the application says what."""

from __future__ import annotations

from weftjobs._runs import RunContext
from weftjobs.calendars import Croniter, Recurrence
from weftjobs.clock import Clock, SystemClock
from weftjobs.cron import Cron
from weftjobs.errors import InvalidScheduleError, JobsError, UnknownTimeZoneError
from weftjobs.planning import pausable, plan_row
from weftjobs.rows import Change, ObservableArray, Row, atomic
from weftjobs.scheduler import Scheduler
from weftjobs.triggers import At, Every, Trigger
from weftjobs.units import format_duration, parse_duration, to_duration

__all__ = [
    "At",
    "Change",
    "Clock",
    "Cron",
    "Croniter",
    "Every",
    "InvalidScheduleError",
    "JobsError",
    "ObservableArray",
    "Recurrence",
    "Row",
    "RunContext",
    "Scheduler",
    "SystemClock",
    "Trigger",
    "UnknownTimeZoneError",
    "atomic",
    "format_duration",
    "parse_duration",
    "pausable",
    "plan_row",
    "to_duration",
]
