"""The application: components that start in order, and jobs that run until it is stopped."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib.util import find_spec
from types import MappingProxyType, TracebackType
from typing import Any, Literal, Self, TypeGuard
from zoneinfo import ZoneInfo

import anyio
from anyio.lowlevel import current_token

from weftjobs import Cron
from weftjobs_controllers._stopping import StopRequest
from weftjobs_controllers.adapter import Session
from weftjobs_controllers.entrypoint import Entrypoint
from weftjobs_controllers.errors import (
    AlreadyRunningError,
    CannotRunHereError,
    ComponentNotStartedError,
    InvalidArgumentError,
    UnknownComponentError,
    check_text,
)

logger = logging.getLogger("weftjobs_controllers")

_SIGNALS = signal.SIGINT, signal.SIGTERM


class Application:
    """Components by name, started in order and left in reverse; jobs run in between.

        application = Application(
            id="jobs.app",
            name="Jobs",
            components={
                "db": Database("postgresql://…"),
                "entrypoint": build_entrypoints(
                    controllers=[JobController], schedule=schedule_entrypoint()
                ),
            },
            bootstrap=["db", "entrypoint"],
        )

        if __name__ == "__main__":
            application.run()

    A component is any object. One that is an async context manager is entered when it
    starts and left when the application stops. When one fails to start, those that have
    started are left and its error comes out as it is. The jobs start once all of `bootstrap`
    has started, and have ended before the first component is left.

    `async with application:` embeds it in an event loop that runs already. Leaving the block
    stops it; the runs in progress finish first, unless the block is cancelled.

    Args:
        id: What identifies the application to machines.
        name: What people call it.
        components: Its components by name.
        bootstrap: The names of the components that start, in this order.
        timezone: The zone of cron expressions that name none: an IANA name or a `ZoneInfo`.
            Default: that of the process.

    Raises:
        UnknownComponentError: `bootstrap` has a name that `components` lacks.
        UnknownTimeZoneError: This machine knows no such zone.
        InvalidArgumentError: Another argument is not what it should be.
    """

    id: str
    name: str
    components: Mapping[str, object]
    bootstrap: tuple[str, ...]
    timezone: ZoneInfo | None

    def __init__(
        self,
        *,
        id: str,
        name: str,
        components: Mapping[str, object],
        bootstrap: Iterable[str] = (),
        timezone: str | ZoneInfo | None = None,
    ) -> None:
        self.id = check_text("id", id)
        self.name = check_text("name", name)
        self.components = MappingProxyType(_checked_components(components))
        self.bootstrap = _checked_bootstrap(bootstrap, self.components)
        self.timezone = None if timezone is None else Cron("@daily", timezone).timezone
        self._request: StopRequest | None = None
        self._stack = AsyncExitStack()
        self._started: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Application {self.id!r}>"

    # While it runs

    @property
    def stopping(self) -> bool:
        """Whether it has been asked to stop: no run starts any more."""
        request = self._request
        return request is not None and request.made

    def component(self, name: str) -> Any:
        """Return a component that has started.

        For an async context manager this is what entering it gave, if that is anything; other
        objects need no start.

        Raises:
            UnknownComponentError: There is no component of that name.
            ComponentNotStartedError: It is not in `bootstrap`, or its turn has not come.
        """
        _check_name(name, self.components)
        component = self.components[name]
        if name not in self._started and _is_context_manager(component):
            raise ComponentNotStartedError(name)
        return self._started.get(name, component)

    def stop(self) -> None:
        """Ask the application to stop, from any thread. It does not wait for that.

        No run starts from now on. `run()` lets the runs in progress finish and returns; a
        block of `async with` ends when its code does. Without effect when it does not run.
        """
        request = self._request
        if request is not None:
            request.make()

    # Running

    def run(self, backend: Literal["asyncio", "trio"] = "asyncio") -> None:
        """Run until SIGINT (Ctrl-C), SIGTERM or `stop()`, and return when it has stopped.

        It stops gracefully: no new run starts, the runs in progress finish, the components
        are left. A signal during the start lets the start come to its end first. A second
        signal aborts at once: what is in progress is cancelled.

        Args:
            backend: The event loop that it runs on.

        Raises:
            SystemExit: It was aborted; the code is 128 plus the number of the signal.
            CannotRunHereError: It is called outside the main thread, where no signals arrive,
                or inside an event loop.
            InvalidArgumentError: There is no such backend here.
        """
        _check_backend(backend)
        _check_place()
        aborted_by = anyio.run(self._run, backend=backend)
        if aborted_by is not None:
            raise SystemExit(128 + aborted_by)

    async def _run(self) -> int | None:
        """Serve until stopped, and return the signal that aborted it."""
        failure: BaseException | None = None
        guard = _Guard(self)
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(guard.watch, signals, tasks.cancel_scope)
                try:
                    async with self:
                        assert self._request is not None
                        await self._request.wait()
                except anyio.get_cancelled_exc_class():
                    raise
                except BaseException as error:
                    # Raised in here it would come out inside an exception group.
                    failure = error
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return guard.aborted_by

    async def __aenter__(self) -> Self:
        if self._request is not None:
            raise AlreadyRunningError(f"application {self.id!r}")
        self._request = StopRequest()
        try:
            await self._start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self.stop()
        try:
            if isinstance(error, anyio.get_cancelled_exc_class()):
                return await self._stack.__aexit__(kind, error, traceback)
            # The components are left as at any other stop: the error is not theirs.
            return await self._stack.__aexit__(None, None, None)
        finally:
            self._started.clear()
            self._request = None

    async def _start(self) -> None:
        sessions: list[Session] = []
        for name in self.bootstrap:
            component = self.components[name]
            if isinstance(component, Entrypoint):
                session = self._stack.enter_context(component._booted(self))
                sessions += [session] if session is not None else []
            elif _is_context_manager(component):
                entered = await self._stack.enter_async_context(component)
                component = component if entered is None else entered
            self._started[name] = component
        self._warn_of_idle_jobs()
        if not self.stopping:
            await self._launch(sessions)

    async def _launch(self, sessions: list[Session]) -> None:
        for session in sessions:
            await self._stack.enter_async_context(session.running())
        self._stack.push_async_callback(_stop_all, sessions)

    def _warn_of_idle_jobs(self) -> None:
        for name, component in self.components.items():
            if isinstance(component, Entrypoint) and (methods := component._methods()):
                if name not in self.bootstrap:
                    why = "it is not in bootstrap"
                elif component.schedule is None:
                    why = "it has no schedule adapter; pass schedule=schedule_entrypoint()"
                else:
                    continue
                logger.warning(
                    "%s: of the component %r these methods never run, because %s: %s",
                    self.id,
                    name,
                    why,
                    ", ".join(methods),
                )


class _Guard:
    """Stops an application at the first signal and aborts it at the second.

    Attributes:
        aborted_by: The second signal.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.aborted_by: int | None = None

    async def watch(self, signals: AsyncIterator[int], scope: anyio.CancelScope) -> None:
        """Wait for the signals, and cancel a scope at the second."""
        received = signal.Signals(await anext(signals)).name
        logger.info("%s: stopping on %s, a second signal aborts", self._application.id, received)
        self._application.stop()
        self.aborted_by = await anext(signals)
        scope.cancel()


