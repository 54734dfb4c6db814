"""Many processes that share one mutex, and what came of it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass
class Outcome:
    """What a fleet did.

    Attributes:
        slots: How many slots there were while all instances ran.
        runs: How many of them were started.
        doubles: Slots that were started more than once.
        overlaps: Pairs of runs that were in progress at once, as slots.
        late: How many ms after its planned time each run started.
        errors: What `on_error` was told, by reason.
        lines: All that was noted.
    """

    slots: int = 0
    runs: int = 0
    doubles: list[int] = field(default_factory=list)
    overlaps: list[tuple[int, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    lines: list[dict[str, Any]] = field(default_factory=list)


class Fleet:
    """Instances of one application, each a process.

    Args:
        folder: Where the journal is.
        mutex: The mutex that they share, as the worker takes it.
        options: Other options of the worker.
    """

    def __init__(
        self,
        folder: Path,
        mutex: str,
        *,
        every: int = 50,
        takes: int = 5,
        lease: int = 1000,
        **options: Any,
    ) -> None:
        self.journal = folder / "journal"
        self.journal.touch()
        self.every = every
        self._options = {"mutex": mutex, "every": every, "takes": takes, "lease": lease, **options}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.killed: dict[int, int] = {}

    def start(self, count: int = 1, **options: Any) -> None:
        """Start instances, and wait until they have launched."""
        argument = json.dumps({**self._options, "journal": str(self.journal), **options})
        command = [sys.executable, "-W", "error", "-m", "tests.conformance.worker", argument]
        launched = [subprocess.Popen(command, cwd=ROOT) for _ in range(count)]
        self.processes += launched
        awaited = {process.pid for process in launched}
        while not awaited <= self._ready():
            assert all(process.poll() is None for process in launched), "an instance has ended"

    def _ready(self) -> set[int]:
        return {line["pid"] for line in self.lines() if line["what"] == "ready"}

    def lines(self) -> list[dict[str, Any]]:
        """Return what was noted so far."""
        whole = self.journal.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def holder(self) -> subprocess.Popen[bytes] | None:
        """Return an instance in the middle of a run, if there is one."""
        running: dict[int, int] = {}
        for line in self.lines()[-40:]:
            if line["what"] == "start":
                running[line["pid"]] = line["slot"]
            elif line["what"] in ("end", "abort"):
                running.pop(line["pid"], None)
        for process in self.processes:
            if (
                process.pid in running
                and process.poll() is None
                and process.pid not in self.killed
            ):
                return process
        return None

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill an instance, without a chance to clean up."""
        process.kill()
        process.wait()
        self.killed[process.pid] = time.monotonic_ns()
        self.processes.remove(process)

    def work(
        self, slots: int, disturb: Callable[[Fleet], None] | None = None, pause: float = 0.3
    ) -> None:
        """Let so many slots pass, and disturb the fleet now and then."""
        end = time.monotonic() + slots * self.every / 1000
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, pause * random.uniform(0.5, 1.5)))
            if disturb is not None and time.monotonic() < end:
                disturb(self)

    def stop(self) -> None:
        """Ask all instances to end, and wait for that."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait()

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def outcome(self) -> Outcome:
        """Return what came of it."""
        lines = self.lines()
        starts = [line for line in lines if line["what"] == "start"]
        by_slot = Counter(line["slot"] for line in starts)
        first, last = min(by_slot, default=0), max(by_slot, default=0)
        return Outcome(
            slots=(last - first) // self.every + 1 if by_slot else 0,
            runs=len(by_slot),
            doubles=[slot for slot, count in by_slot.items() if count > 1],
            overlaps=self._overlaps(lines),
            late=sorted(line["late"] for line in starts),
            errors=Counter(line["reason"] for line in lines if line["what"] == "error"),
            lines=lines,
        )

    def _overlaps(self, lines: list[dict[str, Any]]) -> list[tuple[int, int]]:
        ends = {
            (line["pid"], line["slot"]): line["at"]
            for line in lines
            if line["what"] in ("end", "abort")
        }
        spans = []
        for line in lines:
            if line["what"] == "start":
                end = ends.get((line["pid"], line["slot"]), self.killed.get(line["pid"]))
                if end is not None:
                    spans.append((line["at"], end, line["slot"]))
        spans.sort()
        return [(before[2], after[2]) for before, after in pairwise(spans) if after[0] < before[1]]
