"""From a job to its row, and from a row, edited or not, to what it says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from weftjobs import (
    Cron,
    Every,
    InvalidScheduleError,
    ObservableArray,
    Row,
    Trigger,
    atomic,
    format_duration,
    plan_row,
)
from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.errors import check_flag, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fields_of(action: Action, timezone: str | ZoneInfo | None) -> dict[str, Any]:
    """Return the fields of a job's row.

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
    flags = {"overlap": spec.overlap, "immediate": spec.immediate}
    return {"action": action.name, **when, **flags, "exclusive": spec.exclusive is not None}


def synchronize(
    jobs: ObservableArray,
    actions: Mapping[str, Action],
    timezone: str | ZoneInfo | None,
    now: int,
) -> list[str]:
    """Bring the rows of an array that outlived the process in line with the code.

    A new job is appended. A row whose declaration in the code is what it was keeps its edits;
    where the code has changed, it wins. Rows of jobs that are gone stay.

    Returns:
        The names of the jobs that are gone.
    """
    with atomic(jobs):
        named = ((row.get("action"), row) for row in reversed(jobs))
        known = {name: row for name, row in named if isinstance(name, str)}
        for name, action in actions.items():
            declared = _storable(fields_of(action, timezone))
            row = known.pop(name, None)
            if row is None:
                jobs.append(Row(declared, declared=_when(declared)))
            elif row.get("declared") != _when(declared):
                for field in _WHEN - declared.keys():
                    row.pop(field, None)
                # Before this moment the new schedule has missed nothing.
                row.update(declared, declared=_when(declared), seen=now)
    return list(known)


_WHEN = frozenset({"at", "every", "cron", "tz", "trigger"})


def _when(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in declared.items() if field != "action"}


def _storable(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the trigger as text: what it is stays in the code."""
    return {
        field: trigger_name(value)
        if field == "trigger"
        else str(value)
        if field == "tz"
        else value
        for field, value in fields.items()
    }


def latest_missed(trigger: Trigger | None, started: int, now: int) -> int | None:
    """Return the latest slot that came after a run started and is not after now, if any did."""
    if trigger is None:
        return None
    if isinstance(trigger, Every) and trigger.origin is None:
        latest = now - (now - started) % trigger.interval
    else:
        latest = latest_slot(trigger, now)
    return latest if started < latest <= now else None


def _walk(trigger: Trigger, started: int, now: int) -> int:
    latest = started
    for _ in range(_MOST_STEPS):
        following = trigger.after(latest, latest)
        if following is None or following > now:
            break
        latest = following
    return latest


_MOST_STEPS = 10_000
"""How many slots a trigger is asked for that cannot tell its latest one."""


def plan_action(row: Row, *, aligned: bool = False, trigger: Trigger | None = None) -> Trigger:
    """Return the trigger of a job's row, which has one of `every`, `cron` with `tz`, `trigger`.

    A cron time that its zone repeats when the clocks go back comes once.

    Args:
        row: The row.
        aligned: Whether an interval lies on the grid of the clock.
        trigger: What the row's `trigger` stands for when it is text.

    Raises:
        InvalidScheduleError: The row cannot be scheduled; the message names the field.
    """
    fields = dict(row)
    for flag in ("overlap", "immediate", "exclusive"):
        check_flag(flag, fields.get(flag, False))
    given: Trigger | str | None = fields.get("trigger")
    if given is not None:
        _check_alone(fields)
        chosen = _named_trigger(given, trigger) if isinstance(given, str) else given
        if aligned and isinstance(chosen, Every) and chosen.origin is None:
            return Every(chosen.interval, 0)
        return chosen
    planned = plan_row(row, origin=0 if aligned else None)
    if isinstance(planned, Cron):
        return Cron(planned.expression, planned.timezone, repeated="once")
    return planned


def trigger_name(trigger: object) -> str:
    """Return what stands for a trigger in a stored row: the same in every process."""
    name = repr(trigger)
    return f"{type(trigger).__module__}.{type(trigger).__qualname__}" if " at 0x" in name else name


def _named_trigger(name: str, trigger: Trigger | None) -> Trigger:
    if trigger is not None and name == trigger_name(trigger):
        return trigger
    raise InvalidScheduleError(
        f"trigger: {shown(name)} is not the trigger of this job",
        fix="Set it to None and give the row every or cron, or leave it as it was.",
    )


def trigger_of(
    row: Row, *, aligned: bool = False, trigger: Trigger | None = None
) -> Trigger | None:
    """Return the trigger of a job's row; `None` when it cannot be scheduled."""
    try:
        return plan_action(row, aligned=aligned, trigger=trigger)
    except InvalidScheduleError:
        return None


def latest_slot(trigger: Trigger | None, now: int) -> int:
    """Return the latest slot at or before an instant (ms since the epoch).

    Of a trigger that had none in the years before it is the instant itself.
    """
    if isinstance(trigger, Every) and trigger.origin is not None:
        return now - (now - trigger.origin) % trigger.interval
    if isinstance(trigger, Cron):
        previous = trigger.previous(_EPOCH + timedelta(milliseconds=now + 1))
        if previous is not None:
            return (previous - _EPOCH) // timedelta(milliseconds=1)
    elif trigger is not None:
        for days in _LOOKING_BACK:
            since = now - int(days * 86_400_000)
            slot = trigger.after(since, since)
            if slot is not None and slot <= now:
                return _walk(trigger, slot, now)
    return now


_LOOKING_BACK = (1 / 24, 1, 31, 366, 8 * 366)
"""How many days before an instant a slot is looked for, of a trigger that only looks ahead."""


def describe(
    action: Action, trigger: Trigger | None, text: str, next_due: int | None
) -> ActionInfo:
    """Return a job as it is now.

    Args:
        action: The job.
        trigger: Says when it runs.
        text: Its schedule.
        next_due: When it is due next, in ms since the epoch.
    """
    return ActionInfo(
        name=action.name,
        description=action.spec.description,
        groups=action.spec.groups,
        acl=action.spec.acl,
        controller=action.controller,
        method=action.method,
        schedule=text,
        next_time=None if next_due is None else moment(next_due, trigger),
    )


def moment(due: int, trigger: Trigger | None) -> datetime:
    """Return an instant (ms since the epoch) in the zone of a trigger; without one, in UTC."""
    zone = getattr(trigger, "timezone", None)
    instant = _EPOCH + timedelta(milliseconds=due)
    return instant.astimezone(zone) if isinstance(zone, ZoneInfo) else instant


def text_of(trigger: Trigger | None) -> str:
    """Return a schedule as text: `'every 30s'`, `'cron 0 3 * * *'`."""
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
