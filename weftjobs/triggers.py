"""When: frozen values that answer the next slot, in whole milliseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weftjobs.units import MAX_INSTANT, Duration, Instant, to_duration, to_instant


class Trigger(Protocol):
    """When something is due: a value that answers the same however often it is asked.

    Triggers are compared: an edit of a row that leads to an equal trigger changes nothing.
    So make yours frozen, for example a `dataclass(frozen=True)`.
    """

    def first(self, now: int, /) -> int | None:
        """Return the first slot, in ms since the epoch, asked at `now`; `None` for never.

        A periodic trigger answers the first slot past `now`; a one-off its instant, past
        or not.
        """

    def after(self, previous: int, now: int, /) -> int | None:
        """Return the slot after `previous`, past `now` as well; `None` when there is none."""


@dataclass(frozen=True, slots=True, init=False)
class At:
    """Once, at an instant. It is due at once when the instant is past.

        >>> At("2026-09-05T15:00:00Z").at
        1788620400000

    Args:
        at: Milliseconds since the epoch, an aware `datetime`, or ISO 8601 text with an
            offset.

    Raises:
        InvalidScheduleError: When it is not an instant.
    """

    at: int

    def __init__(self, at: Instant) -> None:
        object.__setattr__(self, "at", to_instant(at, "at"))

    def first(self, now: int, /) -> int | None:
        """Return the instant."""
        return self.at

    def after(self, previous: int, now: int, /) -> int | None:
        """Return `None`: it comes once."""
        return None


@dataclass(frozen=True, slots=True, init=False)
class Every:
    """At a fixed interval, on a grid that does not move with what a run takes.

        >>> Every("15m", origin=0).first(3_600_001)
        4500000

    Args:
        interval: Milliseconds (at least 1), a `timedelta`, or text such as `'1h30m'`.
        origin: An instant that lies on the grid, so that several processes, or one that
            is restarted, share one grid; `0` is the clock's own. By default the grid
            begins when the trigger is first asked.

    Raises:
        InvalidScheduleError: When either is not what it should be.
    """

    interval: int
    origin: int | None

    def __init__(self, interval: Duration, origin: Instant | None = None) -> None:
        set_field = object.__setattr__
        set_field(self, "interval", to_duration(interval, "every"))
        set_field(self, "origin", None if origin is None else to_instant(origin, "origin"))

    def first(self, now: int, /) -> int | None:
        """Return the first slot of the grid past now: one interval ahead, without an origin."""
        return self._past(now if self.origin is None else self.origin, now)

    def after(self, previous: int, now: int, /) -> int | None:
        """Return the first slot of the grid past both the previous slot and now."""
        grid = previous if self.origin is None else self.origin
        return self._past(grid, max(previous, now))

    def _past(self, grid: int, instant: int) -> int | None:
        slot = grid + ((instant - grid) // self.interval + 1) * self.interval
        return slot if slot <= MAX_INSTANT else None
