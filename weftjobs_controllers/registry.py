"""From controllers to their jobs, and the refusal of what cannot be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from weftjobs_controllers.actions import Action
from weftjobs_controllers.decorators import specs_of
from weftjobs_controllers.errors import DuplicateActionNameError, InvalidActionError

if TYPE_CHECKING:
    from weftjobs_controllers.controller import Controller


def actions_of(controller: type[Controller]) -> Iterator[Action]:
    """Yield the jobs of a class, those of its bases first.

    Raises:
        InvalidActionError: One of them is hidden in something that is not a method.
    """
    members: dict[str, object] = {}
    for base in reversed(controller.__mro__):
        members |= vars(base)
    for method, member in members.items():
        _check_member(controller, method, member)
        for spec in specs_of(member):
            name = spec.name or f"{controller.__name__}.{method}"
            yield Action(name, spec, controller, method)


def by_name(actions: Iterable[Action]) -> dict[str, Action]:
    """Return jobs by their names.

    Raises:
        DuplicateActionNameError: Two of them have the same name.
    """
    named: dict[str, Action] = {}
    for action in actions:
        if action.name in named:
            places = named[action.name].place, action.place
            raise DuplicateActionNameError(action.name, places)
        named[action.name] = action
    return named


def _check_member(controller: type[Controller], method: str, member: object) -> None:
    hidden: object = None
    if isinstance(member, classmethod | staticmethod):
        hidden = member.__func__
    elif isinstance(member, property):
        hidden = member.fget
    elif isinstance(member, cached_property):
        hidden = member.func
    if specs_of(hidden):
        raise InvalidActionError.not_a_method(f"{controller.__name__}.{method}", member)
