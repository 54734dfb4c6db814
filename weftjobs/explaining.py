"""What an expression means: its next times, and what the changes of the clocks do to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from weftjobs._cron_fields import FIELDS, CronFields, fields_of, parse_fields
from weftjobs.cron import Cron
from weftjobs.zones import EPOCH, offset_changes

_MOST = 100
"""How many wall times of one change of the clocks are listed."""


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a zone's clocks, and which matches of an expression it touches.

    Attributes:
        at: The instant from which the new offset holds, in the zone.
        before: The offset from UTC before it.
        after: The offset from UTC after it.
        skipped: The matching wall times that it skips: they do not come that day.
        doubled: The matching wall times that come twice.
    """

    at: datetime
    before: timedelta
    after: timedelta
    skipped: tuple[datetime, ...]
    doubled: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is to be said of an expression in a zone.

    Attributes:
        expression: The expression.
        timezone: The name of the zone.
        notes: What may surprise: uneven steps, days that match either field.
        changes: The changes of the clocks that touch it.
    """

    expression: str
    timezone: str
    notes: tuple[str, ...]
    changes: tuple[ClockChange, ...]


def explain(cron: Cron, after: datetime, until: datetime) -> Explanation:
    """Return what is to be said of a cron expression between two instants."""
    return Explanation(
        expression=cron.expression,
        timezone=cron.timezone.key or str(cron.timezone),
        notes=tuple(_notes(cron.expression)),
        changes=tuple(change for change in clock_changes(cron, after, until) if _touches(change)),
    )


def clock_changes(cron: Cron, after: datetime, until: datetime) -> Iterator[ClockChange]:
    """Yield the changes of the clocks of a cron's zone, whether they touch it or not."""
    begin, end = (
        (each.astimezone(UTC) - EPOCH) // timedelta(seconds=1) for each in (after, until)
    )
    for instant, old, new in offset_changes(cron.timezone, begin, end):
        # An expression that names no hour keeps its beat, and is not touched.
        beats = cron._repeats and cron.repeated == "once"
        low, high = instant + min(old, new), instant + max(old, new)
        walls = () if beats else tuple(_matches(cron, low, high))
        yield ClockChange(
            at=(EPOCH + timedelta(seconds=instant)).astimezone(cron.timezone),
            before=timedelta(seconds=old),
            after=timedelta(seconds=new),
            skipped=walls if new > old else (),
            doubled=walls if new < old else (),
        )


def _touches(change: ClockChange) -> bool:
    return bool(change.skipped or change.doubled)


def _matches(cron: Cron, low: int, high: int) -> Iterator[datetime]:
    """Yield the wall times from low up to high that match, as naive datetimes."""
    return islice(_all_matches(cron, low, high), _MOST)


def _all_matches(cron: Cron, low: int, high: int) -> Iterator[datetime]:
    wall = cron._calendar.next_wall(low - 1)
    while wall is not None and wall < high:
        yield (EPOCH + timedelta(seconds=wall)).replace(tzinfo=None)
        wall = cron._calendar.next_wall(wall)


def _notes(expression: str) -> Iterator[str]:
    fields = parse_fields(expression)
    texts = fields_of(expression)
    for text, field, mask in zip(texts, FIELDS, fields[:6], strict=True):
        yield from _uneven(text, field.name, mask, field.low, field.high)
    if fields.either_day:
        yield (
            f"Both day fields are restricted ({texts[3]} and {texts[5]}): "
            "a day that matches either one matches."
        )
    yield from _short_months(fields, texts[3])


def _uneven(text: str, name: str, mask: int, low: int, high: int) -> Iterator[str]:
    star, _, step = text.partition("/")
    if star != "*" or not step or name == "day of week":
        return
    values = [value for value in range(low, high + 1) if mask >> value & 1]
    gap = high - values[-1] + values[0] - low + 1
    if gap != int(step):
        unit = "days" if name == "day of month" else f"{name}s"
        yield (
            f"{text} in the {name} is uneven: after {values[-1]} comes {values[0]}, "
            f"{gap} {unit} later, not {int(step)}."
        )


def _short_months(fields: CronFields, text: str) -> Iterator[str]:
    lowest = (fields.days & -fields.days).bit_length() - 1
    if not fields.either_day and lowest > 28:
        yield f"Day of month {text} does not come in every month."
