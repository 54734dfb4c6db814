"""Time zones by name, and the mapping between a zone's wall clock and instants.

Instants are whole seconds since the epoch. Wall times are whole seconds too: what a clock on
the wall shows, counted as if it showed UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from weftjobs.errors import InvalidScheduleError, UnknownTimeZoneError

FIRST_SECOND = -62_135_596_800
"""0001-01-01T00:00:00, the first second of the calendar, as an instant or a wall time."""

LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59, the last second of the calendar, as an instant or a wall time."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_SECOND = timedelta(seconds=1)

_DAY = 86_400
_CHUNK = 64 * _DAY
_LONGEST_FOLD = 2 * _DAY
_NEVER = LAST_SECOND + 10 * _DAY
_ALWAYS = FIRST_SECOND - 10 * _DAY

_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,40}(?:/[A-Za-z0-9_+-]{1,40}){0,3}")
_NOT_IANA = frozenset({"posix", "right", "posixrules", "localtime"})
"""What system databases hold beside IANA's names; `right/` zones run 27 seconds off."""


class Segment(NamedTuple):
    """A stretch of instants, from `start` to before `end`, with one UTC offset (seconds).

    Wall times of the segment below `repeats_until` have occurred before the segment.
    """

    start: int
    end: int
    offset: int
    repeats_until: int


def find_zone(zone: str | ZoneInfo | None, field: str = "timezone") -> ZoneInfo:
    """Return the zone of an IANA name or a `ZoneInfo`; for None, the zone of the process.

    Raises:
        UnknownTimeZoneError: When this machine knows no such zone.
        InvalidScheduleError: When the zone of the process cannot be found out.
    """
    if zone is None:
        zone = _process_zone(field)
    if isinstance(zone, ZoneInfo):
        return _canonical(zone, field)
    found = _load(zone)
    if found is None:
        raise UnknownTimeZoneError(zone, field)
    return found


def _canonical(zone: ZoneInfo, field: str) -> ZoneInfo:
    if _is_foreign(zone.key):
        raise UnknownTimeZoneError(zone.key, field)
    # A zone read from a file has a key that the database does not know, or none.
    return _load(zone.key) or zone


def _load(name: object) -> ZoneInfo | None:
    if not isinstance(name, str) or not _ZONE_NAME.fullmatch(name):
        return None
    if _is_foreign(name):
        return None
    try:
        return ZoneInfo(name)
    except Exception:  # a directory, a file that is no zone, a damaged one: the list is open
        return None


def _is_foreign(name: object) -> bool:
    return isinstance(name, str) and name.split("/")[0] in _NOT_IANA


def _process_zone(field: str) -> ZoneInfo:
    # Only those who leave the zone out pay for the import.
    import tzlocal

    try:
        return tzlocal.get_localzone()
    except Exception as error:
        raise InvalidScheduleError(
            f"{field}: the time zone of this process cannot be found out: {error}",
            fix="Name the zone, such as 'Europe/Berlin', or set TZ to an IANA name.",
        ) from error


def next_instant(
    next_wall: Callable[[int], int | None], zone: ZoneInfo, after: int, *, repeats: bool
) -> int | None:
    """Return the first instant strictly after `after` whose wall time is a match.

    A wall time that the zone skips never comes; one that occurs twice comes twice with
    `repeats`, else at its first occurrence.

    Args:
        next_wall: Returns the first matching wall time strictly after another, or None.
            It is asked about times from `FIRST_SECOND - 1` to `LAST_SECOND`.
        zone: The zone of the wall clock.
        after: Where to start, in seconds since the epoch.
        repeats: Whether the second occurrence of a wall time counts.

    Returns:
        None when the calendar ends first.
    """
    start = at = max(after + 1, FIRST_SECOND)
    asked = wall = _ALWAYS
    while at <= LAST_SECOND:
        _, end, offset, repeats_until = _segment_at(zone, at)
        shows = at + offset if repeats else max(at + offset, repeats_until)
        if not asked < shows <= wall:
            asked = min(max(shows, FIRST_SECOND), LAST_SECOND + 1) - 1
            wall = _in_calendar(next_wall(asked), _NEVER)
        if wall - offset < end:
            return wall - offset
        at = end
        # A fold lets earlier wall times come again, but not beyond its own length.
        if at - start > _LONGEST_FOLD:
            at = max(at, wall - _DAY)
    return None