async def _stop_all(sessions: list[Session]) -> None:
    """Stop the jobs of all adapters, so that none starts while those of another finish."""
    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(session.scheduler.stop)


def _is_context_manager(component: object) -> TypeGuard[AbstractAsyncContextManager[object]]:
    return hasattr(type(component), "__aenter__")


def _checked_components(components: object) -> dict[str, object]:
    if isinstance(components, Mapping) and all(isinstance(name, str) for name in components):
        return dict(components)
    raise InvalidArgumentError(
        "components",
        components,
        "is not a mapping of names to components",
        fix="Write it as components={'entrypoint': build_entrypoints(...)}.",
    )


def _checked_bootstrap(bootstrap: object, components: Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(bootstrap, str) or not isinstance(bootstrap, Iterable):
        raise InvalidArgumentError(
            "bootstrap", bootstrap, "is not a list", fix="Write it as bootstrap=['entrypoint']."
        )
    names = tuple(bootstrap)
    for index, name in enumerate(names):
        _check_name(name, components)
        if name in names[:index]:
            raise InvalidArgumentError(
                "bootstrap", name, "is listed twice", fix="List each component once."
            )
    return names


def _check_name(name: object, components: Mapping[str, object]) -> None:
    if not isinstance(name, str) or name not in components:
        raise UnknownComponentError(name, components)


def _check_place() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise CannotRunHereError("outside the main thread, where signals do not arrive")
    try:
        current_token()
    except anyio.NoEventLoopError:
        return
    raise CannotRunHereError("inside an event loop that runs already")


def _check_backend(backend: object) -> None:
    if backend not in ("asyncio", "trio"):
        raise InvalidArgumentError(
            "backend", backend, "is not an event loop", fix="Pass 'asyncio' or 'trio'."
        )
    if backend == "trio" and find_spec("trio") is None:
        raise InvalidArgumentError(
            "backend", backend, "is not installed", fix="Install the extra: weftjobs[trio]."
        )
