"""Who hears of failed and of skipped runs: a hook, or the log."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import anyio
import anyio.lowlevel

from weftjobs_controllers.actions import ActionInfo
from weftjobs_controllers.context import ScheduleContext

logger = logging.getLogger("weftjobs_controllers")

SkipReason = Literal["overlap", "exclusive", "missed", "condition"]
Level = Literal["info", "warning", "error"]
OnError = Callable[[Exception, ActionInfo, ScheduleContext | None], object]
OnSkip = Callable[[ActionInfo, datetime, SkipReason], object]


@dataclass(frozen=True, slots=True)
class Reports:
    """Tells the hooks of an adapter; what has no hook, or whose hook raises, is logged.

    Attributes:
        adapter: The name of the adapter, which begins every line that is logged.
        on_error: Hears of failed runs and of rows that cannot be scheduled.
        on_skip: Hears of skipped runs.
        find_log: Returns a logger, or what has its methods.
        exit: Ends the application because a hook called `sys.exit()`.
    """

    adapter: str
    on_error: OnError | None
    on_skip: OnSkip | None
    find_log: Callable[[], Any]
    exit: Callable[[BaseException], object]

    async def failed(
        self, error: Exception, action: ActionInfo, context: ScheduleContext | None
    ) -> None:
        """Tell that a run failed; without a context, that a row cannot be scheduled."""
        if await self._told("on_error", self.on_error, error, action, context):
            return
        if context is None:
            what = f"{action.name}: {error}"
        else:
            planned = context.scheduled_at.isoformat()
            what = f"{action.name} failed in run {context.run}, planned at {planned}"
        self.log("error", what, exc_info=error)

    async def skipped(
        self, action: ActionInfo, scheduled_at: datetime, reason: SkipReason
    ) -> None:
        """Tell that a run was skipped, and why."""
        if not await self._told("on_skip", self.on_skip, action, scheduled_at, reason):
            level: Level = "warning" if reason == "missed" else "info"
            self.log(level, f"{action.name} skipped at {scheduled_at.isoformat()} ({reason})")

    def log(self, level: Level, what: str, **more: Any) -> None:
        """Log something, by the own logger when the application's raises."""
        message = f"{self.adapter}: {what}"
        try:
            getattr(self.find_log(), level)(message, **more)
        except Exception:
            logger.exception("%s: the component log raised", self.adapter)
            getattr(logger, level)(message, **more)

    async def _told(self, name: str, hook: Callable[..., object] | None, *facts: object) -> bool:
        """Call a hook, and answer whether it took what it was told."""
        if hook is None:
            return False
        try:
            result = hook(*facts)
            if inspect.isawaitable(result):
                await result
        except (SystemExit, KeyboardInterrupt) as error:
            self.exit(error)
        except anyio.get_cancelled_exc_class():
            # Awaiting a task that somebody else cancelled raises the same on asyncio.
            await anyio.lowlevel.checkpoint_if_cancelled()
            logger.exception("%s: %s awaited something that was cancelled", self.adapter, name)
            return False
        except Exception:
            logger.exception("%s: %s raised", self.adapter, name)
            return False
        return True
