"""Who is put to which workload, and what is aimed at."""

from __future__ import annotations

from dataclasses import dataclass, field

Aims = dict[str, float]
"""The most that a contestant should reach, by its name."""

OURS = ("weftjobs", "weftjobs on trio")
PEERS = ("bare loop", *OURS, "APScheduler 3", "schedule")
NOT_SCHEDULE = PEERS[:-1]
"""`schedule` runs one function after another, and edits 100,000 jobs in minutes, not seconds."""

METHODS = ("weftjobs_controllers", "weftjobs_controllers on trio")


def both(most: float) -> Aims:
    return dict.fromkeys(OURS, most)


@dataclass(frozen=True)
class Figure:
    """What a figure is, in which unit, and what is aimed at.

    `times` are aims in multiples of the yardstick, `most` in the unit of the figure. Medians are
    held against them, or with `always` the worst round. Without `ratio` a multiple says nothing.
    """

    title: str
    times: Aims = field(default_factory=dict)
    most: Aims = field(default_factory=dict)
    always: bool = False
    ratio: bool = True


@dataclass(frozen=True)
class Table:
    """A workload: its contestants, the first of which is the yardstick, and its figures."""

    contestants: tuple[str, ...]
    figures: dict[str, Figure]


TABLES = {
    "churn": Table(
        PEERS,
        {
            "add": Figure("add a job, µs", times=both(7)),
            "reschedule": Figure("reschedule a job, µs", times=both(5)),
            "remove": Figure("remove a job, µs", times=both(5)),
        },
    ),
    "memory": Table(PEERS, {"bytes": Figure("a job, bytes", times=both(4))}),
    "growth": Table(
        NOT_SCHEDULE,
        {
            f"{step} slope": Figure(
                f"{step} at 1,000 and at 100,000, slope", most=both(0.15), ratio=False
            )
            for step in ("add", "reschedule", "remove")
        },
    ),
    "burst": Table(PEERS, {"burst": Figure("a run in a burst of 10,000, µs", times=both(0.75))}),
    "waiting": Table(
        NOT_SCHEDULE,
        {
            "last start": Figure(
                "10,000 runs that wait 0.3 s, last start, ms",
                times={"weftjobs": 1.9, "weftjobs on trio": 4},
            )
        },
    ),
    "trickle": Table(
        PEERS,
        {
            "p99 late": Figure("1,000 runs a second, 99th percentile late, ms", times=both(1.1)),
            "trickle cpu": Figure(
                "1,000 runs a second, CPU in a second, ms",
                times={"weftjobs": 1.4, "weftjobs on trio": 2.2},
            ),
            "missed": Figure("missed runs of 5,000", most=both(0), always=True),
            "repeated": Figure("repeated runs of 5,000", most=both(0), always=True),
        },
    ),
    "idle": Table(PEERS, {"idle cpu": Figure("100,000 jobs, CPU in 10 s, ms", most=both(1))}),
    "controllers": Table(
        ("bare loop", *METHODS),
        {"method": Figure("a method in a burst of 10,000, µs", times=dict.fromkeys(METHODS, 2.0))},
    ),
    "cron": Table(
        ("weftjobs", "croniter", "cronsim"),
        {
            "parse": Figure("parse, µs", most={"weftjobs": 15}),
            "next number": Figure("next as a number, mean, µs", most={"weftjobs": 3}),
            "slowest next number": Figure("next as a number, slowest, µs"),
            "next datetime": Figure("next as a datetime, mean, µs", most={"weftjobs": 5}),
            "slowest next datetime": Figure("next as a datetime, slowest, µs"),
            "first walk": Figure("next on the first walk, mean, µs"),
            "slowest first walk": Figure("next on the first walk, slowest, µs"),
        },
    ),
    "import": Table(
        ("weftjobs", "weftjobs_controllers", "APScheduler 3", "schedule"),
        {"import": Figure("import, ms", most={"weftjobs": 60, "weftjobs_controllers": 100})},
    ),
}
