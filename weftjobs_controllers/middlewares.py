"""Middlewares: functions around a run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.errors import check_callable, check_list


class CallNext(Protocol):
    """What a middleware goes on with: `await call_next(context)`."""

    def __call__(self, context: ScheduleContext, /) -> Awaitable[object]:
        """Go on with the next middleware, or the run."""


Middleware = Callable[[ScheduleContext, CallNext], object]


def chained(middlewares: Iterable[Middleware], innermost: CallNext) -> CallNext:
    """Return a function that goes through middlewares, the first one outermost."""
    call = innermost
    for middleware in reversed(tuple(middlewares)):
        call = partial(_pass, middleware, call)
    return call


async def _pass(middleware: Middleware, call_next: CallNext, context: ScheduleContext) -> object:
    result = middleware(context, call_next)
    return await result if inspect.isawaitable(result) else result


def check_middlewares(middlewares: object) -> tuple[Middleware, ...]:
    """Return the middlewares of an argument.

    Raises:
        InvalidArgumentError: It is not a list, or something in it cannot be called.
    """
    listed = check_list("middlewares", middlewares)
    return tuple(check_callable("middlewares", middleware) for middleware in listed)
