"""Scheduled methods that print as they run. Stop it with Ctrl-C."""

from __future__ import annotations

from weftjobs_controllers import (
    Application,
    Controller,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)


class JobController(Controller):
    """The jobs. Each run gets an instance of its own."""

    @schedule("2s")
    async def heartbeat(self) -> None:
        print(f"{self.context.scheduled_at:%H:%M:%S}  Still alive (run {self.context.run})")

    @schedule(every="5s")
    def tidy(self) -> None:
        print(f"{self.context.scheduled_at:%H:%M:%S}  tidied up, in a worker thread")

    @schedule(cron="*/10 * * * * *", timezone="Asia/Shanghai")
    async def report(self) -> None:
        print(f"{self.context.scheduled_at:%H:%M:%S}  is the time in Shanghai")


class Welcome:
    """A component: entered before the jobs start, left when they have ended."""

    async def __aenter__(self) -> None:
        for job in entrypoint.actions:
            print(f"{job.name} runs {job.schedule}")
        print("Stop with Ctrl-C.")

    async def __aexit__(self, *details: object) -> None:
        print("Stopped.")


entrypoint = build_entrypoints(controllers=[JobController], schedule=schedule_entrypoint())
application = Application(
    id="first.jobs",
    name="First jobs",
    components={"welcome": Welcome(), "entrypoint": entrypoint},
    bootstrap=["welcome", "entrypoint"],
)

if __name__ == "__main__":
    application.run()
