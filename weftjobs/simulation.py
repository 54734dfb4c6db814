"""What would run between two instants, from the schedules alone: no method is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from weftjobs.triggers import Trigger
from weftjobs.units import Duration, to_datetime, to_duration, to_instant
from weftjobs.zones import find_zone, offset_at

_MINUTE = 60_000
_BUSIEST = 5
"""How many of the busiest minutes are named."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A job whose schedule is played.

    Attributes:
        name: Its name.
        trigger: Says when it runs.
        overlap: Whether its runs may overlap.
        takes: How many milliseconds a run takes.
    """

    name: str
    trigger: Trigger
    overlap: bool = False
    takes: int = 0


@dataclass(slots=True)
class Played:
    """What a job did.

    Attributes:
        name: The name of the job.
        count: How often it ran.
        skipped: How many slots came while it ran, and were skipped.
        overlapping: How many of its runs started while another one was in progress.
        hours: How many runs started in each hour of the day, from 0 to 23.
        first: When the first run started.
        last: When the last one did.
    """

    name: str
    count: int = 0
    skipped: int = 0
    overlapping: int = 0
    hours: list[int] = field(default_factory=lambda: [0] * 24)
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """What all jobs did.

    Attributes:
        since: The beginning, after which slots count.
        until: The end, up to which they do.
        jobs: What each job did, in the order they were given.
        busiest: The minutes in which most runs started, and how many.
    """

    since: datetime
    until: datetime
    jobs: tuple[Played, ...]
    busiest: tuple[tuple[datetime, int], ...]


def starts(job: Simulated, since: int, until: int) -> Iterator[tuple[int, bool]]:
    """Yield the slots of a job (ms since the epoch) and whether each starts a run.

    A slot that comes while a run is in progress is skipped, unless runs may overlap.
    """
    slot = job.trigger.first(since)
    free = since
    while slot is not None and slot <= until:
        runs = job.overlap or slot >= free
        if runs:
            free = slot + job.takes
        yield slot, runs
        slot = job.trigger.after(slot, slot)


def simulate(
    jobs: Iterable[Simulated],
    since: int | float | datetime | str,
    until: int | float | datetime | str,
    *,
    timezone: str | ZoneInfo | None = "UTC",
) -> Timeline:
    """Play schedules between two instants.

    Args:
        jobs: The jobs.
        since: The beginning: ms since the epoch, an aware `datetime`, or ISO 8601 text.
        until: The end.
        timezone: The zone whose hours are counted.

    Raises:
        InvalidScheduleError: An instant or the zone is none.
    """
    zone = find_zone(timezone)
    begin, end = to_instant(since, "since"), to_instant(until, "until")
    minutes: Counter[int] = Counter()
    played = tuple(_play(job, begin, end, zone, minutes) for job in jobs)
    busiest = sorted(minutes.items(), key=lambda item: (-item[1], item[0]))[:_BUSIEST]
    return Timeline(
        since=to_datetime(begin, zone),
        until=to_datetime(end, zone),
        jobs=played,
        busiest=tuple((to_datetime(minute * _MINUTE, zone), count) for minute, count in busiest),
    )


def _play(job: Simulated, since: int, until: int, zone: ZoneInfo, minutes: Counter[int]) -> Played:
    played = Played(job.name)
    first = last = None
    for slot, runs in starts(job, since, until):
        if not runs:
            played.skipped += 1
            continue
        if last is not None and slot < last + job.takes:
            played.overlapping += 1
        first, last = slot if first is None else first, slot
        played.count += 1
        minutes[slot // _MINUTE] += 1
        second = slot // 1000
        played.hours[(second + offset_at(zone, second)) // 3600 % 24] += 1
    played.first = None if first is None else to_datetime(first, zone)
    played.last = None if last is None else to_datetime(last, zone)
    return played


def taking(takes: Mapping[str, Duration]) -> dict[str, int]:
    """Return how long the runs of jobs take, by name, in ms."""
    return {name: to_duration(duration, name) for name, duration in takes.items()}
