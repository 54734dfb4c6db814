"""An application that the tests of the command line look at."""

from __future__ import annotations

from weftjobs_controllers import (
    Application,
    Controller,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)


class Jobs(Controller):
    @schedule("6h", aligned=True)
    async def sync(self) -> None:
        print("synchronizing", flush=True)

    @schedule(cron="30 2 * * *", timezone="Europe/Berlin")
    async def nightly(self) -> None: ...

    @schedule(cron="0 9-17 * * mon-fri", timezone="Europe/Berlin", overlap=True)
    async def report(self) -> None: ...


class Idle(Controller):
    @schedule("1m")
    async def never(self) -> None: ...


application = Application(
    id="jobs",
    name="Jobs",
    components={
        "entrypoint": build_entrypoints(controllers=[Jobs], schedule=schedule_entrypoint()),
        "idle": build_entrypoints(controllers=[Idle], schedule=schedule_entrypoint()),
    },
    bootstrap=["entrypoint"],
)

twice = Application(
    id="twice",
    name="Twice",
    components={
        "entrypoint": build_entrypoints(controllers=[Jobs, Jobs], schedule=schedule_entrypoint())
    },
    bootstrap=["entrypoint"],
)
