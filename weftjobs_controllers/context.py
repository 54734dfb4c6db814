"""What a run is told about itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from weftjobs_controllers.actions import ActionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleContext:
    """What a run is told: `self.context` in a controller.

    Attributes:
        schedule: The schedule as text: `'every 30s'`, `'cron 0 3 * * *'`.
        scheduled_at: The planned time, which the run may start a few milliseconds after: an
            aware datetime, in the zone of the cron expression, for an interval in UTC.
        run: The number of the run since the application started, from 1. Skipped runs are
            not counted.
        action: The job that runs.
    """

    schedule: str
    scheduled_at: datetime
    run: int
    action: ActionInfo
