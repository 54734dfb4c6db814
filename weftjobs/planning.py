"""From a row to its trigger, or to the error that says why it has none."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from weftjobs._row import Row, check_row
from weftjobs.cron import Cron
from weftjobs.errors import InvalidScheduleError, shown
from weftjobs.triggers import At, Every, Trigger
from weftjobs.units import Instant
from weftjobs.zones import find_zone

Planner = Callable[[Row], Trigger | None]


def plan_row(row: Row, *, origin: Instant | None = None) -> Trigger:
    """Return the trigger of a row that has exactly one of `at`, `every` and `cron`.

    This is how a scheduler reads rows unless it is given another planner. A field that is
    `None` counts as missing. A cron reads the wall clock of the zone in `tz`, which has no
    default; a time that the zone repeats when its clocks go back comes twice.

        >>> plan_row(Row(every="30s"))
        Every(interval=30000, origin=None)

    Args:
        row: The row.
        origin: An instant on the grid of the intervals: `0` puts them on the clock's, so
            that a restart does not move them. By default a grid begins when the row is seen.

    Raises:
        InvalidScheduleError: When the row cannot be scheduled; the message names the field.
        JobsError: `invalid`, when it is not a `Row`.
    """
    if type(row) is not Row:
        check_row(row)
    field: Callable[[str], Any] = row._fields.get
    at, every, cron = field("at"), field("every"), field("cron")
    if (at is not None) + (every is not None) + (cron is not None) != 1:
        raise _not_one(at, every, cron)
    if every is not None:
        # Rows often share an interval: equal triggers are one object, made once.
        shareable = type(every) is int and (origin is None or type(origin) is int)
        return _shared(every, origin) if shareable else Every(every, origin)
    if at is not None:
        return At(at)
    tz = field("tz")
    if tz is None:
        raise InvalidScheduleError(
            f"tz: missing beside cron {shown(cron)}",
            fix="Name the zone whose wall clock it reads, such as tz='Europe/Berlin' or 'UTC'.",
        )
    return Cron(cron, find_zone(tz, "tz"), repeated="twice")


_shared = lru_cache(maxsize=1024, typed=True)(Every)


def pausable(plan: Planner) -> Planner:
    """Wrap a planner so that a row with a true `paused` is not scheduled.

    Example:
        >>> plan = pausable(plan_row)
        >>> plan(Row(every="30s", paused=True)) is None
        True
    """

    def plan_unless_paused(row: Row) -> Trigger | None:
        return None if row.get("paused") else plan(row)

    return plan_unless_paused


def _not_one(at: object, every: object, cron: object) -> InvalidScheduleError:
    named = {"at": at, "every": every, "cron": cron}
    given = [f"{name}={shown(value)}" for name, value in named.items() if value is not None]
    wrong = f"has {' and '.join(given)}" if given else "has none of at, every and cron"
    return InvalidScheduleError(
        f"row: {wrong}", fix="Give it exactly one of at, every and cron (with tz)."
    )
