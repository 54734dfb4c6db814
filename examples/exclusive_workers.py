"""Four processes run the same application; `exclusive=True` has each slot run in one of them.

They share a folder of locks. It starts them, lets them run for three seconds, and counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter

from weftjobs_controllers import (
    Application,
    Controller,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)
from weftjobs_controllers.mutexes import FileMutex

WORKERS = 4


class ReportController(Controller):
    @schedule("500ms", exclusive=True)
    async def build(self) -> None:
        print(f"{self.context.scheduled_at:%H:%M:%S.%f}", flush=True)


def application_over(folder: str) -> Application:
    return Application(
        id="reports.jobs",
        name="Reports",
        components={
            "mutex": FileMutex(folder),
            "entrypoint": build_entrypoints(
                controllers=[ReportController],
                schedule=schedule_entrypoint(on_skip=lambda *skipped: None),
            ),
        },
        bootstrap=["entrypoint"],
    )


def start_workers(folder: str) -> list[str]:
    """Run the workers for three seconds, and return the slots that they ran."""
    command = [sys.executable, __file__, folder]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(WORKERS)
    ]
    slots: list[str] = []
    for number, worker in enumerate(workers, 1):
        try:
            worker.wait(timeout=3 if number == 1 else 0.01)
        except subprocess.TimeoutExpired:
            worker.terminate()
        ran = worker.communicate()[0].split()
        print(f"worker {number} ran {len(ran)} slots")
        slots += ran
    return slots


if __name__ == "__main__":
    if len(sys.argv) > 1:
        application_over(sys.argv[1]).run()
    else:
        with tempfile.TemporaryDirectory() as locks:
            counted = Counter(start_workers(locks))
        print(f"{len(counted)} slots, {sum(counted.values())} runs")
        assert set(counted.values()) == {1}, "each slot runs once"
