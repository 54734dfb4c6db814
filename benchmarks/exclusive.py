"""Exclusive jobs in many processes: how many slots run, how many twice, and how soon.

    python benchmarks/exclusive.py [--processes 8] [--slots 200] [--every 50]
        [--kill] [--skew] [--pause] [--restart-server] [--only file valkey postgres]

Every instance is a process of its own that plans the same slots. Without an option nothing
disturbs them. `--kill` kills holders at random and replaces them, `--skew` sets the clocks of
the instances up to 90 slots of a minute job apart (in the scale of the slots), `--pause` stops
holders for longer than their lease, `--restart-server` crashes the server and starts it again.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance.fleet import Fleet, Outcome
from tests.conformance.servers import Postgres, Valkey

LEASE = 1000
SKEWS = 0, 5, 29, 31, 90
"""By how many seconds clocks are apart, of jobs that run every minute."""


@contextmanager
def place_of(kind: str) -> Iterator[tuple[str, Any]]:
    """Give an empty mutex, and its server if it has one."""
    if kind == "file":
        with tempfile.TemporaryDirectory() as folder:
            yield f"file:{folder}", None
        return
    server: Any = Valkey() if kind == "valkey" else Postgres()
    try:
        server.start()
        yield server.url if kind == "valkey" else server.conninfo, server
    finally:
        server.close()


def kill_holder(fleet: Fleet) -> None:
    holder = fleet.holder()
    if holder is not None:
        fleet.kill(holder)
        fleet.start()


def pause_holder(fleet: Fleet) -> None:
    holder = fleet.holder()
    if holder is not None:
        os.kill(holder.pid, signal.SIGSTOP)
        time.sleep(1.5 * LEASE / 1000)
        os.kill(holder.pid, signal.SIGCONT)


def restart(server: Any) -> Callable[[Fleet], None]:
    def disturb(fleet: Fleet) -> None:
        if server is not None:
            server.kill()
            server.start()

    return disturb


def measure(options: argparse.Namespace, kind: str) -> None:
    with place_of(kind) as (place, server), tempfile.TemporaryDirectory() as folder:
        disturbing: Callable[[Fleet], None] | None = None
        if options.kill:
            disturbing = kill_holder
        elif options.pause:
            disturbing = pause_holder
        elif options.restart_server:
            disturbing = restart(server)
        takes = options.every // 10 if disturbing is None else options.every * 3 // 10
        fleet = Fleet(Path(folder), place, every=options.every, takes=takes, lease=LEASE)
        try:
            for number in range(options.processes):
                skew = SKEWS[number % len(SKEWS)] * options.every // 60 if options.skew else 0
                fleet.start(ahead=skew)
            fleet.work(options.slots, disturbing, pause=1.0)
            fleet.stop()
        finally:
            fleet.close()
        report(kind, fleet, fleet.outcome())


def report(kind: str, fleet: Fleet, outcome: Outcome) -> None:
    late = outcome.late or [0]
    starts = [line["at"] for line in outcome.lines if line["what"] == "start"]
    recoveries = sorted(
        (min(after) - killed) / 1e6
        for killed in fleet.killed.values()
        if (after := [start for start in starts if start > killed])
    )
    recovery = f"{recoveries[len(recoveries) // 2]:.0f}" if recoveries else "-"
    print(
        f"{kind:<10}{outcome.slots:>7}{outcome.runs:>7}{len(outcome.doubles):>9}"
        f"{len(outcome.overlaps):>10}{late[len(late) // 2]:>10}{late[len(late) * 99 // 100]:>7}"
        f"{recovery:>10}  {dict(outcome.errors) or ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--slots", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="milliseconds between slots")
    parser.add_argument("--only", nargs="*", default=["file", "valkey", "postgres"])
    for name in ("kill", "skew", "pause", "restart-server"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    print(
        f"{'mutex':<10}{'slots':>7}{'runs':>7}{'doubles':>9}{'overlaps':>10}"
        f"{'late ms':>10}{'p99':>7}{'recovery':>10}  errors"
    )
    for kind in options.only:
        measure(options, kind)


if __name__ == "__main__":
    main()
