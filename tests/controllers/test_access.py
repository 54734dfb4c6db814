"""Access control: which rules are asked, and what refuses a run."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.controllers.booting import Booted
from weftjobs_controllers import (
    AccessControlRule,
    AccessDeniedError,
    Controller,
    InvalidArgumentError,
    MissingRuleError,
    ScheduleContext,
    build_entrypoints,
    schedule,
)

Journal = list[str]


def rules_of(journal: Journal, answers: dict[str, Any]) -> dict[str, Any]:
    """Return rules of every kind that note that they were asked, and answer as told."""

    class Subclass(AccessControlRule):
        def check(self, context: ScheduleContext) -> object:
            journal.append("subclass")
            return answers.get("subclass", True)

    class Asynchronous(AccessControlRule):
        async def check(self, context: ScheduleContext) -> object:
            await anyio.lowlevel.checkpoint()
            journal.append("asynchronous")
            return answers.get("asynchronous", True)

    def function(context: ScheduleContext) -> object:
        journal.append("function")
        return answers.get("function", True)

    async def coroutine(context: ScheduleContext) -> object:
        journal.append("coroutine")
        return answers.get("coroutine", True)

    return {
        "subclass": Subclass,
        "asynchronous": Asynchronous(),
        "function": function,
        "coroutine": coroutine,
    }


async def test_rules_of_the_entrypoint_and_then_the_own_one() -> None:
    """K7: `acl=True` asks all rules of the entrypoint, then the action's; all kinds of rule."""
    journal: Journal = []
    rules = rules_of(journal, {})
    own = rules.pop("coroutine")

    class Jobs(Controller):
        @schedule("1m", acl=True, rule=own)
        async def job(self) -> None:
            journal.append("job")

    booted = Booted(Jobs, entrypoint={"rules": list(rules.values())})
    async with booted.application:
        await booted.clock.advance("1m")
    assert journal == ["subclass", "asynchronous", "function", "coroutine", "job"]
    assert booted.hooks.errors == []
    assert [action.acl for action in booted.entrypoint.actions] == [True]


@pytest.mark.parametrize("refusing", ["subclass", "asynchronous", "function", "coroutine"])
@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
async def test_only_true_allows_a_run(refusing: str, answer: object) -> None:
    """K7: anything but exactly `True` refuses, a failed run; later rules are not asked."""
    journal: Journal = []
    rules = rules_of(journal, {refusing: answer})

    class Jobs(Controller):
        @schedule("1m", acl=True)
        async def job(self) -> None:
            journal.append("job")

    booted = Booted(Jobs, entrypoint={"rules": list(rules.values())})
    async with booted.application:
        await booted.clock.advance("1m")
        assert booted.adapter.jobs[0]["last"]["error"]["reason"] == "denied"
    ((error, _, context),) = booted.hooks.errors
    assert isinstance(error, AccessDeniedError)
    assert error.action == "Jobs.job"
    assert error.rule.lower().endswith(refusing)
    assert context is not None
    assert context.run == 1
    assert journal == list(rules)[: list(rules).index(refusing) + 1]


async def test_rule_without_acl_is_asked_alone() -> None:
    """K9a: without `acl` the rules of the entrypoint are not asked."""
    journal: Journal = []
    rules = rules_of(journal, {"subclass": False})

    class Jobs(Controller):
        @schedule("1m", rule=rules["function"])
        async def guarded(self) -> None:
            journal.append("guarded")

        @schedule("1m")
        async def free(self) -> None:
            journal.append("free")

    booted = Booted(Jobs, entrypoint={"rules": [rules["subclass"]]})
    async with booted.application:
        await booted.clock.advance("1m")
    assert sorted(journal) == ["free", "function", "guarded"]
    assert journal.index("function") < journal.index("guarded")


async def test_rule_that_raises_fails_the_run() -> None:
    """K7: the error is told as it was raised."""

    def broken(context: ScheduleContext) -> bool:
        raise OSError("no directory")

    class Jobs(Controller):
        @schedule("1m", rule=broken)
        async def job(self) -> None:
            pytest.fail("it must not run")

    booted = Booted(Jobs)
    async with booted.application:
        await booted.clock.advance("1m")
    assert [str(error) for error, _, _ in booted.hooks.errors] == ["no directory"]


async def test_acl_without_any_rule_is_refused_at_boot() -> None:
    """K9a: a job that asks for protection and has none does not start."""

    class Jobs(Controller):
        @schedule("1m", acl=True, name="purge")
        async def job(self) -> None: ...

    with pytest.raises(MissingRuleError, match="purge asks for access control"):
        async with Booted(Jobs).application:
            pytest.fail("it must not start")


class Abstract(AccessControlRule):
    """A rule that has no `check`."""


@pytest.mark.parametrize("rule", [5, "admin", Abstract, dict, AccessControlRule])
def test_what_is_no_rule(rule: Any) -> None:
    """Z3: it is refused where it is given."""
    with pytest.raises(InvalidArgumentError, match=r"^rule: .* is not a rule(\n|$)"):
        schedule("1m", rule=rule)
    with pytest.raises(InvalidArgumentError, match=r"^rules: .* is not a rule(\n|$)"):
        build_entrypoints(controllers=[], rules=[rule])
