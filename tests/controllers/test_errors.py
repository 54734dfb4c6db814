"""The errors of the controllers, each by its whole sentence."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from weftjobs import InvalidScheduleError, JobsError
from weftjobs_controllers import (
    AlreadyRunningError,
    CannotRunHereError,
    ComponentNotStartedError,
    DuplicateActionNameError,
    InvalidActionError,
    InvalidArgumentError,
    NotRunningError,
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
        "Start it with the application: add 'db' to bootstrap.",
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
        CannotRunHereError("inside an event loop that runs already"),
        "invalid",
        "application: run() is called inside an event loop that runs already",
        "Call it from the main thread of the program; elsewhere, use `async with`.",
        {"where": "inside an event loop that runs already"},
    ),
]


@pytest.mark.parametrize(
    ("error", "reason", "message", "fix", "facts"),
    ERRORS,
    ids=[type(error).__name__ for error, *_ in ERRORS],
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
