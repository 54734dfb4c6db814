"""The errors of the controllers: each takes the facts, keeps them, and words itself."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from typing import Any, Self

from weftjobs import InvalidScheduleError, JobsError, format_duration

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: object) -> str:
    """Return a short `repr` of a value for a message, whatever the value is."""
    try:
        return _short.repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


class InvalidArgumentError(InvalidScheduleError):
    """An argument that is not what it should be.

    Attributes:
        argument: The name of the argument.
        value: What was given.
    """

    argument: str
    value: object

    def __init__(self, argument: str, value: object, wrong: str, *, fix: str) -> None:
        super().__init__(f"{argument}: {shown(value)} {wrong}", fix=fix)
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
            fix=f"Add {component!r} to bootstrap, or await application.get({component!r}) first.",
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
    """A call that blocks, where it must not: it has reason `invalid`.

    Attributes:
        call: What was called, such as `application: run()`.
        where: Where that was.
    """

    call: str
    where: str

    def __init__(self, call: str, where: str, *, fix: str) -> None:
        super().__init__(f"{call} is called {where}", reason="invalid", fix=fix)
        self.call = call
        self.where = where


class ComponentCycleError(JobsError):
    """Components that wait for one another while they start: it has reason `invalid`.

    Attributes:
        cycle: Their names; the last one is the first one again.
    """

    cycle: tuple[str, ...]

    def __init__(self, cycle: tuple[str, ...]) -> None:
        super().__init__(
            f"component: to start, {' waits for '.join(map(repr, cycle))}",
            reason="invalid",
            fix="Have one of them ask for the other later than in its __aenter__.",
        )
        self.cycle = cycle


class AccessDeniedError(JobsError):
    """A run that a rule of the access control refused: it has reason `denied`.

    Attributes:
        action: The name of the job.
        rule: The name of the rule.
    """

    action: str
    rule: str

    def __init__(self, action: str, rule: str, answer: object) -> None:
        super().__init__(
            f"{action}: the rule {rule} answered {shown(answer)}",
            reason="denied",
            fix="A rule allows a run by returning exactly True.",
        )
        self.action = action
        self.rule = rule


class RunTimeoutError(JobsError):
    """A run that exceeded its `timeout`: it has reason `timeout`.

    Attributes:
        action: The name of the job.
        timeout: The limit in milliseconds.
    """

    action: str
    timeout: int

    _told = False

    def __init__(self, action: str, timeout: int) -> None:
        super().__init__(
            f"{action}: the run exceeded its timeout of {format_duration(timeout)}",
            reason="timeout",
            fix="Make it faster, or give it more with @schedule(..., timeout='…').",
        )
        self.action = action
        self.timeout = timeout


class RunAbortedError(JobsError):
    """A run that did not end when the application stopped: it has reason `aborted`.

    Attributes:
        action: The name of the job.
        lost: Whether it goes on in a thread that nothing can end before the process does.
    """

    action: str
    lost: bool

    def __init__(self, action: str, *, lost: bool) -> None:
        how = "was left behind in its thread" if lost else "was aborted"
        super().__init__(
            f"{action}: the run {how}, because the application stopped",
            reason="aborted",
            fix="Have it end once self.signal is aborted, or raise the shutdown_timeout.",
        )
        self.action = action
        self.lost = lost


class JobExitError(JobsError):
    """A job that asked its program to exit, as `sys.exit()` does: it has reason `exit`.

    The application stops, and raises what the job raised.

    Attributes:
        action: The name of the job.
    """

    action: str

    def __init__(self, action: str, raised: BaseException) -> None:
        super().__init__(
            f"{action}: the run raised {shown(raised)}, which ends the application",
            reason="exit",
            fix="Call self.application.stop() to stop it; raise an Exception to fail the run.",
        )
        self.action = action


class MissingMutexError(JobsError):
    """An exclusive job whose mutex the application does not have: it has reason `missing`.

    Attributes:
        action: The name of the job.
        mutex: The name of the component.
    """

    action: str
    mutex: str

    def __init__(self, action: str, mutex: str) -> None:
        super().__init__(
            f"{action}: the application has no mutex {shown(mutex)}, so the job does not run",
            reason="missing",
            fix=f"Add it: components={{{mutex!r}: FileMutex('/var/lib/jobs/locks'), ...}}.",
        )
        self.action = action
        self.mutex = mutex


class MutexError(JobsError):
    """A mutex that cannot be reached, or does not answer in time: it has reason `mutex`.

    Attributes:
        store: Where the locks are.
        key: The lock that was asked for.
    """

    store: str
    key: str

    def __init__(self, store: str, key: str, cause: object) -> None:
        super().__init__(
            f"mutex: {store} does not answer for {shown(key)}: {cause}",
            reason="mutex",
            fix="See that it is reachable; the job runs again at its next time.",
        )
        self.store = store
        self.key = key


class LeaseLostError(JobsError):
    """An exclusive run that lost its lock.

    Attributes:
        job: The name of the job.
        key: The lock.
        token: The fencing token of its lease.
        reason: `revoked` when somebody else has the lock, `unreachable` when the mutex did
            not answer for most of the lease.
        held: How many seconds it had held the lock.
    """

    job: str
    key: str
    token: int
    held: float

    _told = False

    def __init__(self, job: str, key: str, token: int, reason: str, held: float) -> None:
        why = {
            "revoked": "somebody else has it",
            "unreachable": "the mutex does not answer",
        }[reason]
        super().__init__(
            f"{job}: the run lost the lock {shown(key)} (token {token}) after {held:.1f} s: {why}",
            reason=reason,
            fix="Have what it writes to refuse an older context.lease_token, or raise the lease.",
        )
        self.job = job
        self.key = key
        self.token = token
        self.held = held


class MissingExtraError(JobsError):
    """A library that is not installed: it has reason `missing`.

    Attributes:
        library: The library.
        extra: The extra that brings it along.
    """

    library: str
    extra: str

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"{library}: it is not installed",
            reason="missing",
            fix=f"Install the extra: pip install 'weftjobs[{extra}]'.",
        )
        self.library = library
        self.extra = extra


class InvalidActionGroupError(InvalidScheduleError):
    """A job in a group that its entrypoint does not declare.

    Attributes:
        action: The name of the job.
        group: The group.
    """

    action: str
    group: str

    def __init__(self, action: str, group: str, known: Iterable[str]) -> None:
        names = ", ".join(map(repr, known)) or "there are none"
        super().__init__(
            f"groups: {action} is in {shown(group)}, which is no group of its entrypoint",
            fix=f"Declare it in build_entrypoints(action_groups=...), or name one of: {names}.",
        )
        self.action = action
        self.group = group


class MissingRuleError(InvalidScheduleError):
    """A job with `acl=True` that no rule protects.

    Attributes:
        action: The name of the job.
    """

    action: str

    def __init__(self, action: str) -> None:
        super().__init__(
            f"acl: {action} asks for access control, but there is no rule to ask",
            fix="Pass build_entrypoints(rules=[...]), or @schedule(..., rule=...).",
        )
        self.action = action


def check_text(argument: str, text: object) -> str:
    """Return a text that an argument has to be.

    Raises:
        InvalidArgumentError: It is not text, or empty.
    """
    if isinstance(text, str) and text:
        return text
    wrong = "is empty" if text == "" else "is not text"
    raise InvalidArgumentError(argument, text, wrong, fix=f"Give {argument} as text.")


def check_flag(argument: str, flag: object) -> bool:
    """Return a truth value that an argument has to be.

    Raises:
        InvalidArgumentError: It is none.
    """
    if isinstance(flag, bool):
        return flag
    fix = f"Write {argument}=True, or leave it out."
    raise InvalidArgumentError(argument, flag, "is not True or False", fix=fix)


def check_callable(argument: str, function: object) -> Callable[..., Any]:
    """Return a function that an argument has to be.

    Raises:
        InvalidArgumentError: It cannot be called.
    """
    if callable(function):
        return function
    fix = f"Pass a function as {argument}, or leave it out."
    raise InvalidArgumentError(argument, function, "cannot be called", fix=fix)


def check_list(argument: str, values: object) -> tuple[Any, ...]:
    """Return the values of an argument that has to be a list or another iterable but text.

    Raises:
        InvalidArgumentError: It is not.
    """
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        return tuple(values)
    fix = f"Write it as {argument}=[...]."
    raise InvalidArgumentError(argument, values, "is not a list", fix=fix)
