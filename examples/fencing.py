"""A holder that was paused for longer than its lease wakes, and is refused by what it writes to.

Every acquisition of a lock has a greater token. A resource that keeps the greatest token that
it has seen, and refuses smaller ones, is safe whatever becomes of the lock. Time is driven by
hand, so that it ends at once.
"""

from __future__ import annotations

import anyio

from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    ActionInfo,
    Application,
    Controller,
    ScheduleContext,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)
from weftjobs_controllers.mutexes import MemoryMutex


class Ledger:
    """A resource that matters: it refuses who came before the latest writer.

    A database does the same: UPDATE ledger SET entry = …, token = :token WHERE token <= :token.
    """

    def __init__(self) -> None:
        self.token = 0
        self.entries: list[str] = []

    def write(self, entry: str, token: int) -> None:
        if token < self.token:
            raise PermissionError(f"token {token} is older than {self.token}")
        self.token = token
        self.entries.append(entry)


class LedgerController(Controller):
    @schedule("1m", exclusive=True)
    async def close_books(self) -> None:
        token = self.context.lease_token
        assert token is not None
        self.component("ledger").write(f"run at {self.context.scheduled_at:%H:%M}", token)


def on_error(error: Exception, action: ActionInfo, context: ScheduleContext | None) -> None:
    print(f"{action.name}: {error}")


async def main() -> None:
    clock = VirtualClock("2026-01-01T00:00:00Z")
    ledger, mutex = Ledger(), MemoryMutex(clock=clock)
    entrypoint = build_entrypoints(
        controllers=[LedgerController],
        schedule=schedule_entrypoint(clock=clock, on_error=on_error),
    )
    application = Application(
        id="books.jobs",
        name="Books",
        components={"ledger": ledger, "mutex": mutex, "entrypoint": entrypoint},
        bootstrap=["mutex", "entrypoint"],
    )
    async with application:
        # Another instance acquires the lock, and is paused for longer than its lease.
        paused = await mutex.try_acquire("schedule:LedgerController.close_books", lease=30_000)
        assert paused is not None
        await clock.advance("1m")
        print("The others go on:", *ledger.entries)
        try:
            ledger.write("an entry from the past", paused.token)
        except PermissionError as refused:
            print("It wakes, and is refused:", refused)
        print("It still has the lock:", await paused.renew())


if __name__ == "__main__":
    anyio.run(main)
