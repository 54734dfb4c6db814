"""All contestants at all workloads, in turns, as Markdown tables.

    python -m benchmarks.compare [workload ...] [--rounds 5]

Each measurement is a process of its own. In each round every contestant of a workload has its
turn; the tables have the medians of the rounds, and the least and the most.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.tables import TABLES, Figure, Table

LIBRARIES = ("anyio", "trio", "APScheduler", "schedule", "croniter", "cronsim")

LONGEST = 600
"""How many seconds a measurement may take."""

Figures = dict[str, float]
Rounds = dict[str, list[Figures]]
"""What was measured, by contestant."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(TABLES))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    unknown = set(given.workloads) - set(TABLES)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    if given.rounds < 1:
        parser.error(f"--rounds: {given.rounds} is less than 1")
    try:
        print(facts(given.rounds))
    except PackageNotFoundError as error:
        parser.error(f"{error.name} is not installed: pip install '.[benchmark]'")
    for workload in given.workloads or TABLES:
        table = TABLES[workload]
        rounds = measure(workload, table, given.rounds)
        print(f"\n<!-- table: {workload} -->")
        for name, figure in table.figures.items():
            print("\n" + render(figure, table.contestants[0], column(rounds, name)), flush=True)


def facts(rounds: int) -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {rounds} rounds, {platform.python_implementation()} "
        f"{platform.python_version()}, {os.cpu_count()} CPUs, {processor()}, load {load}; "
        f"{libraries}"
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def measure(workload: str, table: Table, count: int) -> Rounds:
    rounds: Rounds = {contestant: [] for contestant in table.contestants}
    for number in range(1, count + 1):
        for contestant, measured in rounds.items():
            print(f"{workload} {number}/{count}: {contestant}", file=sys.stderr, flush=True)
            measured.append(measure_once(workload, contestant))
    return rounds


def measure_once(workload: str, contestant: str) -> Figures:
    command = [sys.executable, "-m", "benchmarks.one", workload, contestant]
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=LONGEST, text=True)
    if ended.returncode:
        sys.exit(f"{workload}: {contestant} failed")
    figures: Figures = json.loads(ended.stdout)
    return figures


def column(rounds: Rounds, name: str) -> dict[str, list[float]]:
    """Return one figure of all rounds, by contestant, without those who do not have it."""
    return {
        contestant: [figures[name] for figures in measured]
        for contestant, measured in rounds.items()
        if name in measured[0]
    }


def render(figure: Figure, yardstick: str, values: dict[str, list[float]]) -> str:
    lines = [
        f"| {figure.title} | median | least to most | times {yardstick} | aim | |",
        "|---|--:|--:|--:|--:|---|",
    ]
    unit = statistics.median(values.get(yardstick, [0.0]))
    for contestant, each in values.items():
        median = statistics.median(each)
        cells = [
            contestant,
            number(median),
            f"{number(min(each))} to {number(max(each))}",
            number(median / unit) if figure.ratio and unit else "",
            *judge(figure, contestant, each, unit),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def judge(figure: Figure, contestant: str, values: list[float], unit: float) -> tuple[str, str]:
    """Return the aim of a contestant, if it has one, and whether it is met."""
    value = max(values) if figure.always else statistics.median(values)
    if contestant in figure.times:
        aim = figure.times[contestant]
        return f"≤ {aim:g} times", met(value <= aim * unit)
    if contestant in figure.most:
        aim = figure.most[contestant]
        return f"≤ {aim:g}", met(value <= aim)
    return "", ""


def met(reached: bool) -> str:
    return "met" if reached else "missed"


def number(value: float) -> str:
    """Show three digits, or all that are before the point."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


if __name__ == "__main__":
    main()
