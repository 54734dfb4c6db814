"""Access control: rules that are asked before a run."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.errors import AccessDeniedError, InvalidArgumentError


class AccessControlRule(ABC):
    """A rule of the access control; one method says whether a run may go on.

        class OnlyOnTheLeader(AccessControlRule):
            async def check(self, context):
                return await context.component("cluster").is_leader()

    A rule may as well be a function of the context. Either may be `async`, and allows the run
    only by returning exactly `True`.
    """

    @abstractmethod
    def check(self, context: ScheduleContext) -> object:
        """Return `True` when the run may go on; may be `async`."""


Rule = type[AccessControlRule] | AccessControlRule | Callable[[ScheduleContext], object]


async def check_access(rules: Iterable[Rule], context: ScheduleContext) -> None:
    """Ask rules, one after another.

    Raises:
        AccessDeniedError: One of them did not return `True`.
    """
    for rule in rules:
        if isinstance(rule, type):
            rule = rule()
        ask = rule.check if isinstance(rule, AccessControlRule) else rule
        answer = ask(context)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not True:
            name = getattr(rule, "__qualname__", None) or type(rule).__name__
            raise AccessDeniedError(context.action.name, name, answer)


def check_rule(argument: str, rule: object) -> Rule:
    """Return a rule that an argument has to be.

    Raises:
        InvalidArgumentError: It is none.
    """
    if isinstance(rule, AccessControlRule):
        return rule
    if isinstance(rule, type):
        if issubclass(rule, AccessControlRule) and not inspect.isabstract(rule):
            return rule
    elif callable(rule):
        return rule
    raise InvalidArgumentError(
        argument,
        rule,
        "is not a rule",
        fix="Pass a subclass of AccessControlRule that has check(self, context), or a function "
        "of the context.",
    )
