"""What the tests of the controllers share: an application on a clock that is moved by hand."""

from __future__ import annotations

from typing import Any

from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    ActionInfo,
    Application,
    Controller,
    Entrypoint,
    ScheduleContext,
    build_entrypoints,
    schedule_entrypoint,
)

START = "2026-01-01T00:00:00Z"


class Hooks:
    """Hooks that note what they are told."""

    def __init__(self) -> None:
        self.errors: list[tuple[Exception, ActionInfo, ScheduleContext | None]] = []
        self.skips: list[tuple[str, str, str]] = []

    def on_error(
        self, error: Exception, action: ActionInfo, context: ScheduleContext | None
    ) -> None:
        self.errors.append((error, action, context))

    async def on_skip(self, action: ActionInfo, scheduled_at: Any, reason: str) -> None:
        self.skips.append((action.name, scheduled_at.isoformat(), reason))


class Booted:
    """An application of some controllers, and its parts.

    Args:
        controllers: The controllers of its one entrypoint.
        start: What the clock shows at first.
        hooked: Whether the hooks are told, and not the log.
        components: Components that start before the entrypoint.
        entrypoint: Other arguments of the entrypoint.
        adapter: Other arguments of the adapter.
        options: Other arguments of the application.
    """

    def __init__(
        self,
        *controllers: type[Controller],
        start: str = START,
        hooked: bool = True,
        components: dict[str, object] | None = None,
        entrypoint: dict[str, Any] | None = None,
        adapter: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock(start)
        self.hooks = Hooks()
        hooks: dict[str, Any] = (
            {"on_error": self.hooks.on_error, "on_skip": self.hooks.on_skip} if hooked else {}
        )
        self.adapter = schedule_entrypoint(clock=self.clock, **hooks, **(adapter or {}))
        self.entrypoint = build_entrypoints(
            controllers=controllers, schedule=self.adapter, **(entrypoint or {})
        )
        others = components or {}
        self.application = Application(
            id="test.app",
            name="Test",
            components={**others, "clock": self.clock, "entrypoint": self.entrypoint},
            bootstrap=[*others, "entrypoint"],
            **options,
        )


def application_of(entrypoint: Entrypoint, **components: object) -> Application:
    """Return an application that starts its components and then an entrypoint."""
    return Application(
        id="test.app",
        name="Test",
        components={**components, "entrypoint": entrypoint},
        bootstrap=[*components, "entrypoint"],
    )
