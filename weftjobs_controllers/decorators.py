"""`@schedule`: attach to a method when it runs, having checked that it can."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from weftjobs import Cron, Every, InvalidScheduleError, Trigger, parse_duration, to_duration
from weftjobs_controllers.access import Rule, check_rule
from weftjobs_controllers.actions import ActionSpec, Exclusive
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.errors import (
    InvalidActionError,
    InvalidArgumentError,
    check_callable,
    check_flag,
    check_list,
    check_text,
    shown,
)
from weftjobs_controllers.middlewares import Middleware, check_middlewares

Method = TypeVar("Method", bound=Callable[..., Any])
Checked = TypeVar("Checked")

_ATTRIBUTE = "__weftjobs_schedules__"

_LIKE_A_DURATION = re.compile(r"(?: *[0-9.]+ *[A-Za-z]+)+ *")
_LONGEST_DURATION = 1_000

_FIX = "Write @schedule('30s'), @schedule(every='5m') or @schedule(cron='0 3 * * *')."


def schedule(
    when: int | float | timedelta | str | Trigger | None = None,
    /,
    *,
    every: int | float | timedelta | str | None = None,
    cron: str | None = None,
    timezone: str | ZoneInfo | None = None,
    overlap: bool = False,
    immediate: bool = False,
    exclusive: bool | Exclusive = False,
    aligned: bool = False,
    catch_up: bool = False,
    timeout: int | float | timedelta | str | None = None,
    skip_if: Callable[[ScheduleContext], object] | None = None,
    name: str | None = None,
    description: str = "",
    acl: bool = False,
    rule: Rule | None = None,
    middlewares: Iterable[Middleware] = (),
    groups: Iterable[str] = (),
) -> Callable[[Method], Method]:
    """Run a method of a `Controller` on a schedule.

        class JobController(Controller):
            @schedule("30s")
            async def heartbeat(self) -> None: ...

            @schedule(cron="0 3 * * *", timezone="Asia/Shanghai", timeout="1h")
            def purge(self) -> None: ...

    Give exactly one of `when`, `every` and `cron`. The method may be `async`; a plain one runs
    in a worker thread. It takes no arguments, and what it returns is ignored. It is returned
    untouched: called directly, it is what it was. Several schedules on one method need
    different names.

    An interval first runs one interval after the start of the application. A cron time that
    its zone skips when the clocks go forward does not run that day; one that the zone repeats
    runs once.

    Args:
        when: An interval (milliseconds, a `timedelta`, or text such as `'1h30m'`), a cron
            expression (any other text), or a trigger such as `weftjobs.Croniter(...)`.
        every: The interval.
        cron: The cron expression.
        timezone: The zone of the cron expression: an IANA name or a `ZoneInfo`. Default: that
            of the application, else that of the process.
        overlap: Start a run although the previous one is in progress. By default it is
            skipped.
        immediate: Also run once as soon as the application has launched.
        exclusive: Run in one instance of the application at a time: `True` for the component
            `mutex` and a lock of the job's name, or an `Exclusive`. Its interval is aligned.
        aligned: Put an interval on the grid of the clock (`every="6h"` at 0, 6, 12 and 18
            o'clock UTC), so that a restart does not move it.
        catch_up: Where the rows of the adapter are stored (`schedule_entrypoint(jobs=...)`): run
            once at launch when a slot was missed while the process was down.
        timeout: How long a run may last: milliseconds, a `timedelta`, or text. Then
            `self.signal` is aborted, an `async` run is cancelled, and the run has failed with
            a `RunTimeoutError`.
        skip_if: Called as `skip_if(context)` before a run, which is skipped when it returns
            something true. May be `async`, as may be all functions here; a plain one is
            called on the event loop.
        name: The name of the job. Default: `Class.method`.
        description: What the job is for.
        acl: Ask the `rules` of the entrypoint before a run.
        rule: A rule that this job asks, after those of the entrypoint: a subclass of
            `AccessControlRule`, or a function of the context.
        middlewares: Called as `await middleware(context, call_next)` around a run, inside
            those of the entrypoint and of the adapter.
        groups: The names of the groups that the job belongs to, which
            `build_entrypoints(action_groups=...)` declares.

    Raises:
        InvalidScheduleError: The schedule cannot be kept, here, where the class is defined.
            Its kind `UnknownTimeZoneError` is raised for a zone, `InvalidArgumentError` for
            another option, `InvalidActionError` for what is not a method that can run without
            arguments, and, once the class is complete, `DuplicateActionNameError` for a name
            that it uses twice.
    """
    spec = _read_schedule(when, every, cron, timezone)
    if check_flag("aligned", aligned) and spec.every is None:
        raise InvalidScheduleError(
            f"aligned: means nothing for {shown(spec.cron or spec.trigger)}",
            fix="Leave aligned out: only an interval has a grid that it could be moved to.",
        )
    spec = replace(
        spec,
        overlap=check_flag("overlap", overlap),
        immediate=check_flag("immediate", immediate),
        exclusive=_read_exclusive(exclusive),
        aligned=aligned,
        catch_up=check_flag("catch_up", catch_up),
        timeout=None if timeout is None else to_duration(timeout, "timeout"),
        skip_if=_optional(check_callable, "skip_if", skip_if),
        name=_optional(check_text, "name", name),
        description="" if description == "" else check_text("description", description),
        acl=check_flag("acl", acl),
        rule=_optional(check_rule, "rule", rule),
        middlewares=check_middlewares(middlewares),
        groups=tuple(check_text("groups", group) for group in check_list("groups", groups)),
    )

    def attach(method: Method) -> Method:
        _check_method(method)
        setattr(method, _ATTRIBUTE, (spec, *specs_of(method)))
        return method

    return attach


def specs_of(member: object) -> tuple[ActionSpec, ...]:
    """Return what `@schedule` attached to a member of a class, from the top decorator down."""
    # A lazy object would answer, or fail to, whatever it is asked for.
    specs = inspect.getattr_static(member, _ATTRIBUTE, ())
    return specs if isinstance(specs, tuple) else ()


def _read_exclusive(exclusive: object) -> Exclusive | None:
    if isinstance(exclusive, bool):
        return Exclusive() if exclusive else None
    if not isinstance(exclusive, Exclusive):
        fix = "Write exclusive=True, or exclusive=Exclusive(mutex='…', key='…')."
        raise InvalidArgumentError("exclusive", exclusive, "is not an Exclusive", fix=fix)
    check_text("mutex", exclusive.mutex)
    _optional(check_text, "key", exclusive.key)
    return exclusive


def _optional(check: Callable[[str, object], Checked], name: str, value: object) -> Checked | None:
    """Check an argument that may be left out."""
    return None if value is None else check(name, value)


def _read_schedule(when: object, every: Any, cron: Any, timezone: Any) -> ActionSpec:
    ways = {"when": when, "every": every, "cron": cron}
    given = {way: value for way, value in ways.items() if value is not None}
    if len(given) != 1:
        wrong = " and ".join(f"{way}={shown(value)}" for way, value in given.items())
        raise InvalidScheduleError(f"schedule: {wrong or 'nothing'} was given", fix=_FIX)
    spec = _read_when(when, timezone) if when is not None else _read_named(every, cron, timezone)
    if timezone is not None and spec.cron is None:
        raise InvalidScheduleError(
            f"timezone: {shown(timezone)} means nothing without a cron expression",
            fix="Leave timezone out, or write cron='0 3 * * *'.",
        )
    return spec


def _read_named(every: Any, cron: Any, timezone: Any) -> ActionSpec:
    if every is not None:
        return ActionSpec(every=Every(every).interval)
    checked = Cron(cron, "UTC" if timezone is None else timezone)
    zone = None if timezone is None else checked.timezone
    return ActionSpec(cron=checked.expression, timezone=zone)


def _read_when(when: object, timezone: Any) -> ActionSpec:
    if isinstance(when, str):
        return _read_text(when, timezone)
    if isinstance(when, int | float | timedelta):
        return _read_named(when, None, timezone)
    if _is_trigger(when):
        return ActionSpec(trigger=when)  # type: ignore[arg-type]
    raise InvalidScheduleError(f"schedule: {shown(when)} is not a schedule", fix=_FIX)


def _read_text(text: str, timezone: Any) -> ActionSpec:
    try:
        return ActionSpec(every=parse_duration(text))
    except InvalidScheduleError:
        if len(text) <= _LONGEST_DURATION and _LIKE_A_DURATION.fullmatch(text):
            raise
    return _read_named(None, text, timezone)


def _is_trigger(value: object) -> bool:
    asked = getattr(value, "first", None), getattr(value, "after", None)
    return all(map(callable, asked)) and not isinstance(value, type)


def _check_method(method: object) -> None:
    """Refuse what cannot be called as a method without arguments."""
    name = getattr(method, "__qualname__", None)
    called = name.split("<locals>.")[-1] if isinstance(name, str) else shown(method)
    if isinstance(method, classmethod | staticmethod | property):
        raise InvalidActionError.not_a_method(called, method)
    if not inspect.isfunction(method):
        raise InvalidActionError(
            called, "it is not a method", fix="Put @schedule above a method written with def."
        )
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        raise InvalidActionError(
            called,
            "it is a generator, and calling it would run nothing",
            fix="Take the yield out, or loop over it in a method that is scheduled.",
        )
    _check_parameters(called, method)


def _check_parameters(called: str, method: Callable[..., Any]) -> None:
    parameters = list(inspect.signature(method).parameters.values())
    if not parameters or parameters[0].kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise InvalidActionError(
            called,
            "it takes no self, so it is not a method",
            fix="Make it a method of a Controller: def job(self).",
        )
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in parameters[1:]:
        if parameter.default is parameter.empty and parameter.kind not in variable:
            raise InvalidActionError(
                called,
                f"it has the required parameter {parameter.name!r}, but a job has no input",
                fix=f"Give {parameter.name!r} a default, or read it from self.",
            )
