"""One instance of a fleet: runs an exclusive job, and notes when it starts and ends.

python -m tests.conformance.worker '{"mutex": "file:/tmp/locks", ...}'
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import anyio

from weftjobs import SystemClock
from weftjobs_controllers import (
    Application,
    Controller,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)
from weftjobs_controllers.mutexes import FileMutex, PostgresMutex, RedisMutex
from weftjobs_controllers.mutexes._blocking import BlockingMutex


class SkewedClock(SystemClock):
    """The clock of a machine that is ahead."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead

    def now(self) -> int:
        return super().now() + self._ahead


def mutex_of(place: str, lease: int) -> BlockingMutex:
    """Return the mutex at a place: `file:folder`, a URL of Redis, or what psycopg takes."""
    if place.startswith("file:"):
        return FileMutex(place.removeprefix("file:"), lease=lease)
    if place.startswith(("redis:", "unix:")):
        return RedisMutex(place, lease=lease)
    return PostgresMutex(place, lease=lease)


def main(options: dict[str, Any]) -> None:
    journal = os.open(options["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, slot: int, **more: object) -> None:
        line = {"what": what, "slot": slot, "pid": os.getpid(), "at": time.monotonic_ns(), **more}
        os.write(journal, f"{json.dumps(line)}\n".encode())

    class Jobs(Controller):
        @schedule(every=options["every"], exclusive=True, name="job")
        async def job(self) -> None:
            slot = int(self.context.scheduled_at.timestamp() * 1000)
            late = clock.now() - slot
            note("start", slot, late=late, token=self.context.lease_token)
            try:
                if blocks := options.get("blocks"):
                    time.sleep(blocks / 1000)  # noqa: ASYNC251 - what a run must not do
                await anyio.sleep(options["takes"] / 1000)
                note("end", slot)
            except anyio.get_cancelled_exc_class():
                note("abort", slot)
                raise

    def on_error(error: Exception, *facts: object) -> None:
        note("error", 0, error=str(error), reason=getattr(error, "reason", None))

    clock = SkewedClock(options.get("ahead", 0))
    entrypoint = build_entrypoints(
        controllers=[Jobs],
        schedule=schedule_entrypoint(clock=clock, on_error=on_error, on_skip=lambda *facts: None),
        shutdown_timeout=options.get("shutdown", 1000),
    )
    Application(
        id="worker",
        name="Worker",
        components={
            "mutex": mutex_of(options["mutex"], options["lease"]),
            "entrypoint": entrypoint,
        },
        bootstrap=["mutex", "entrypoint"],
        on_launched=lambda application: note("ready", 0),
    ).run(options.get("backend", "asyncio"))
    note("done", 0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
