"""`@schedule`: the ways to write a schedule, and the mistakes that raise where it is written."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import cached_property, partial, wraps
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from weftjobs import (
    At,
    Cron,
    Croniter,
    Every,
    InvalidScheduleError,
    UnknownTimeZoneError,
)
from weftjobs_controllers import (
    ActionSpec,
    Controller,
    DuplicateActionNameError,
    InvalidActionError,
    InvalidArgumentError,
    build_entrypoints,
    schedule,
)

LAST_DAY = Croniter("0 0 L * *", "UTC")
SHANGHAI = ZoneInfo("Asia/Shanghai")


async def passed(context: object, call_next: Any) -> None:
    """Be a middleware."""


def spec_of(**options: Any) -> ActionSpec:
    """Return what `@schedule` attaches."""
    positional = [options.pop("when")] if "when" in options else []

    def job(self: object) -> None: ...

    schedule(*positional, **options)(job)
    (spec,) = job.__weftjobs_schedules__  # type: ignore[attr-defined]
    assert isinstance(spec, ActionSpec)
    return spec


WAYS: dict[str, tuple[dict[str, Any], ActionSpec]] = {
    "duration": ({"when": "1h30m"}, ActionSpec(every=5_400_000)),
    "spaced duration": ({"when": "1h 30m"}, ActionSpec(every=5_400_000)),
    "milliseconds": ({"when": 5000}, ActionSpec(every=5000)),
    "fraction": ({"when": 1.5}, ActionSpec(every=2)),
    "timedelta": ({"when": timedelta(minutes=1)}, ActionSpec(every=60_000)),
    "every text": ({"every": "30s"}, ActionSpec(every=30_000)),
    "every number": ({"every": 30_000}, ActionSpec(every=30_000)),
    "every timedelta": ({"every": timedelta(seconds=3)}, ActionSpec(every=3000)),
    "cron text": ({"when": "0 3 * * *"}, ActionSpec(cron="0 3 * * *")),
    "macro": ({"when": "@daily"}, ActionSpec(cron="@daily")),
    "cron": ({"cron": "*/10 * * * * *"}, ActionSpec(cron="*/10 * * * * *")),
    "cron and zone": (
        {"cron": "0 3 * * *", "timezone": "Asia/Shanghai"},
        ActionSpec(cron="0 3 * * *", timezone=SHANGHAI),
    ),
    "cron text and ZoneInfo": (
        {"when": "0 3 * * *", "timezone": SHANGHAI},
        ActionSpec(cron="0 3 * * *", timezone=SHANGHAI),
    ),
    "Croniter": ({"when": LAST_DAY}, ActionSpec(trigger=LAST_DAY)),
    "Every": ({"when": Every("1h", origin=0)}, ActionSpec(trigger=Every("1h", origin=0))),
    "At": ({"when": At(5)}, ActionSpec(trigger=At(5))),
    "named": (
        {"when": "1s", "name": "tick", "description": "Ticks"},
        ActionSpec(every=1000, name="tick", description="Ticks"),
    ),
    "all options": (
        {
            "every": "1s",
            "overlap": True,
            "immediate": True,
            "aligned": True,
            "timeout": "5s",
            "skip_if": callable,
            "acl": True,
            "rule": callable,
            "middlewares": [passed],
            "groups": {"reports"},
        },
        ActionSpec(
            every=1000,
            overlap=True,
            immediate=True,
            aligned=True,
            timeout=5000,
            skip_if=callable,
            acl=True,
            rule=callable,
            middlewares=(passed,),
            groups=("reports",),
        ),
    ),
}


@pytest.mark.parametrize(("options", "expected"), WAYS.values(), ids=WAYS)
def test_ways_to_write_a_schedule(options: dict[str, Any], expected: ActionSpec) -> None:
    """K1: a schedule is an interval, a cron expression or a trigger."""
    assert spec_of(**options) == expected


def test_method_is_returned_untouched() -> None:
    """K1: the decorator records; the function is the one that was decorated."""

    async def job(self: object) -> int:
        return 7

    assert schedule("1s")(job) is job


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing": ({}, "schedule: nothing was given", "every='5m'"),
    "two ways": ({"when": "1s", "cron": "@daily"}, "when='1s' and cron='@daily'", "every="),
    "every and cron": ({"every": 5, "cron": "@daily"}, "every=5 and cron=", "cron='0 3"),
    "number as text": ({"when": "30"}, "cron: '30'", "Write '30s' for 30 seconds"),
    "unknown unit": ({"when": "5min"}, "'5min' is not a duration", "'30s' or '1h30m'"),
    "unit apart": ({"when": "5 m"}, "'5 m' is not a duration", "'30s'"),
    "no time": ({"when": "0s"}, "'0s' is less than 1 millisecond", "at least 1 millisecond"),
    "nonsense": ({"when": "soon"}, "'soon'", "a duration with a unit"),
    "empty": ({"when": ""}, "''", "30 9 * * mon-fri"),
    "zero": ({"when": 0}, "0 is less than", "at least 1"),
    "negative": ({"every": -5}, "every: -5", "at least 1"),
    "bool": ({"when": True}, "every: True is of type bool", "milliseconds"),
    "NaN": ({"when": float("nan")}, "nan", "milliseconds"),
    "infinite": ({"every": float("inf")}, "inf", "milliseconds"),
    "huge": ({"every": 10**400}, "every: ", "before the year 10000"),
    "list": ({"when": [5]}, "[5] is not a schedule", "@schedule('30s')"),
    "bytes": ({"when": b"30s"}, "b'30s' is not a schedule", "@schedule('30s')"),
    "class of trigger": ({"when": Every}, "is not a schedule", "@schedule('30s')"),
    "trigger as every": ({"every": At(5)}, "every: At(at=5) is of type At", "milliseconds"),
    "trigger as cron": ({"cron": Cron("@daily", "UTC")}, "cron: Cron('@daily'", "as text"),
    "five hundred thousand fields": ({"when": "* " * 500_000}, "cron: '* * *", "Shorten"),
    "a megabyte of digits": ({"when": "1" * 1_000_000}, "cron: '111", "Shorten"),
    "no such minute": ({"cron": "60 * * * *"}, "60", "0-59"),
    "never": ({"cron": "0 0 30 2 *"}, "'30' in month '2'", "Name a day"),
    "zone of an interval": ({"when": "1s", "timezone": "UTC"}, "timezone: 'UTC'", "Leave"),
    "zone of a trigger": ({"when": LAST_DAY, "timezone": "UTC"}, "timezone: 'UTC'", "Leave"),
    "aligned cron": ({"when": "@daily", "aligned": True}, "aligned: means nothing", "Leave"),
    "aligned trigger": ({"when": LAST_DAY, "aligned": True}, "aligned: means", "Leave"),
    "no time to run": ({"when": "1s", "timeout": 0}, "timeout: 0 is less than", "at least 1"),
    "timeout of no unit": ({"when": "1s", "timeout": "30"}, "timeout: '30'", "'30s'"),
    "overlap in words": ({"when": "1s", "overlap": "no"}, "overlap: 'no'", "overlap=True"),
    "immediate by number": ({"when": "1s", "immediate": 1}, "immediate: 1", "immediate=True"),
    "aligned by name": ({"when": "1s", "aligned": None}, "aligned: None", "aligned=True"),
    "acl of roles": ({"when": "1s", "acl": ["admin"]}, "acl: ['admin']", "acl=True"),
    "condition": ({"when": "1s", "skip_if": True}, "skip_if: True", "a function"),
    "one middleware": ({"when": "1s", "middlewares": print}, "middlewares: ", "[...]"),
    "no middleware": ({"when": "1s", "middlewares": [5]}, "middlewares: 5", "a function"),
    "one group": ({"when": "1s", "groups": "reports"}, "groups: 'reports'", "[...]"),
    "group that is no text": ({"when": "1s", "groups": [5]}, "groups: 5", "as text"),
}


@pytest.mark.parametrize(("options", "wrong", "fix"), WRONG.values(), ids=WRONG)
def test_mistakes_in_a_schedule(options: dict[str, Any], wrong: str, fix: str) -> None:
    """K2: what is no schedule is refused at once, with what to write instead."""
    with pytest.raises(InvalidScheduleError, match=re.escape(wrong)) as raised:
        spec_of(**options)
    assert raised.value.reason == "invalid"
    assert fix in raised.value.fix
    assert len(str(raised.value)) <= 500


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", 5, b"UTC"])
def test_unknown_zone(zone: Any) -> None:
    """K2: an unknown zone is refused where the class is defined."""
    with pytest.raises(UnknownTimeZoneError):
        spec_of(cron="@daily", timezone=zone)


@pytest.mark.parametrize(
    "options", [{"name": ""}, {"name": 5}, {"description": None}, {"description": 0}]
)
def test_names_and_descriptions_are_text(options: dict[str, Any]) -> None:
    """K2: a name or a description that is no text is refused."""
    (argument,) = options
    with pytest.raises(InvalidArgumentError, match=argument) as raised:
        spec_of(when="1s", **options)
    assert raised.value.argument == argument


def without_parentheses() -> None:
    class Jobs(Controller):
        @schedule  # type: ignore[arg-type]
        async def job(self) -> None: ...  # type: ignore[misc]


def test_decorator_without_parentheses() -> None:
    """K2: `@schedule` alone has no schedule."""
    with pytest.raises(InvalidScheduleError, match="is not a schedule"):
        without_parentheses()


def needs_a_day(self: object, day: str) -> None: ...


def needs_a_keyword(self: object, *, day: str) -> None: ...


def takes_no_self() -> None: ...


def takes_keywords_only(*, day: str = "") -> None: ...


def yields(self: object) -> Iterator[int]:
    yield 1


async def yields_async(self: object) -> AsyncIterator[int]:
    yield 1


NOT_METHODS: dict[str, tuple[Any, str]] = {
    "required parameter": (needs_a_day, "needs_a_day: it has the required parameter 'day'"),
    "required keyword": (needs_a_keyword, "required parameter 'day'"),
    "no self": (takes_no_self, "takes_no_self: it takes no self"),
    "keywords only": (takes_keywords_only, "it takes no self"),
    "generator": (yields, "it is a generator"),
    "async generator": (yields_async, "it is a generator"),
    "class method": (classmethod(yields), "it is a classmethod"),
    "static method": (staticmethod(takes_no_self), "it is a staticmethod"),
    "property": (property(lambda self: 1), "it is a property"),
    "partial": (partial(needs_a_day, day=""), "it is not a method"),
    "class": (object, "it is not a method"),
    "number": (5, "it is not a method"),
}


@pytest.mark.parametrize(("member", "wrong"), NOT_METHODS.values(), ids=NOT_METHODS)
def test_what_cannot_be_a_job(member: Any, wrong: str) -> None:
    """K2: what cannot be called as a method without arguments is refused."""
    with pytest.raises(InvalidActionError, match=re.escape(wrong)) as raised:
        schedule("1s")(member)
    assert raised.value.fix


def can_be_called(
    self: object, day: str = "", *rest: int, late: bool = False, **more: int
) -> None:
    """Have every kind of parameter that need not be given."""


def test_parameters_that_need_not_be_given() -> None:
    """K2: a method whose parameters have defaults is a job."""
    assert schedule("1s")(can_be_called) is can_be_called
    assert callable(schedule("1s")(lambda *arguments: None))


HIDDEN: dict[str, Callable[[Any], object]] = {
    "classmethod": classmethod,
    "staticmethod": staticmethod,
    "property": property,
    "cached_property": cached_property,
}


@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_scheduled_function_hidden_by_a_decorator_above(hide: Callable[[Any], object]) -> None:
    """K2: a decorator above `@schedule` that makes it no method is seen with the class."""

    def job(self: object) -> None: ...

    with pytest.raises(InvalidActionError, match=rf"Jobs\.job: it is a {hide.__name__}"):
        type("Jobs", (Controller,), {"job": hide(schedule("1s")(job))})


def test_wrapping_decorator_above_keeps_the_schedule() -> None:
    """K1: a decorator above that wraps with `functools.wraps` is what runs."""

    def loud(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def wrapper(self: object) -> Any:
            return method(self)

        return wrapper

    class Jobs(Controller):
        @loud
        @schedule("1s")
        def job(self) -> None: ...

    assert [info.name for info in build_entrypoints(controllers=[Jobs]).actions] == ["Jobs.job"]


def twice_one_name() -> None:
    class Jobs(Controller):
        @schedule("1s", name="tick")
        async def first(self) -> None: ...

        @schedule("2s", name="tick")
        async def second(self) -> None: ...


def twice_no_name() -> None:
    class Jobs(Controller):
        @schedule("1s")
        @schedule("2s")
        async def job(self) -> None: ...


def named_as_the_default() -> None:
    class Jobs(Controller):
        @schedule("1s")
        async def first(self) -> None: ...

        @schedule("2s", name="Jobs.first")
        async def second(self) -> None: ...


@pytest.mark.parametrize(
    ("define", "name", "methods"),
    [
        (twice_one_name, "tick", ("first", "second")),
        (twice_no_name, "Jobs.job", ("job", "job")),
        (named_as_the_default, "Jobs.first", ("first", "second")),
    ],
)
def test_name_used_twice_in_a_class(
    define: Callable[[], None], name: str, methods: tuple[str, str]
) -> None:
    """K2: two jobs of a class with one name are refused, and both places are named."""
    with pytest.raises(DuplicateActionNameError) as raised:
        define()
    assert isinstance(raised.value, InvalidScheduleError)
    assert raised.value.name == name
    assert tuple(place.rpartition(".")[2] for place in raised.value.places) == methods
    assert all(place in str(raised.value) for place in raised.value.places)
