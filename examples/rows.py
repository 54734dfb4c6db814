"""A scheduler over an array of rows that is edited while it runs. Stop it with Ctrl-C."""

from __future__ import annotations

import anyio

from weftjobs import ObservableArray, Row, RunContext, Scheduler, SystemClock, atomic

jobs = ObservableArray(
    [
        Row(name="tick", every="1s"),
        Row(name="minute", cron="* * * * *", tz="UTC"),
        Row(name="typo", every="soon"),
        Row(name="edits", every="3s"),
    ]
)


async def run(job: Row, context: RunContext) -> None:
    """Do what the row names: the fields beside its schedule are the application's."""
    print(f"{job['name']:8} due at {context.due}")
    if job["name"] == "edits":
        edit()


def edit() -> None:
    """Edit the array as a user of the application would: the scheduler follows at once."""
    tick = jobs[0]
    with atomic(jobs):
        tick["every"] = "250ms" if tick["every"] == "1s" else "1s"
        jobs.append(Row(name="once", at=SystemClock().now() + 500))
    print(f"{'':8} now ticking every {tick['every']}, and a one-off half a second from now")


async def failed(job: Row, error: Exception) -> None:
    """Hear of runs that raised and of rows that cannot be scheduled."""
    print(f"{job['name']:8} {error}")


async def main() -> None:
    """Serve until Ctrl-C."""
    await Scheduler(jobs, run, failed=failed).serve()


if __name__ == "__main__":
    print("Stop with Ctrl-C.")
    try:
        anyio.run(main)
    except KeyboardInterrupt:
        print("Stopped.")
