"""`@schedule`: attach to a method when it runs, having checked that it can."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from weftjobs import Cron, Every, InvalidScheduleError, Trigger, parse_duration
from weftjobs_controllers.actions import ActionSpec
from weftjobs_controllers.errors import InvalidActionError, check_text, shown

Method = TypeVar("Method", bound=Callable[..., Any])

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
    name: str | None = None,
    description: str = "",
) -> Callable[[Method], Method]:
    """Run a method of a `Controller` on a schedule.

        class JobController(Controller):
            @schedule("30s")
            async def heartbeat(self) -> None: ...

            @schedule(cron="0 3 * * *", timezone="Asia/Shanghai")
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
        name: The name of the job. Default: `Class.method`.
        description: What the job is for.

    Raises:
        InvalidScheduleError: The schedule cannot be kept, here, where the class is defined.
            Its kind `UnknownTimeZoneError` is raised for a zone, `InvalidActionError` for
            what is not a method that can run without arguments, and, once the class is
            complete, `DuplicateActionNameError` for a name that it uses twice.
    """
    spec = replace(
        _read_schedule(when, every, cron, timezone),
        name=None if name is None else check_text("name", name),
        description="" if description == "" else check_text("description", description),
    )

    def attach(method: Method) -> Method:
        _check_method(method)
        setattr(method, _ATTRIBUTE, (spec, *specs_of(method)))
        return method

    return attach


def specs_of(member: object) -> tuple[ActionSpec, ...]:
    """Return what `@schedule` attached to a member of a class, from the top decorator down."""
    specs = getattr(member, _ATTRIBUTE, ())
    return specs if isinstance(specs, tuple) else ()


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
