"""An application that says where it runs."""

from __future__ import annotations

from anyio.lowlevel import current_token

from weftjobs_controllers import Application


def say(application: Application) -> None:
    name = type(current_token().native_token).__module__.partition(".")[0]
    print(f"running on {name}", flush=True)


application = Application(id="running", name="Running", components={}, on_launched=say)
