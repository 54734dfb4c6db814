"""The errors of the controllers: each takes the facts, keeps them, and words itself."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Self

from weftjobs import InvalidScheduleError, JobsError

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: object) -> str:
    """Return a short `repr` of a value for a message, whatever the value is."""
    try:
        return _short.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


class InvalidArgumentError(JobsError):
    """An argument that is not what it should be: it has reason `invalid`.

    Attributes:
        argument: The name of the argument.
        value: What was given.
    """

    argument: str
    value: object

    def __init__(self, argument: str, value: object, wrong: str, *, fix: str) -> None:
        super().__init__(f"{argument}: {shown(value)} {wrong}", reason="invalid", fix=fix)
        self.argument = argument
        self.value = value


class InvalidActionError(InvalidScheduleError):
    """Something that `@schedule` cannot run.

    Attributes:
        method: What was decorated, such as `JobController.purge`.
    """

    method: str

    def __init__(self, method: str, wrong: str, *, fix: str) -> None:
        super().__init__(f"{method}: {wrong}", fix=fix)
        self.method = method

    @classmethod
    def not_a_method(cls, method: str, found: object) -> Self:
        """Return the error for a job that is a class method, a property or the like."""
        return cls(
            method,
            f"it is a {type(found).__name__}, but a job is a method of an instance",
            fix="Make it a plain method: each run has a new instance of the controller.",
        )


class DuplicateActionNameError(InvalidScheduleError):
    """Two jobs with one name.

    Attributes:
        name: The name.
        places: The methods that have it, such as `app.jobs.JobController.purge`.
    """

    name: str
    places: tuple[str, str]

    def __init__(self, name: str, places: tuple[str, str]) -> None:
        super().__init__(
            f"name: {shown(name)} names both {places[0]} and {places[1]}",
            fix="Give each its own with @schedule(..., name='…'), and list a controller once.",
        )
        self.name = name
        self.places = places


class UnknownActionError(InvalidScheduleError):
    """A row of the adapter's array that belongs to no job.

    Attributes:
        action: What the row's field `action` holds.
    """

    action: object

    def __init__(self, action: object) -> None:
        super().__init__(
            f"action: {shown(action)} is the name of no job of this entrypoint",
            fix="Put the name of one of entrypoint.actions into the row's action.",
        )
        self.action = action


class UnknownComponentError(JobsError):
    """A component that the application does not have: it has reason `missing`.

    Attributes:
        component: The name that was asked for.
        known: The names that there are.
    """

    component: object
    known: tuple[str, ...]

    def __init__(self, component: object, known: Iterable[str]) -> None:
        self.component = component
        self.known = tuple(known)
        names = ", ".join(map(repr, self.known)) or "there are none"
        super().__init__(
            f"component: {shown(component)} is not a component of the application",
            reason="missing",
            fix=f"Add it to components, or name one of them: {names}.",
        )


class ComponentNotStartedError(JobsError):
    """A component that was asked for and has not started: it has reason `missing`.

    Attributes:
        component: The name of the component.
    """

    component: str

    def __init__(self, component: str) -> None:
        super().__init__(
            f"component: {shown(component)} has not started",
            reason="missing",
            fix=f"Start it with the application: add {component!r} to bootstrap.",
        )
        self.component = component


class AlreadyRunningError(JobsError):
    """Something that runs and was started again: it has reason `invalid`.

    Attributes:
        what: What runs, such as `application 'jobs.app'`.
    """

    what: str

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: it is running already",
            reason="invalid",
            fix="Make another one, or start it again when it has stopped.",
        )
        self.what = what


class NotRunningError(JobsError):
    """Something that is there only while the application runs: it has reason `missing`.

    Attributes:
        what: What was asked for, such as `schedule.scheduler`.
    """

    what: str

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: it is there only while the application runs",
            reason="missing",
            fix="Ask for it inside `async with application`, or in a job.",
        )
        self.what = what


class CannotRunHereError(JobsError):
    """`Application.run` where it cannot run: it has reason `invalid`.

    Attributes:
        where: Where it was called.
    """

    where: str

    def __init__(self, where: str) -> None:
        super().__init__(
            f"application: run() is called {where}",
            reason="invalid",
            fix="Call it from the main thread of the program; elsewhere, use `async with`.",
        )
        self.where = where


def check_text(argument: str, text: object) -> str:
    """Return a text that an argument has to be.

    Raises:
        InvalidArgumentError: It is not text, or empty.
    """
    if isinstance(text, str) and text:
        return text
    wrong = "is empty" if text == "" else "is not text"
    raise InvalidArgumentError(argument, text, wrong, fix=f"Give {argument} as text.")
