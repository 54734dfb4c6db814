"""What the tests of the scheduler share: where time begins, and a journal of what happened."""

from __future__ import annotations

from typing import Any

from weftjobs import ObservableArray, Row, RunContext, Scheduler
from weftjobs.testing import VirtualClock

START = 1_767_225_600_000
"""2026-01-01T00:00:00Z in ms: every instant in these tests counts from here."""

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


class Journal:
    """A `run` and handlers that note what they are told.

    A row says what its runs do: `takes` is how long they sleep, `raises` what they raise.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.ran: list[tuple[str, int]] = []
        """The name and the slot of every run, in the order in which they began."""
        self.times: list[int] = []
        """When those runs began."""
        self.ended: list[tuple[str, int]] = []
        self.failures: list[tuple[str, Exception]] = []
        self.skips: list[tuple[str, int]] = []

    def scheduler(self, jobs: ObservableArray, **options: Any) -> Scheduler:
        told: dict[str, Any] = {"failed": self.failed, "skipped": self.skipped}
        return Scheduler(jobs, self.run, **{"clock": self.clock, **told, **options})

    async def run(self, job: Row, context: RunContext) -> None:
        self.note(job, context)
        if "takes" in job:
            await self.clock.sleep(job["takes"])
        self.ended.append((job.get("name", ""), self.clock.now() - START))
        if "raises" in job:
            raise job["raises"]

    def note(self, job: Row, context: RunContext) -> None:
        self.ran.append((job.get("name", ""), context.due - START))
        self.times.append(self.clock.now() - START)

    def failed(self, job: Row, error: Exception) -> None:
        self.failures.append((job.get("name", ""), error))

    def skipped(self, job: Row, due: int) -> None:
        self.skips.append((job.get("name", ""), due - START))

    @property
    def slots(self) -> list[int]:
        return [due for _, due in self.ran]

    @property
    def reasons(self) -> list[tuple[str, object]]:
        return [(name, getattr(error, "reason", None)) for name, error in self.failures]
