"""The errors of the controllers, each by its whole sentence."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from weftjobs import InvalidScheduleError, JobsError
from weftjobs_controllers import (
    AccessDeniedError,
    AlreadyRunningError,
    CannotRunHereError,
    ComponentCycleError,
    ComponentNotStartedError,
    DuplicateActionNameError,
    InvalidActionError,
    InvalidActionGroupError,
    InvalidArgumentError,
    JobExitError,
    LeaseLostError,
    MissingExtraError,
    MissingMutexError,
    MissingRuleError,
    MutexError,
    NotRunningError,
    RunAbortedError,
    RunTimeoutError,
    UnknownActionError,
    UnknownComponentError,
)

ERRORS = [
    (
        InvalidArgumentError("name", 5, "is not text", fix="Give name as text."),
        "invalid",
        "name: 5 is not text",
        "Give name as text.",
        {"argument": "name", "value": 5},
    ),
    (
        InvalidActionError("Jobs.purge", "it is a generator", fix="Take the yield out."),
        "invalid",
        "Jobs.purge: it is a generator",
        "Take the yield out.",
        {"method": "Jobs.purge"},
    ),
    (
        DuplicateActionNameError("purge", ("a.Jobs.one", "b.Jobs.two")),
        "invalid",
        "name: 'purge' names both a.Jobs.one and b.Jobs.two",
        "Give each its own with @schedule(..., name='…'), and list a controller once.",
        {"name": "purge", "places": ("a.Jobs.one", "b.Jobs.two")},
    ),
    (
        UnknownActionError("Jobs.gone"),
        "invalid",
        "action: 'Jobs.gone' is the name of no job of this entrypoint",
        "Put the name of one of entrypoint.actions into the row's action.",
        {"action": "Jobs.gone"},
    ),
    (
        UnknownComponentError("bd", ["db", "cache"]),
        "missing",
        "component: 'bd' is not a component of the application",
        "Add it to components, or name one of them: 'db', 'cache'.",
        {"component": "bd", "known": ("db", "cache")},
    ),
    (
        ComponentNotStartedError("db"),
        "missing",
        "component: 'db' has not started",
        "Add 'db' to bootstrap, or await application.get('db') first.",
        {"component": "db"},
    ),
    (
        AlreadyRunningError("application 'app'"),
        "invalid",
        "application 'app': it is running already",
        "Make another one, or start it again when it has stopped.",
        {"what": "application 'app'"},
    ),
    (
        NotRunningError("schedule.scheduler"),
        "missing",
        "schedule.scheduler: it is there only while the application runs",
        "Ask for it inside `async with application`, or in a job.",
        {"what": "schedule.scheduler"},
    ),
    (
        CannotRunHereError("application: run()", "inside an event loop", fix="Use `async with`."),
        "invalid",
        "application: run() is called inside an event loop",
        "Use `async with`.",
        {"call": "application: run()", "where": "inside an event loop"},
    ),
    (
        ComponentCycleError(("db", "cache", "db")),
        "invalid",
        "component: to start, 'db' waits for 'cache' waits for 'db'",
        "Have one of them ask for the other later than in its __aenter__.",
        {"cycle": ("db", "cache", "db")},
    ),
    (
        AccessDeniedError("Jobs.purge", "OnlyOnTheLeader", None),
        "denied",
        "Jobs.purge: the rule OnlyOnTheLeader answered None",
        "A rule allows a run by returning exactly True.",
        {"action": "Jobs.purge", "rule": "OnlyOnTheLeader"},
    ),
    (
        RunTimeoutError("Jobs.purge", 90_000),
        "timeout",
        "Jobs.purge: the run exceeded its timeout of 1m30s",
        "Make it faster, or give it more with @schedule(..., timeout='…').",
        {"action": "Jobs.purge", "timeout": 90_000},
    ),
    (
        RunAbortedError("Jobs.purge", lost=False),
        "aborted",
        "Jobs.purge: the run was aborted, because the application stopped",
        "Have it end once self.signal is aborted, or raise the shutdown_timeout.",
        {"action": "Jobs.purge", "lost": False},
    ),
    (
        RunAbortedError("Jobs.purge", lost=True),
        "aborted",
        "Jobs.purge: the run was left behind in its thread, because the application stopped",
        "Have it end once self.signal is aborted, or raise the shutdown_timeout.",
        {"action": "Jobs.purge", "lost": True},
    ),
    (
        JobExitError("Jobs.purge", SystemExit(3)),
        "exit",
        "Jobs.purge: the run raised SystemExit(3), which ends the application",
        "Call self.application.stop() to stop it; raise an Exception to fail the run.",
        {"action": "Jobs.purge"},
    ),
    (
        MissingMutexError("Jobs.purge", "locks"),
        "missing",
        "Jobs.purge: the application has no mutex 'locks', so the job does not run",
        "Add it: components={'locks': FileMutex('/var/lib/jobs/locks'), ...}.",
        {"action": "Jobs.purge", "mutex": "locks"},
    ),
    (
        MutexError("RedisMutex at cache:6379", "schedule:Jobs.purge", "timed out"),
        "mutex",
        "mutex: RedisMutex at cache:6379 does not answer for 'schedule:Jobs.purge': timed out",
        "See that it is reachable; the job runs again at its next time.",
        {"store": "RedisMutex at cache:6379", "key": "schedule:Jobs.purge"},
    ),
    (
        LeaseLostError("Jobs.purge", "schedule:Jobs.purge", 7, "revoked", 31.26),
        "revoked",
        "Jobs.purge: the run lost the lock 'schedule:Jobs.purge' (token 7) after 31.3 s: "
        "somebody else has it",
        "Have what it writes to refuse an older context.lease_token, or raise the lease.",
        {"job": "Jobs.purge", "key": "schedule:Jobs.purge", "token": 7, "held": 31.26},
    ),
    (
        LeaseLostError("Jobs.purge", "schedule:Jobs.purge", 7, "unreachable", 27.0),
        "unreachable",
        "Jobs.purge: the run lost the lock 'schedule:Jobs.purge' (token 7) after 27.0 s: "
        "the mutex does not answer",
        "Have what it writes to refuse an older context.lease_token, or raise the lease.",
        {},
    ),
    (
        MissingExtraError("redis", "redis"),
        "missing",
        "redis: it is not installed",
        "Install the extra: pip install 'weftjobs[redis]'.",
        {"library": "redis", "extra": "redis"},
    ),
    (
        InvalidActionGroupError("Jobs.purge", "nightly", ["reports", "upkeep"]),
        "invalid",
        "groups: Jobs.purge is in 'nightly', which is no group of its entrypoint",
        "Declare it in build_entrypoints(action_groups=...), or name one of: 'reports', 'upkeep'.",
        {"action": "Jobs.purge", "group": "nightly"},
    ),
    (
        MissingRuleError("Jobs.purge"),
        "invalid",
        "acl: Jobs.purge asks for access control, but there is no rule to ask",
        "Pass build_entrypoints(rules=[...]), or @schedule(..., rule=...).",
        {"action": "Jobs.purge"},
    ),
]


@pytest.mark.parametrize(
    ("error", "reason", "message", "fix", "facts"),
    ERRORS,
    ids=[f"{type(error).__name__}-{index}" for index, (error, *_) in enumerate(ERRORS)],
)
def test_whole_sentences(
    error: JobsError, reason: str, message: str, fix: str, facts: dict[str, Any]
) -> None:
    """Z3: each error says what is wrong and what to do, keeps its facts, and pickles."""
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert (one.reason, str(one), one.fix) == (reason, message, fix)
        assert {name: getattr(one, name) for name in facts} == facts


def test_errors_of_a_declaration_are_schedule_errors() -> None:
    """K2: what is wrong with a declared job is an `InvalidScheduleError`."""
    assert issubclass(InvalidActionError, InvalidScheduleError)
    assert issubclass(DuplicateActionNameError, InvalidScheduleError)
    assert issubclass(InvalidArgumentError, InvalidScheduleError)
