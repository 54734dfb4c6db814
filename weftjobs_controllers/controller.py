"""The base class of controllers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar

from weftjobs_controllers.actions import Action
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.registry import actions_of, by_name
from weftjobs_controllers.signals import AbortSignal

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application


class Controller:
    """A class whose methods run on a schedule. Each run gets a new instance.

        class ReportController(Controller):
            @schedule("5m")
            async def totals(self) -> None:
                await self.component("db").execute("…")

    A subclass inherits the jobs under its own name; overriding a method without `@schedule`
    takes it off the schedule.

    Attributes:
        context: What the run is told: its planned time, its number. It is set when the
            instance has been made, so `__init__` does not see it yet, nor what is below.
    """

    context: ScheduleContext

    _actions: ClassVar[tuple[Action, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._actions = tuple(by_name(actions_of(cls)).values())

    @property
    def application(self) -> Application:
        """The application that runs it."""
        return self.context.application

    @property
    def signal(self) -> AbortSignal:
        """Tells the run that it should end."""
        return self.context.signal

    @property
    def scope(self) -> AsyncExitStack:
        """What is entered here is left when the run ends, whatever happened.

        session = await self.scope.enter_async_context(self.component("db").session())
        """
        return self.context.scope

    def component(self, name: str) -> Any:
        """Return a component of the application that has started.

        For an async context manager this is what entering it gave.

        Raises:
            UnknownComponentError: There is no component of that name.
            ComponentNotStartedError: It is not in `bootstrap`, and nobody has asked for it with
                `await self.application.get(name)`.
        """
        return self.context.component(name)
