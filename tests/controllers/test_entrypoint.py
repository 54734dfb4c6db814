"""The entrypoint: its jobs as others see them, and what is refused when it starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.controllers.booting import Booted, application_of
from weftjobs import Cron, Croniter, InvalidScheduleError
from weftjobs_controllers import (
    ActionInfo,
    AlreadyRunningError,
    Controller,
    DuplicateActionNameError,
    InvalidActionGroupError,
    InvalidArgumentError,
    build_entrypoints,
    schedule,
    schedule_entrypoint,
)

LAST_DAY = Croniter("0 0 L * *", "Asia/Tokyo")


class Jobs(Controller):
    @schedule("90s", description="Ticks")
    async def tick(self) -> None: ...

    @schedule(cron="0 3 * * *", timezone="Asia/Shanghai", name="nightly")
    def purge(self) -> None: ...

    @schedule("@daily")
    def daily(self) -> None: ...

    @schedule(LAST_DAY)
    def monthly(self) -> None: ...

    @schedule(Cron("30 9 * * *", "UTC"))
    def morning(self) -> None: ...


async def test_actions_while_the_application_runs() -> None:
    """K3: the jobs are listed with their schedule as text and their next time."""
    booted = Booted(Jobs, timezone="America/Toronto")
    async with booted.application:
        await booted.clock.advance("60s")
        actions = booted.entrypoint.actions
    assert actions[0] == ActionInfo(
        name="Jobs.tick",
        description="Ticks",
        groups=(),
        acl=False,
        controller=Jobs,
        method="tick",
        schedule="every 1m30s",
        next_time=datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC),
    )
    listed = [
        (action.name, action.schedule, action.next_time and action.next_time.isoformat())
        for action in actions[1:]
    ]
    assert listed == [
        ("nightly", "cron 0 3 * * *", "2026-01-02T03:00:00+08:00"),
        ("Jobs.daily", "cron @daily", "2026-01-01T00:00:00-05:00"),
        ("Jobs.monthly", "Croniter('0 0 L * *', 'Asia/Tokyo')", "2026-01-31T00:00:00+09:00"),
        ("Jobs.morning", "cron 30 9 * * *", "2026-01-01T09:30:00+00:00"),
    ]


@pytest.mark.parametrize("adapter", [None, schedule_entrypoint()], ids=["none", "adapter"])
def test_actions_of_an_application_that_does_not_run(adapter: Any) -> None:
    """K3: the jobs are listed before the start too, with no next time."""
    actions = build_entrypoints(controllers=[Jobs], schedule=adapter).actions
    assert [action.schedule for action in actions[:2]] == ["every 1m30s", "cron 0 3 * * *"]
    assert {action.next_time for action in actions} == {None}


class SameName(Controller):
    @schedule("1s", name="nightly")
    async def other(self) -> None: ...


@pytest.mark.parametrize("adapter", [None, schedule_entrypoint()], ids=["none", "adapter"])
async def test_two_controllers_with_one_name(adapter: Any) -> None:
    """K3: a name that two controllers use is refused at boot, with both places."""
    entrypoint = build_entrypoints(controllers=[Jobs, SameName], schedule=adapter)
    with pytest.raises(DuplicateActionNameError, match="'nightly'") as raised:
        await application_of(entrypoint).__aenter__()
    assert raised.value.places == (
        f"{__name__}.Jobs.purge",
        f"{__name__}.SameName.other",
    )


async def test_controller_that_is_listed_twice() -> None:
    """K3: a controller that is listed twice has every name twice."""
    with pytest.raises(DuplicateActionNameError, match="list a controller once"):
        raise await error_of_start(build_entrypoints(controllers=[Jobs, Jobs]))


async def error_of_start(entrypoint: Any) -> Exception:
    """Return what the start of an application raised, its fix in the message."""
    try:
        async with application_of(entrypoint):
            pass
    except DuplicateActionNameError as error:
        error.args = (f"{error} {error.fix}",)
        return error
    return AssertionError("it started")


async def test_adapter_of_two_entrypoints() -> None:
    """K10: one adapter runs one entrypoint at a time."""
    adapter = schedule_entrypoint()
    first = build_entrypoints(controllers=[Jobs], schedule=adapter)
    second = build_entrypoints(controllers=[SameName], schedule=adapter)
    async with application_of(first):
        with pytest.raises(AlreadyRunningError, match="adapter 'schedule'"):
            await application_of(second).__aenter__()
    async with application_of(second):
        assert [row["action"] for row in adapter.jobs] == ["nightly"]


class Grouped(Controller):
    @schedule("1s", groups=["reports", "nightly"])
    async def job(self) -> None: ...


async def test_groups() -> None:
    """K3: the groups of a job are those that its entrypoint declares."""
    groups = {"reports": "What the office reads", "nightly": "While nobody looks"}
    entrypoint = build_entrypoints(controllers=[Grouped], action_groups=groups)
    async with application_of(entrypoint):
        assert [action.groups for action in entrypoint.actions] == [("reports", "nightly")]
        assert entrypoint.action_groups == groups


@pytest.mark.parametrize("adapter", [None, schedule_entrypoint()], ids=["none", "adapter"])
async def test_group_that_is_not_declared(adapter: Any) -> None:
    """K3: it is refused at boot, and the message names what there is."""
    entrypoint = build_entrypoints(
        controllers=[Grouped], schedule=adapter, action_groups={"reports": ""}
    )
    with pytest.raises(InvalidActionGroupError) as raised:
        async with application_of(entrypoint):
            pytest.fail("it must not start")
    assert (raised.value.action, raised.value.group) == ("Grouped.job", "nightly")
    assert raised.value.fix.endswith("'reports'.")


WRONG: dict[str, dict[str, Any]] = {
    "no list": {"controllers": Jobs},
    "a name": {"controllers": "Jobs"},
    "an instance": {"controllers": [Jobs()]},
    "another class": {"controllers": [Jobs, dict]},
    "an unfinished adapter": {"controllers": [Jobs], "schedule": schedule_entrypoint},
    "a middleware alone": {"controllers": [Jobs], "middlewares": print},
    "no middleware": {"controllers": [Jobs], "middlewares": ["log"]},
    "a rule alone": {"controllers": [Jobs], "rules": print},
    "no rule": {"controllers": [Jobs], "rules": [True]},
    "a list of groups": {"controllers": [Jobs], "action_groups": ["reports"]},
    "groups without text": {"controllers": [Jobs], "action_groups": {"reports": None}},
    "no factory": {"controllers": [Jobs], "controller_factory": Jobs()},
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_arguments(arguments: dict[str, Any]) -> None:
    """Z3: an argument that cannot be used is refused, with what to write instead."""
    with pytest.raises(InvalidArgumentError) as raised:
        build_entrypoints(**arguments)
    assert raised.value.argument in arguments
    assert raised.value.fix


@pytest.mark.parametrize("timeout", [0, -5, "soon", None, True, "30"])
def test_wrong_shutdown_timeout(timeout: Any) -> None:
    """Z2: it is a duration, at least 1 ms."""
    with pytest.raises(InvalidScheduleError, match=r"^shutdown_timeout: "):
        build_entrypoints(controllers=[Jobs], shutdown_timeout=timeout)
