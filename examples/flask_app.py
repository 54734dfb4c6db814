"""Jobs beside the routes of a Flask application, in threads of their own. Stop it with Ctrl-C.

http://localhost:8000/jobs tells what runs when; the environment variable PORT moves it.
"""

from __future__ import annotations

import os
import sqlite3
from threading import Lock
from typing import Any, Self

from flask import Flask

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
    """A component that jobs and routes share, each in a thread of its own."""

    async def __aenter__(self) -> Self:
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self.execute("CREATE TABLE visits (path TEXT)")
        return self

    async def __aexit__(self, *details: object) -> None:
        self._connection.close()
        print("The database is closed.")

    def execute(self, statement: str, *values: str) -> list[Any]:
        with self._lock, self._connection:
            return self._connection.execute(statement, values).fetchall()


class VisitController(Controller):
    @schedule("1s", description="Count the visits")
    def count(self) -> None:
        [(count,)] = self.component("db").execute("SELECT count(*) FROM visits")
        print(f"{count} visits so far")

    @schedule(cron="30 2 * * *", timezone="Europe/Berlin", description="Forget the visits")
    def purge(self) -> None:
        self.component("db").execute("DELETE FROM visits")

    @schedule("5s", description="Fail, to show that the others do not mind")
    def publish(self) -> None:
        raise ConnectionError("the other side does not answer")


def on_error(error: Exception, action: ActionInfo, context: ScheduleContext | None) -> None:
    print(f"{action.name} failed: {error}")


entrypoint = build_entrypoints(
    controllers=[VisitController], schedule=schedule_entrypoint(on_error=on_error)
)
application = Application(
    id="visits.web",
    name="Visits",
    components={"db": Database(), "entrypoint": entrypoint},
    bootstrap=["db", "entrypoint"],
)
app = Flask(__name__)


@app.get("/jobs")
def jobs() -> dict[str, str]:
    application.component("db").execute("INSERT INTO visits VALUES ('/jobs')")
    return {action.name: str(action.next_time) for action in entrypoint.actions}


if __name__ == "__main__":
    with application.in_thread():
        app.run(port=int(os.environ.get("PORT", "8000")), use_reloader=False)
