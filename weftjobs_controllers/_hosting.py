"""Components, each entered and left in a task of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeGuard

import anyio
from anyio.abc import TaskGroup

from weftjobs_controllers.errors import ComponentCycleError, NotRunningError

Fail = Callable[[BaseException], None]


class Components:
    """The components of an application that have started, or are about to.

    Each is entered and left in a task of its own, so that it may be started from anywhere,
    a run included, whatever it keeps open meanwhile. They are shielded: an application that
    is cancelled leaves them one after another all the same.

    Args:
        components: The components by name.
        tasks: Where the tasks run.
        fail: Told what a component raised after it had started and before it was left.
    """

    def __init__(self, components: Mapping[str, object], tasks: TaskGroup, fail: Fail) -> None:
        self._components = components
        self._tasks = tasks
        self._fail = fail
        self._hosts: dict[str, Host] = {}
        self._started: list[Host] = []
        self._waits: dict[str, set[str]] = {}
        self._leaving = False
        self._errors: list[BaseException] = []

    def started(self, name: str) -> Host | None:
        """Return the host of a component that has started."""
        host = self._hosts.get(name)
        return host if host in self._started and not host.gone else None

    async def start(self, name: str) -> Any:
        """Start a component unless it has started, and return what it gave.

        Raises:
            ComponentCycleError: It waits to be started for the component that asks for it.
            NotRunningError: The components are being left.
        """
        host = self._hosts.get(name)
        if host is None:
            if self._leaving:
                raise NotRunningError(f"component {name!r}")
            host = self._hosts[name] = Host(name, self._components[name])
            self._tasks.start_soon(self._keep, host)
        if not host.ready.is_set():
            with self._noting_who_waits(name):
                await host.ready.wait()
        if host.error is not None:
            raise host.error
        if host.gone:
            raise NotRunningError(f"component {name!r}")
        return host.value

    async def leave(self, *, cancel: bool) -> None:
        """Leave all, the latest first; what they raise comes out once the last is left.

        Args:
            cancel: Whether their exits are cancelled, as when a block is left that is.
        """
        self._leaving = True
        starting = [host for host in self._hosts.values() if host not in self._started]
        for host in starting + self._started[::-1]:
            error = await host.end(cancel=cancel or host in starting)
            self._errors += [] if error is None else [error]
        errors, self._errors = self._errors, []
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise BaseExceptionGroup("several components raised when they were left", errors)

    async def _keep(self, host: Host) -> None:
        _starting.set((self, host))
        await host.keep(self._started)
        if self._leaving:
            return
        if host in self._started:
            ended = RuntimeError(f"the component {host.name!r} has ended by itself")
            self._fail(ended if host.error is None else host.error)
        else:
            # Whoever asks again tries again.
            del self._hosts[host.name]

    @contextmanager
    def _noting_who_waits(self, name: str) -> Iterator[None]:
        of, asker = _starting.get() or (None, None)
        if of is not self or asker is None or asker.ready.is_set():
            yield
            return
        asking = asker.name
        cycle = self._path(name, asking)
        if cycle:
            raise ComponentCycleError((asking, *cycle))
        waits = self._waits.setdefault(asking, set())
        waits.add(name)
        try:
            yield
        finally:
            waits.discard(name)

    def _path(self, name: str, asking: str) -> tuple[str, ...]:
        """Return how a component that is asked for waits for the one that asks, if it does."""
        if name == asking:
            return (name,)
        for awaited in self._waits.get(name, ()):
            path = self._path(awaited, asking)
            if path:
                return (name, *path)
        return ()


class Host:
    """One component on its way from being entered to having been left.

    Attributes:
        ready: Whether it has started, or failed to.
        value: What entering it gave, or the component itself when that is nothing.
        error: What it raised.
        gone: Whether it has been left.
    """

    def __init__(self, name: str, component: Any) -> None:
        self.name = name
        self._component: AbstractAsyncContextManager[Any] = component
        self._scope = anyio.CancelScope(shield=True)
        self._leave = anyio.Event()
        self._end = anyio.Event()
        self.ready = anyio.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def gone(self) -> bool:
        return self._end.is_set()

    async def keep(self, started: list[Host]) -> None:
        """Enter the component, wait until it is to be left, and leave it."""
        try:
            with self._scope:
                async with self._component as value:
                    self.value = self._component if value is None else value
                    started.append(self)
                    self.ready.set()
                    await self._leave.wait()
        except anyio.get_cancelled_exc_class() as error:
            # The scope keeps what is meant for this task.
            self.error = RuntimeError(f"{self.name}: it awaited something that was cancelled")
            self.error.__cause__ = error
        except BaseException as error:
            self.error = error
        finally:
            self._end.set()
            self.ready.set()

    async def end(self, *, cancel: bool) -> BaseException | None:
        """Have the component left, and return what that raised."""
        crashed = self.gone
        self._leave.set()
        if cancel:
            self._scope.cancel()
        await self._end.wait()
        return None if crashed else self.error


_starting: ContextVar[tuple[Components, Host] | None] = ContextVar(
    "weftjobs_starting", default=None
)
"""The component that the code starts, or has started."""


def is_context_manager(component: object) -> TypeGuard[AbstractAsyncContextManager[Any]]:
    """Return whether a component is one that is entered and left."""
    return hasattr(type(component), "__aenter__")
