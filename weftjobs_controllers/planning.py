"""From a job to its row, and from a row, edited or not, to what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from weftjobs import Cron, Every, InvalidScheduleError, Row, Trigger, format_duration, plan_row
from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.errors import check_flag, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row_of(action: Action, timezone: str | ZoneInfo | None) -> Row:
    """Return the row of a job.

    Args:
        action: The job.
        timezone: The zone of a cron expression that names none itself; `None` for that of
            the process.

    Raises:
        InvalidScheduleError: The zone of the process cannot be found out.
    """
    spec = action.spec
    when: dict[str, Any]
    if spec.cron is not None:
        zone = Cron(spec.cron, timezone if spec.timezone is None else spec.timezone).timezone
        when = {"cron": spec.cron, "tz": zone.key or zone}
    elif spec.every is not None:
        when = {"every": spec.every}
    else:
        when = {"trigger": spec.trigger}
    return Row(
        action=action.name,
        **when,
        overlap=spec.overlap,
        immediate=spec.immediate,
        exclusive=spec.exclusive is not None,
    )


def plan_action(row: Row, *, aligned: bool = False) -> Trigger:
    """Return the trigger of a job's row, which has one of `every`, `cron` with `tz`, `trigger`.

    A cron time that its zone repeats when the clocks go back comes once.

    Args:
        row: The row.
        aligned: Whether an interval lies on the grid of the clock.

    Raises:
        InvalidScheduleError: The row cannot be scheduled; the message names the field.
    """
    fields = dict(row)
    for flag in ("overlap", "immediate", "exclusive"):
        check_flag(flag, fields.get(flag, False))
    trigger: Trigger | None = fields.get("trigger")
    if trigger is not None:
        _check_alone(fields)
        return trigger
    planned = plan_row(row, origin=0 if aligned else None)
    if isinstance(planned, Cron):
        return Cron(planned.expression, planned.timezone, repeated="once")
    return planned


def trigger_of(row: Row, *, aligned: bool = False) -> Trigger | None:
    """Return the trigger of a job's row; `None` when it cannot be scheduled."""
    try:
        return plan_action(row, aligned=aligned)
    except InvalidScheduleError:
        return None


def latest_slot(trigger: Trigger | None, now: int) -> int:
    """Return the latest slot at or before an instant (ms since the epoch), if that can be told.

    Of a trigger that cannot tell it is the instant itself.
    """
    if isinstance(trigger, Every) and trigger.origin is not None:
        return now - (now - trigger.origin) % trigger.interval
    if isinstance(trigger, Cron):
        previous = trigger.previous(_EPOCH + timedelta(milliseconds=now + 1))
        if previous is not None:
            return (previous - _EPOCH) // timedelta(milliseconds=1)
    return now


def describe(action: Action, row: Row, next_due: int | None) -> ActionInfo:
    """Return a job as it is now.

    Args:
        action: The job.
        row: Its row.
        next_due: When it is due next, in ms since the epoch.
    """
    trigger = trigger_of(row)
    return ActionInfo(
        name=action.name,
        description=action.spec.description,
        groups=action.spec.groups,
        acl=action.spec.acl,
        controller=action.controller,
        method=action.method,
        schedule=_text_of(trigger),
        next_time=None if next_due is None else moment(next_due, trigger),
    )


def moment(due: int, trigger: Trigger | None) -> datetime:
    """Return an instant (ms since the epoch) in the zone of a trigger; without one, in UTC."""
    zone = getattr(trigger, "timezone", None)
    instant = _EPOCH + timedelta(milliseconds=due)
    return instant.astimezone(zone) if isinstance(zone, ZoneInfo) else instant


def _text_of(trigger: Trigger | None) -> str:
    if trigger is None:
        return "not scheduled"
    if isinstance(trigger, Every):
        return f"every {format_duration(trigger.interval)}"
    if isinstance(trigger, Cron):
        return f"cron {trigger.expression}"
    return shown(trigger)


def _check_alone(fields: dict[str, object]) -> None:
    others = [name for name in ("at", "every", "cron") if fields.get(name) is not None]
    if others:
        raise InvalidScheduleError(
            f"row: has trigger={shown(fields['trigger'])} and {others[0]}",
            fix="Set all but one of trigger, every and cron to None.",
        )