def previous_instant(
    previous_wall: Callable[[int], int | None], zone: ZoneInfo, before: int, *, repeats: bool
) -> int | None:
    """Return the last instant strictly before `before` whose wall time is a match.

    The mirror of `next_instant`: `previous_wall` returns the last matching wall time strictly
    before another, and is asked about times from `FIRST_SECOND` to `LAST_SECOND + 1`.
    """
    start = at = min(before - 1, LAST_SECOND)
    asked = wall = _NEVER
    while at >= FIRST_SECOND:
        begin, _, offset, repeats_until = _segment_at(zone, at)
        shows = at + offset
        if not wall <= shows < asked:
            asked = max(min(shows, LAST_SECOND), FIRST_SECOND - 1) + 1
            wall = _in_calendar(previous_wall(asked), _ALWAYS)
        if wall - offset >= begin and (repeats or wall >= repeats_until):
            return wall - offset
        at = begin - 1
        if start - at > _LONGEST_FOLD:
            at = min(at, wall + _DAY)
    return None


def _in_calendar(wall: int | None, otherwise: int) -> int:
    return wall if wall is not None and FIRST_SECOND <= wall <= LAST_SECOND else otherwise


def _segment_at(zone: ZoneInfo, instant: int) -> Segment:
    segments = _segments(zone, instant // _CHUNK)
    for segment in segments:
        if instant < segment[1]:
            break
    return segment


@lru_cache(maxsize=4096)
def _segments(zone: ZoneInfo, chunk: int) -> tuple[Segment, ...]:
    """Return the segments that make up one chunk of the calendar."""
    begin = max(chunk * _CHUNK, FIRST_SECOND)
    end = min((chunk + 1) * _CHUNK, LAST_SECOND + 1)
    borders = [*_borders(zone, max(begin - _LONGEST_FOLD, FIRST_SECOND), end), end]
    found = []
    shown = _ALWAYS
    for start, stop in pairwise(borders):
        offset = _offset(zone, start)
        found.append(Segment(max(start, begin), stop, offset, shown))
        shown = stop + offset
    return tuple(segment for segment in found if segment.end > begin)


def offset_at(zone: ZoneInfo, instant: int) -> int:
    """Return the offset of a zone from UTC at an instant, in seconds."""
    return _segment_at(zone, instant).offset


def offset_changes(zone: ZoneInfo, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the changes of a zone's clocks from one instant up to another.

    Yields:
        The instant from which the new offset holds, the old offset and the new one, in seconds.
    """
    for instant in islice(_borders(zone, begin, end), 1, None):
        yield instant, _offset(zone, instant - 1), _offset(zone, instant)


def _borders(zone: ZoneInfo, begin: int, end: int) -> Iterator[int]:
    """Yield `begin` and the instants up to `end` at which the offset changes.

    One probe a day finds them all: no zone has ever changed its clocks twice in three days.
    """
    yield begin
    probes = [*range(begin, end, _DAY), end - 1]
    offsets = [_offset(zone, probe) for probe in probes]
    for index, (old, new) in enumerate(pairwise(offsets)):
        if old != new:
            yield _change(zone, probes[index], probes[index + 1])


def _change(zone: ZoneInfo, low: int, high: int) -> int:
    """Return the instant in (low, high] from which the offset is that of `high`."""
    old = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == old:
            low = middle
        else:
            high = middle
    return high


def _offset(zone: ZoneInfo, instant: int) -> int:
    # A day's distance to the ends of the calendar keeps the wall time inside it.
    inside = min(max(instant, FIRST_SECOND + _DAY), LAST_SECOND - _DAY)
    offset = (EPOCH + timedelta(seconds=inside)).astimezone(zone).utcoffset()
    return offset // ONE_SECOND if offset is not None else 0
