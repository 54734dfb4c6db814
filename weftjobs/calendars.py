"""Triggers for what cron cannot say: croniter's dialect, and the recurrence rules of iCalendar."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from weftjobs._recurrence_rules import parse_rule
from weftjobs._recurrence_times import RecurrenceTimes, times_of
from weftjobs.cron import _check_repeated
from weftjobs.errors import InvalidScheduleError, shown
from weftjobs.units import Instant, check_length, check_text, to_datetime, to_instant
from weftjobs.zones import EPOCH, FIRST_SECOND, ONE_SECOND, find_zone, next_instant

if TYPE_CHECKING:
    from croniter import croniter


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Croniter:
    """The times of an expression in the wider dialect of the library croniter.

    It knows the last day of the month (`0 0 L * *`), the nth and the last weekday
    (`0 9 * * 5#2`, `0 9 * * L5`), the working day nearest to a date (`0 9 15W * *`), hashes
    (`H H * * *`), and a seventh field of years. Six or seven fields have the second first, as
    in `Cron`. Some expressions mean something else than in `Cron`: ranges may run backwards,
    and a range of one value (`9-9`) is the whole field.

    Times that a zone skips or repeats are treated as in `Cron`.

    Args:
        expression: The expression, at most 1,000 characters.
        timezone: An IANA name or a `ZoneInfo`; None is the zone of the process.
        hash_id: What `H` is drawn from, such as the name of the job: the same text gives the
            same times. Without it `H` is refused. Random fields (`R`) are always refused.
        repeated: Whether a wall time that occurs twice matches `once`, at its first
            occurrence, or `twice`.

    Raises:
        InvalidScheduleError: The expression does not parse, or no date matches it.
        UnknownTimeZoneError: This machine knows no such zone.

    Example:
        >>> from weftjobs.units import to_datetime
        >>> trigger = Croniter("0 9 * * 5#2", "UTC")
        >>> to_datetime(trigger.first(1_767_225_600_000)).isoformat()
        '2026-01-09T09:00:00+00:00'
    """

    expression: str
    timezone: ZoneInfo
    hash_id: str | None
    repeated: Literal["once", "twice"]
    _cron: croniter = field(compare=False)

    def __init__(
        self,
        expression: str,
        timezone: str | ZoneInfo | None,
        *,
        hash_id: str | None = None,
        repeated: Literal["once", "twice"] = "once",
    ) -> None:
        _check_given("expression", expression)
        check_text(expression, "expression")
        if hash_id is not None:
            _check_given("hash_id", hash_id)
        _check_repeated(repeated)
        fill = partial(object.__setattr__, self)
        fill("expression", expression)
        fill("timezone", find_zone(timezone))
        fill("hash_id", hash_id)
        fill("repeated", repeated)
        fill("_cron", _parsed(expression, hash_id))

    def first(self, now: int, /) -> int | None:
        """Return the first match strictly after `now`, in milliseconds since the epoch."""
        from croniter.croniter import HOUR_FIELD

        repeats = self.repeated == "twice" or self._cron.expanded[HOUR_FIELD] == ["*"]
        second = next_instant(self._next_wall, self.timezone, now // 1000, repeats=repeats)
        return None if second is None else second * 1000

    def after(self, previous: int, now: int, /) -> int | None:
        """Return the first match past both `previous` and `now` (milliseconds)."""
        return self.first(max(previous, now))

    def __repr__(self) -> str:
        hashed = "" if self.hash_id is None else f", hash_id={self.hash_id!r}"
        return f"Croniter({self.expression!r}, {_zone_and(self, hashed)})"

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(Croniter, hash_id=self.hash_id, repeated=self.repeated)
        return made, (self.expression, self.timezone)

    def _next_wall(self, wall: int) -> int | None:
        # A croniter remembers where it is, so each question goes to a copy.
        cron = copy(self._cron)
        try:
            return int(cron.get_next(float, start_time=float(max(wall, FIRST_SECOND))))
        except (ValueError, OverflowError):
            return None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Recurrence:
    """The times of an iCalendar recurrence rule (RFC 5545), counted from a start.

    The rule is what stands behind `RRULE:`, with that prefix or without. Like a calendar, it
    reads the wall clock of its zone: the start says where intervals are counted from, and
    which day and time is meant where the rule does not say so. The start itself is due only
    if it matches the rule. Times that a zone skips or repeats are treated as in `Cron`.

    `UNTIL` is the last moment that may match: a date includes that whole day, a date and time
    is read on the zone's wall clock, and with a `Z` behind it is in UTC. `COUNT` counts wall
    times, those that the zone skips too, up to 1,000 and for a hundred years at most.

    A rule that matches nothing for 50 years has ended.

    Args:
        rule: The rule, at most 1,000 characters.
        timezone: An IANA name or a `ZoneInfo`; None is the zone of the process.
        start: Milliseconds since the epoch, an aware `datetime`, or ISO 8601 text with an
            offset; cut to whole seconds.
        repeated: Whether a wall time that occurs twice matches `once`, at its first
            occurrence, or `twice`. A rule that matches in every hour keeps its beat.

    Raises:
        InvalidScheduleError: The rule does not parse, or matches nothing.
        UnknownTimeZoneError: This machine knows no such zone.

    Example:
        >>> from weftjobs.units import to_datetime
        >>> trigger = Recurrence("FREQ=MONTHLY;BYDAY=-1FR", "UTC", "2026-01-01T17:00:00Z")
        >>> to_datetime(trigger.first(1_767_225_600_000)).isoformat()
        '2026-01-30T17:00:00+00:00'
    """

    rule: str
    timezone: ZoneInfo
    start: int
    repeated: Literal["once", "twice"]
    _times: RecurrenceTimes = field(compare=False)

    def __init__(
        self,
        rule: str,
        timezone: str | ZoneInfo | None,
        start: Instant,
        *,
        repeated: Literal["once", "twice"] = "once",
    ) -> None:
        _check_given("rule", rule)
        _check_repeated(repeated)
        zone = find_zone(timezone)
        begin = to_instant(start, "start") // 1000
        fill = partial(object.__setattr__, self)
        fill("rule", rule)
        fill("timezone", zone)
        fill("start", begin * 1000)
        fill("repeated", repeated)
        shows = to_datetime(begin * 1000, zone, "start").replace(tzinfo=UTC)
        fill("_times", times_of(parse_rule(rule), (shows - EPOCH) // ONE_SECOND))
        if self._next(begin - 1) is None:
            raise InvalidScheduleError(
                f"rule: {shown(rule)} matches nothing", fix="Change it so that some date matches."
            )

    def first(self, now: int, /) -> int | None:
        """Return the first match strictly after `now`, in milliseconds since the epoch."""
        second = self._next(max(now, self.start - 1) // 1000)
        return None if second is None else second * 1000

    def after(self, previous: int, now: int, /) -> int | None:
        """Return the first match past both `previous` and `now` (milliseconds)."""
        return self.first(max(previous, now))

    def __repr__(self) -> str:
        start = f", {to_datetime(self.start).isoformat()!r}"
        return f"Recurrence({self.rule!r}, {_zone_and(self, start)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Recurrence, repeated=self.repeated), (self.rule, self.timezone, self.start)

    def _next(self, after: int) -> int | None:
        times = self._times
        repeats = self.repeated == "twice" or times.all_hours
        second = next_instant(times.next_wall, self.timezone, after, repeats=repeats)
        return None if second is None or second > times.rule.last_instant else second


def _zone_and(trigger: Croniter | Recurrence, more: str) -> str:
    zone = trigger.timezone.key or trigger.timezone
    repeated = "" if trigger.repeated == "once" else f", repeated={trigger.repeated!r}"
    return f"{zone!r}{more}{repeated}"


def _check_given(name: str, text: object) -> None:
    if not isinstance(text, str):
        kind = type(text).__name__
        raise InvalidScheduleError(
            f"{name}: {shown(text)} is of type {kind}", fix="Give it as text."
        )
    check_length(text, name)


@lru_cache(maxsize=256)
def _parsed(expression: str, hash_id: str | None) -> croniter:
    """Return croniter's reading of an expression that some date matches."""
    fields = expression.lower().split()
    _check_hashes(expression, fields, hash_id)
    try:
        # 28 years have every kind of year there is.
        _croniter(fields[:6], hash_id, years=28).get_next(float)
        found = _croniter(fields, hash_id, years=2100)
        if found.expanded[6:] in ([], [["*"]]):
            found = _croniter(fields[:6], hash_id, years=40)
        found.get_next(float)
    except Exception as error:
        # Not only its own errors come out of croniter for what it cannot read.
        raise InvalidScheduleError(
            f"expression: {shown(expression)} does not parse or never matches: {error}",
            fix="Write what croniter reads, such as '0 0 L * *', and a date that exists.",
        ) from error
    return found


def _croniter(fields: list[str], hash_id: str | None, years: int) -> croniter:
    from croniter import croniter

    return croniter(
        " ".join(fields),
        datetime(1999, 12, 31, 23, 59, 59) if len(fields) < 7 else datetime(1969, 12, 31),
        max_years_between_matches=years,
        hash_id=hash_id,
        # Its macros with a hash have the second last, however it is told to read fields.
        second_at_beginning=not fields[0].startswith("@"),
    )


def _check_hashes(expression: str, fields: list[str], hash_id: str | None) -> None:
    if not fields:
        raise InvalidScheduleError("expression: '' is empty", fix="Write five fields.")
    if any(text.startswith("r") for text in fields):
        raise InvalidScheduleError(
            f"expression: {shown(expression)} has a random field",
            fix="Write H instead of R, with a hash_id that tells the jobs apart.",
        )
    if hash_id is None and any(text.startswith("h") for text in fields):
        raise InvalidScheduleError(
            f"expression: {shown(expression)} has a hash, but there is no hash_id",
            fix="Give a hash_id, such as the name of the job.",
        )
