"""What a cron expression costs, to parse and to ask for its times, here and in other libraries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from weftjobs import Cron

EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 9 * * *",
    "0 7 * * 1-5",
    "15 6,18 * * *",
    "30 2 1 * *",
    "0 0 29 2 *",
)
"""All are asked in each of the zones."""

ZONES = "UTC", "Europe/Berlin"

TO_PARSE = (
    "{m} {h} * * 1-5",
    "{m} {h} 1 * *",
    "{m} {h} 29 2 *",
    "{m}-59/2 {h}-23 * * mon,wed,fri",
)
"""Filled in with minutes and hours: no two are the same, so that no cache helps."""

STEPS = 200
"""How many times in a row are asked for."""

START = datetime(2026, 10, 16, 12, tzinfo=UTC)

Walk = Callable[[str, str], Iterator[Any]]
"""Yields the times of an expression in a zone."""


@dataclass(frozen=True)
class CronLibrary:
    """How a library parses, and how it walks along times as numbers and as datetimes."""

    parse: Callable[[str], object]
    walks: dict[str, Walk]


def parse_weftjobs(expression: str) -> object:
    return Cron(expression, "UTC")


def walk_weftjobs_numbers(expression: str, zone: str) -> Iterator[Any]:
    cron = Cron(expression, zone)
    due: int | None = int(START.timestamp()) * 1000
    while due is not None:
        due = cron.after(due, due)
        yield due


def walk_weftjobs(expression: str, zone: str) -> Iterator[Any]:
    cron = Cron(expression, zone)
    moment: datetime | None = START
    while moment is not None:
        moment = cron.next(moment)
        yield moment


def parse_croniter(expression: str) -> object:
    return croniter(expression, START)


def walk_croniter_numbers(expression: str, zone: str) -> Iterator[Any]:
    return croniter(expression, START.astimezone(ZoneInfo(zone))).all_next(float)


def walk_croniter(expression: str, zone: str) -> Iterator[Any]:
    return croniter(expression, START.astimezone(ZoneInfo(zone))).all_next(datetime)


def parse_cronsim(expression: str) -> object:
    return CronSim(expression, START)


def walk_cronsim(expression: str, zone: str) -> Iterator[Any]:
    return CronSim(expression, START.astimezone(ZoneInfo(zone)))


LIBRARIES = {
    "weftjobs": CronLibrary(
        parse_weftjobs, {"number": walk_weftjobs_numbers, "datetime": walk_weftjobs}
    ),
    "croniter": CronLibrary(
        parse_croniter, {"number": walk_croniter_numbers, "datetime": walk_croniter}
    ),
    "cronsim": CronLibrary(parse_cronsim, {"datetime": walk_cronsim}),
}
"""By name; cronsim answers in datetimes only."""


def cron(library: CronLibrary) -> dict[str, float]:
    """Parse many expressions, and walk along the times of some: µs of CPU for one.

    Each walk is taken twice. The first, by the first way, is where a library may take down what
    it finds out about a zone.
    """
    figures = {"parse": parse_cost(library.parse)}
    cold = walk_costs(next(iter(library.walks.values())))
    for kind, walk in library.walks.items():
        costs = walk_costs(walk)
        figures[f"next {kind}"] = statistics.mean(costs)
        figures[f"slowest next {kind}"] = max(costs)
    return figures | {"first walk": statistics.mean(cold), "slowest first walk": max(cold)}


def parse_cost(parse: Callable[[str], object]) -> float:
    for expression in EXPRESSIONS:
        parse(expression)
    texts = [text.format(m=m, h=h) for text in TO_PARSE for m in range(50) for h in range(20)]
    start = time.process_time()
    for text in texts:
        parse(text)
    return (time.process_time() - start) / len(texts) * 1e6


def walk_costs(walk: Walk) -> list[float]:
    return [walk_cost(walk(text, zone)) for text in EXPRESSIONS for zone in ZONES]


def walk_cost(times: Iterator[Any]) -> float:
    for _ in range(10):
        next(times)
    start = time.process_time()
    for _ in range(STEPS):
        next(times)
    return (time.process_time() - start) / STEPS * 1e6
