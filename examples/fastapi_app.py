"""Jobs beside the routes of a FastAPI application, on its event loop. Stop it with Ctrl-C.

http://localhost:8000/jobs tells what runs when; the environment variable PORT moves it.
"""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime
from typing import Any, Self

import uvicorn
from fastapi import FastAPI

from weftjobs_controllers import (
    ActionInfo,
    Application,
    Controller,
    ScheduleContext,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)


class Database:
    """A component: opened before the first job runs, closed when the last one has ended."""

    async def __aenter__(self) -> Self:
        self._connection = sqlite3.connect(":memory:")
        self.execute("CREATE TABLE sessions (begun TEXT)")
        return self

    async def __aexit__(self, *details: object) -> None:
        self._connection.close()
        print("The database is closed.")

    def execute(self, statement: str, *values: str) -> list[Any]:
        with self._connection:
            return self._connection.execute(statement, values).fetchall()


class SessionController(Controller):
    @schedule("1s", description="Begin a session, as a user would")
    async def begin(self) -> None:
        db: Database = self.component("db")
        db.execute("INSERT INTO sessions VALUES (?)", self.context.scheduled_at.isoformat())
        [(count,)] = db.execute("SELECT count(*) FROM sessions")
        print(f"{count} sessions in the database")

    @schedule(cron="30 2 * * *", timezone="Europe/Berlin", description="Forget the old sessions")
    async def purge(self) -> None:
        self.component("db").execute("DELETE FROM sessions")

    @schedule("5s", description="Fail, to show that the others do not mind")
    async def synchronize(self) -> None:
        raise ConnectionError("the other side does not answer")


def on_error(error: Exception, action: ActionInfo, context: ScheduleContext | None) -> None:
    print(f"{action.name} failed: {error}")


entrypoint = build_entrypoints(
    controllers=[SessionController], schedule=schedule_entrypoint(on_error=on_error)
)
application = Application(
    id="sessions.web",
    name="Sessions",
    components={"db": Database(), "entrypoint": entrypoint},
    bootstrap=["db", "entrypoint"],
)
app = FastAPI(lifespan=application.lifespan)


@app.get("/jobs")
async def jobs() -> dict[str, datetime | None]:
    return {action.name: action.next_time for action in entrypoint.actions}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
