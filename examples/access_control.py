"""Rules that say whether a run may go on, and a middleware around every run.

Nothing here waits: a `VirtualClock` drives the time. The program checks its own result.
"""

from __future__ import annotations

from collections import Counter

import anyio

from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    AccessControlRule,
    AccessDeniedError,
    ActionInfo,
    Application,
    CallNext,
    Controller,
    ScheduleContext,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

CLOCK = VirtualClock("2026-03-02T00:00:00Z")
RAN: Counter[str] = Counter()
REFUSED: Counter[str] = Counter()


class Cluster:
    """A component: knows which machine leads."""

    is_leader = True


class OnlyOnTheLeader(AccessControlRule):
    async def check(self, context: ScheduleContext) -> object:
        return context.component("cluster").is_leader


def outside_office_hours(context: ScheduleContext) -> bool:
    return not 9 <= context.scheduled_at.hour < 17


class StockController(Controller):
    @schedule("6h", acl=True)  # asks the rules of the entrypoint
    async def order(self) -> None:
        await CLOCK.sleep("90s")

    @schedule(cron="0 4,12 * * *", timezone="UTC", acl=True, rule=outside_office_hours)
    async def count(self) -> None:
        await CLOCK.sleep("10m")


async def timed(context: ScheduleContext, call_next: CallNext) -> None:
    """Tell how long a run took; one that is refused raises out of `call_next`."""
    begun = CLOCK.now()
    await call_next(context)
    print(f"{context.action.name} took {(CLOCK.now() - begun) // 1000} s")
    RAN[context.action.method] += 1


def on_error(error: Exception, action: ActionInfo, context: ScheduleContext | None) -> None:
    assert isinstance(error, AccessDeniedError)
    print(error)
    REFUSED[action.method] += 1


async def main() -> None:
    cluster = Cluster()
    entrypoint = build_entrypoints(
        controllers=[StockController],
        schedule=schedule_entrypoint(on_error=on_error, clock=CLOCK),
        middlewares=[timed],
        rules=[OnlyOnTheLeader],
    )
    components = {"cluster": cluster, "entrypoint": entrypoint}
    async with Application(
        id="stock", name="Stock", components=components, bootstrap=["entrypoint"]
    ):
        await CLOCK.advance("25h")
        assert RAN == {"order": 4, "count": 1}
        assert REFUSED == {"count": 1}
        print("-- another machine leads from now on")
        cluster.is_leader = False
        await CLOCK.advance("24h")
        assert RAN == {"order": 4, "count": 1}
        assert REFUSED == {"order": 4, "count": 3}
    print("All as expected.")


if __name__ == "__main__":
    anyio.run(main)
