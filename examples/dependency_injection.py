"""A container makes the controllers: here dishka, with a scope of its own around each run.

Nothing here waits: a `VirtualClock` drives the time. The program checks its own result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from dishka import AsyncContainer, Provider, Scope, make_async_container, provide, provide_all

from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    Application,
    Controller,
    ScheduleContext,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

EXECUTED: list[str] = []


class Session:
    """What one run has for itself; the container begins and commits it."""

    def execute(self, statement: str) -> None:
        print(statement)
        EXECUTED.append(statement)


class Invoices:
    """A repository, which knows nothing of jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def remind(self) -> None:
        self._session.execute("UPDATE invoices SET reminded = true")


class InvoiceController(Controller):
    def __init__(self, invoices: Invoices) -> None:
        self.invoices = invoices

    @schedule(cron="0 6 * * *", timezone="Europe/Berlin")
    async def remind(self) -> None:
        await self.invoices.remind()


class Services(Provider):
    scope = Scope.REQUEST
    made_by_their_class = provide_all(Invoices, InvoiceController)

    @provide
    async def session(self) -> AsyncIterator[Session]:
        session = Session()
        session.execute("BEGIN")
        yield session
        session.execute("COMMIT")


class Container:
    """A component, so that what the container holds is closed when the application stops."""

    async def __aenter__(self) -> AsyncContainer:
        self._container = make_async_container(Services(), lock_factory=anyio.Lock)
        return self._container

    async def __aexit__(self, *details: object) -> None:
        await self._container.close()


async def make_controller(controller: type[Controller], context: ScheduleContext) -> object:
    """Have the container make a controller, in a scope that ends with the run."""
    scope = context.component("container")()
    container = await context.scope.enter_async_context(scope)
    return await container.get(controller)


async def main() -> None:
    clock = VirtualClock("2026-03-07T00:00:00+01:00")
    entrypoint = build_entrypoints(
        controllers=[InvoiceController],
        schedule=schedule_entrypoint(clock=clock),
        controller_factory=make_controller,
    )
    components = {"container": Container(), "entrypoint": entrypoint}
    async with Application(
        id="invoices", name="Invoices", components=components, bootstrap=list(components)
    ):
        await clock.advance("3d")
    assert EXECUTED == ["BEGIN", "UPDATE invoices SET reminded = true", "COMMIT"] * 3
    print("All as expected.")


if __name__ == "__main__":
    anyio.run(main)
