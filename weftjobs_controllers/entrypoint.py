"""The entrypoint: the component that holds controllers, and what runs their methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weftjobs_controllers.actions import Action, ActionInfo
from weftjobs_controllers.adapter import ScheduleAdapter, Session
from weftjobs_controllers.controller import Controller
from weftjobs_controllers.errors import InvalidArgumentError
from weftjobs_controllers.planning import describe, row_of
from weftjobs_controllers.registry import by_name

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application


class Entrypoint:
    """The component that holds controllers; `build_entrypoints` makes one.

    Attributes:
        controllers: The controllers.
        schedule: The adapter that runs their scheduled methods, if there is one.
    """

    controllers: tuple[type[Controller], ...]
    schedule: ScheduleAdapter | None

    def __init__(
        self, controllers: Iterable[type[Controller]], schedule: ScheduleAdapter | None
    ) -> None:
        self.controllers = tuple(controllers)
        self.schedule = schedule

    def __repr__(self) -> str:
        names = ", ".join(controller.__name__ for controller in self.controllers)
        return f"<Entrypoint of {names or 'no controllers'}>"

    @property
    def actions(self) -> list[ActionInfo]:
        """The jobs as they are now; `next_time` is `None` unless the application runs."""
        return [self._describe(action) for action in self._actions()]

    def _describe(self, action: Action) -> ActionInfo:
        info = None if self.schedule is None else self.schedule._describe(action)
        return info or describe(action, row_of(action, "UTC"), None)

    def _actions(self) -> Iterator[Action]:
        for controller in self.controllers:
            yield from controller._actions

    def _methods(self) -> list[str]:
        names = (f"{action.controller.__name__}.{action.method}" for action in self._actions())
        return list(dict.fromkeys(names))

    @contextmanager
    def _booted(self, application: Application) -> Iterator[Session | None]:
        """Check the jobs as a whole and make the rows of those that an adapter runs."""
        actions = by_name(self._actions())
        if self.schedule is None:
            yield None
            return
        with self.schedule._booted(actions, application) as session:
            yield session


def build_entrypoints(
    *, controllers: Iterable[type[Controller]], schedule: ScheduleAdapter | None = None
) -> Entrypoint:
    """Return the component that holds controllers, for `Application(components=...)`.

        >>> from weftjobs_controllers import Controller, build_entrypoints, schedule
        >>> class JobController(Controller):
        ...     @schedule(every="30s", description="Show that we are alive")
        ...     async def heartbeat(self) -> None: ...
        >>> entrypoint = build_entrypoints(controllers=[JobController])
        >>> [(action.name, action.schedule) for action in entrypoint.actions]
        [('JobController.heartbeat', 'every 30s')]

    List it in `bootstrap`. When it starts, a name that two jobs have is a
    `DuplicateActionNameError`.

    Args:
        controllers: The controller classes.
        schedule: The adapter that runs their scheduled methods, from `schedule_entrypoint`.
            Without it they never run.

    Raises:
        InvalidArgumentError: An argument is not what it should be.
    """
    listed = _checked_controllers(controllers)
    if schedule is not None and not isinstance(schedule, ScheduleAdapter):
        raise InvalidArgumentError(
            "schedule", schedule, "is not an adapter", fix="Pass schedule=schedule_entrypoint()."
        )
    return Entrypoint(listed, schedule)


def _checked_controllers(controllers: object) -> list[type[Controller]]:
    if not isinstance(controllers, Iterable):
        raise _not_controllers(controllers)
    listed = list(controllers)
    for controller in listed:
        if not isinstance(controller, type) or not issubclass(controller, Controller):
            raise _not_controllers(controller)
    return listed


def _not_controllers(value: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        "controllers",
        value,
        "is not a controller class",
        fix="Pass a list of subclasses of Controller, such as controllers=[JobController].",
    )
