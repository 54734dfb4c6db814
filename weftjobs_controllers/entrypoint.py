"""The entrypoint: the component that holds controllers, and what runs their methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from weftjobs import Row, to_duration
from weftjobs_controllers.access import Rule, check_rule
from weftjobs_controllers.actions import Action, ActionInfo, PlannedAction
from weftjobs_controllers.adapter import ScheduleAdapter
from weftjobs_controllers.controller import Controller
from weftjobs_controllers.errors import (
    InvalidActionGroupError,
    InvalidArgumentError,
    MissingRuleError,
    check_callable,
    check_list,
)
from weftjobs_controllers.exclusive import LONGEST_CALL
from weftjobs_controllers.middlewares import Middleware, check_middlewares
from weftjobs_controllers.planning import (
    describe,
    fields_of,
    plan_action,
    text_of,
    trigger_of,
)
from weftjobs_controllers.registry import by_name
from weftjobs_controllers.requests import ControllerFactory
from weftjobs_controllers.session import Session

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application


class Entrypoint:
    """The component that holds controllers; `build_entrypoints` makes one.

    Attributes:
        controllers: The controllers.
        schedule: The adapter that runs their scheduled methods, if there is one.
        action_groups: The groups that their jobs may be in, with what each is for.
    """

    controllers: tuple[type[Controller], ...]
    schedule: ScheduleAdapter | None
    action_groups: Mapping[str, str]

    def __init__(
        self,
        *,
        controllers: tuple[type[Controller], ...],
        schedule: ScheduleAdapter | None,
        middlewares: tuple[Middleware, ...],
        rules: tuple[Rule, ...],
        action_groups: Mapping[str, str],
        shutdown_timeout: int,
        controller_factory: ControllerFactory | None,
    ) -> None:
        self.controllers = controllers
        self.schedule = schedule
        self.action_groups = action_groups
        self._middlewares = middlewares
        self._rules = rules
        self._shutdown_timeout = shutdown_timeout
        self._controller_factory = controller_factory

    def __repr__(self) -> str:
        names = ", ".join(controller.__name__ for controller in self.controllers)
        return f"<Entrypoint of {names or 'no controllers'}>"

    @property
    def actions(self) -> list[ActionInfo]:
        """The jobs as they are now; `next_time` is `None` unless the application runs."""
        return [self._describe(action) for action in self._actions()]

    def _describe(self, action: Action) -> ActionInfo:
        info = None if self.schedule is None else self.schedule._describe(action)
        if info is not None:
            return info
        trigger = trigger_of(Row(fields_of(action, "UTC")))
        return describe(action, trigger, text_of(trigger), None)

    def _actions(self) -> Iterator[Action]:
        for controller in self.controllers:
            yield from controller._actions

    def _longest_end(self) -> float:
        """Return how many seconds the runs may take to end, and their locks to be given back."""
        exclusive = any(action.spec.exclusive is not None for action in self._actions())
        return self._shutdown_timeout / 1000 + (LONGEST_CALL if exclusive else 0)

    def _methods(self) -> list[str]:
        names = (f"{action.controller.__name__}.{action.method}" for action in self._actions())
        return list(dict.fromkeys(names))

    def _plan(self, application: Application, idle: str | None) -> Iterator[PlannedAction]:
        """Check the jobs as a whole, and yield them as the code declares them."""
        for name, action in self._checked().items():
            row = Row(fields_of(action, application.timezone))
            trigger = plan_action(row, aligned=action.spec.on_grid)
            yield PlannedAction(name, text_of(trigger), trigger, action.spec.overlap, idle)

    def _why_idle(self, listed: bool) -> str | None:
        """Return why the jobs never run, if they do not."""
        if not listed:
            return "it is not in bootstrap"
        if self.schedule is None:
            return "it has no schedule adapter; pass schedule=schedule_entrypoint()"
        return None

    def _boot(self, application: Application) -> Session | None:
        """Check the jobs as a whole and make the rows of those that an adapter runs."""
        actions = self._checked()
        return None if self.schedule is None else self.schedule._boot(self, actions, application)

    def _checked(self) -> dict[str, Action]:
        actions = by_name(self._actions())
        for action in actions.values():
            self._check(action)
        return actions

    def _check(self, action: Action) -> None:
        for group in action.spec.groups:
            if group not in self.action_groups:
                raise InvalidActionGroupError(action.name, group, self.action_groups)
        if action.spec.acl and action.spec.rule is None and not self._rules:
            raise MissingRuleError(action.name)


def build_entrypoints(
    *,
    controllers: Iterable[type[Controller]],
    schedule: ScheduleAdapter | None = None,
    middlewares: Iterable[Middleware] = (),
    rules: Iterable[Rule] = (),
    action_groups: Mapping[str, str] = MappingProxyType({}),
    shutdown_timeout: int | float | timedelta | str = "30s",
    controller_factory: ControllerFactory | None = None,
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
    `DuplicateActionNameError`, a group that is not declared an `InvalidActionGroupError`, and
    `acl=True` where there is no rule a `MissingRuleError`.

    Args:
        controllers: The controller classes.
        schedule: The adapter that runs their scheduled methods, from `schedule_entrypoint`.
            Without it they never run.
        middlewares: Called as `await middleware(context, call_next)` around each run, the
            first one outermost. A middleware goes on with `await call_next(context)`.
        rules: Asked before each run of a job with `acl=True`: subclasses of
            `AccessControlRule`, or functions of the context, which allow the run by returning
            exactly `True`.
        action_groups: The groups that jobs may be in, with what each is for.
        shutdown_timeout: How long the runs in progress have when the application stops,
            before they are aborted: milliseconds, a `timedelta`, or text.
        controller_factory: Called as `controller_factory(controller_class, context)` to make
            the controller of a run in place of calling the class; may be `async`. So that a
            dependency-injection container can.

    Raises:
        InvalidArgumentError: An argument is not what it should be.
        InvalidScheduleError: The shutdown timeout is not a duration.
    """
    if schedule is not None and not isinstance(schedule, ScheduleAdapter):
        raise InvalidArgumentError(
            "schedule", schedule, "is not an adapter", fix="Pass schedule=schedule_entrypoint()."
        )
    if controller_factory is not None:
        check_callable("controller_factory", controller_factory)
    return Entrypoint(
        controllers=_checked_controllers(controllers),
        schedule=schedule,
        middlewares=check_middlewares(middlewares),
        rules=tuple(check_rule("rules", rule) for rule in check_list("rules", rules)),
        action_groups=_checked_groups(action_groups),
        shutdown_timeout=to_duration(shutdown_timeout, "shutdown_timeout"),
        controller_factory=controller_factory,
    )


def _checked_controllers(controllers: object) -> tuple[type[Controller], ...]:
    if not isinstance(controllers, Iterable):
        raise _not_controllers(controllers)
    listed = tuple(controllers)
    for controller in listed:
        if not isinstance(controller, type) or not issubclass(controller, Controller):
            raise _not_controllers(controller)
    return listed


def _checked_groups(groups: object) -> Mapping[str, str]:
    if isinstance(groups, Mapping) and all(
        isinstance(text, str) for pair in groups.items() for text in pair
    ):
        return MappingProxyType(dict(groups))
    raise InvalidArgumentError(
        "action_groups",
        groups,
        "is not a mapping of names to descriptions",
        fix="Write it as action_groups={'reports': 'What the office reads'}.",
    )


def _not_controllers(value: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        "controllers",
        value,
        "is not a controller class",
        fix="Pass a list of subclasses of Controller, such as controllers=[JobController].",
    )
