"""The application: components that start in order, and jobs that run until it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType, TracebackType
from typing import Any, Self
from zoneinfo import ZoneInfo

from weftjobs import Cron
from weftjobs_controllers._ending import Ending
from weftjobs_controllers._hosting import is_context_manager
from weftjobs_controllers._signals import Heeding, wait_for
from weftjobs_controllers._threads import Backend, LoopThread
from weftjobs_controllers.actions import PlannedAction
from weftjobs_controllers.entrypoint import Entrypoint
from weftjobs_controllers.errors import (
    AlreadyRunningError,
    CannotRunHereError,
    ComponentNotStartedError,
    InvalidArgumentError,
    NotRunningError,
    UnknownComponentError,
    check_callable,
    check_list,
    check_text,
)
from weftjobs_controllers.launch import Launch
from weftjobs_controllers.signals import on_event_loop

logger = logging.getLogger("weftjobs_controllers")

_MARGIN = 2.0
"""How many seconds past the shutdown timeout a blocked event loop is waited for."""

_ABORT_SECONDS = 0.9
"""How many seconds an abort may take before the event loop is left behind."""

_LAST_SECONDS = 0.9
"""How many seconds the event loop has to end once there is nothing left to do on it."""


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
    starts and left when the application stops, each in a task of its own. When one of
    `bootstrap` fails to start, those that have started are left and its error comes out as it
    is. The others start when they are first asked for, with `await application.get(name)`.
    The jobs start once all of `bootstrap` has started, and have ended before the first
    component is left.

    `run()` runs it as a program, `async with application:` in an event loop that runs
    already, `lifespan` with a web application, `in_thread()` beside a synchronous program.
    Leaving stops it: the runs in progress have the `shutdown_timeout` of their entrypoint to
    end, unless the block is cancelled, which aborts them. A component that raises while it
    runs cancels the block, and its error comes out.

    Args:
        id: What identifies the application to machines.
        name: What people call it.
        components: Its components by name.
        bootstrap: The names of the components that start, in this order.
        timezone: The zone of cron expressions that name none: an IANA name or a `ZoneInfo`.
            Default: that of the process.
        on_launched: Called as `on_launched(application)` once all of `bootstrap` has started,
            before the first job. May be `async`, as may be all three.
        on_done: Called as `on_done(application)` when it has stopped, its components left.
        on_fatal: Called as `on_fatal(application, error)` instead, before the components are
            left, when it ends by an error: a component failed, or a job called `sys.exit()`.

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
        on_launched: Callable[[Application], object] | None = None,
        on_done: Callable[[Application], object] | None = None,
        on_fatal: Callable[[Application, BaseException], object] | None = None,
    ) -> None:
        self.id = check_text("id", id)
        self.name = check_text("name", name)
        self.components = MappingProxyType(_checked_components(components))
        self.bootstrap = _checked_bootstrap(bootstrap, self.components)
        self.timezone = None if timezone is None else Cron("@daily", timezone).timezone
        hooks = {"on_launched": on_launched, "on_done": on_done, "on_fatal": on_fatal}
        for argument, hook in hooks.items():
            if hook is not None:
                check_callable(argument, hook)
        self._on_launched = on_launched
        self._on_done = on_done
        self._on_fatal = on_fatal
        self._launch: Launch | None = None

    def __repr__(self) -> str:
        return f"<Application {self.id!r}>"

    # While it runs

    @property
    def stopping(self) -> bool:
        """Whether it has been asked to stop: no run starts any more."""
        launch = self._launch
        return launch is not None and launch.ending.asked.is_set()

    def component(self, name: str) -> Any:
        """Return a component that has started.

        For an async context manager this is what entering it gave, if that is anything; other
        objects need no start.

        Raises:
            UnknownComponentError: There is no component of that name.
            ComponentNotStartedError: It has not started: it is not in `bootstrap`, or its turn
                has not come, and nobody has asked for it with `get`.
        """
        component = self._find(name)
        if not is_context_manager(component):
            return component
        launch = self._launch
        started = launch.components.started(name) if launch is not None else None
        if started is None:
            raise ComponentNotStartedError(name)
        return started.value

    async def get(self, name: str) -> Any:
        """Return a component, having started it when it has not started.

        So a component that is seldom needed may stay out of `bootstrap`. It is left when the
        application stops. One that fails to start raises here, and may be asked for again.

        Raises:
            UnknownComponentError: There is no component of that name.
            NotRunningError: It would have to be started, and the application does not run.
            ComponentCycleError: It waits, while it starts, for the component that asks for it.
        """
        component = self._find(name)
        if not is_context_manager(component):
            return component
        if self._launch is None:
            raise NotRunningError(f"component {name!r}")
        return await self._launch.components.start(name)

    def _find(self, name: str) -> object:
        _check_name(name, self.components)
        return self.components[name]

    def plan(self) -> list[PlannedAction]:
        """Return the jobs as the code declares them, having checked them as the start does.

        Nothing is started: it is what `weftjobs check` and `weftjobs simulate` look at.

        Raises:
            InvalidScheduleError: The jobs cannot be run together, or the zone of the process
                cannot be found out.
        """
        return [
            action
            for name, component in self.components.items()
            if isinstance(component, Entrypoint)
            for action in component._plan(self, component._why_idle(name in self.bootstrap))
        ]

    def stop(self) -> None:
        """Ask the application to stop, from any thread. It does not wait for that.

        No run starts from now on, and the runs in progress have the `shutdown_timeout` of
        their entrypoint to end. `run()` then returns; a block of `async with` ends when its
        code does. Without effect when it does not run.
        """
        launch = self._launch
        if launch is not None:
            launch.ending.ask()

    # Running

    def run(self, backend: Backend = "asyncio") -> None:
        """Run until SIGINT (Ctrl-C), SIGTERM or `stop()`, and return when it has stopped.

        It stops gracefully: no new run starts, the runs in progress have the
        `shutdown_timeout` of their entrypoint to end and are then aborted, the components are
        left. A signal during the start gives the start up. A second signal aborts at once.

        The event loop runs in a thread of its own, so that signals are heeded, and the
        process ends in time, even when a run blocks the loop or a thread never returns. What
        needs the loop in the main thread, such as a component that receives signals itself,
        needs `async with application:` in a program of its own.

        Args:
            backend: The event loop that it runs on.

        Raises:
            SystemExit: It was aborted by a second signal, whose number plus 128 is the code;
                or a run called `sys.exit()`.
            CannotRunHereError: It is called outside the main thread, where no signals arrive,
                or inside an event loop.
            AlreadyRunningError: It runs already.
            InvalidArgumentError: There is no such backend here.
        """
        _check_backend(backend)
        _check_place()
        with self._launched() as launch:
            thread = LoopThread(partial(launch.serve, _nothing), backend, launch.ending.complete)
            with Heeding(partial(self._heed, thread)) as heeding:
                thread.start()
                self._wait_for_end(thread, launch.ending, heeding.wait)
        if thread.error is not None:
            raise thread.error

    def _heed(self, thread: LoopThread, number: signal.Signals, count: int) -> None:
        """Stop at the first signal; abort at the second."""
        if count == 1:
            logger.info("%s: stopping on %s, a second signal aborts", self.id, number.name)
            self.stop()
            return
        thread.cancel()
        thread.ended.wait(_ABORT_SECONDS)
        raise SystemExit(128 + number)

    @contextmanager
    def in_thread(self, backend: Backend = "asyncio") -> Iterator[Self]:
        """Run on an event loop of its own in a background thread, beside a synchronous program.

            with application.in_thread():
                flask_app.run()

        Entering returns once it has launched; leaving stops it as `run` does. An error that
        ends it meanwhile is told to `on_fatal`, and comes out when the block is left.

        Args:
            backend: The event loop that it runs on.

        Raises:
            AlreadyRunningError: It runs already.
            InvalidArgumentError: There is no such backend here.
        """
        _check_backend(backend)
        launched = threading.Event()
        process = os.getpid()
        with self._launched() as launch:

            def ended() -> None:
                launch.ending.complete()
                launched.set()

            thread = LoopThread(partial(launch.serve, launched.set), backend, ended)
            thread.start()
            try:
                wait_for(launched)
                if thread.error is None:
                    yield self
            except BaseException:
                # What comes out is the block's; what may have led to it is told.
                self._end_thread(thread, launch, process)
                if thread.error is not None:
                    logger.error("%s: it has failed", self.id, exc_info=thread.error)
                raise
            self._end_thread(thread, launch, process)
        if thread.error is not None:
            raise thread.error

    def _end_thread(self, thread: LoopThread, launch: Launch, process: int) -> None:
        # In a process that was forked meanwhile there is no such thread.
        if os.getpid() == process:
            self.stop()
            self._wait_for_end(thread, launch.ending, wait_for)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run for as long as a web application does: an ASGI lifespan function.

            app = FastAPI(lifespan=application.lifespan)

        Args:
            app: The web application, which is not looked at.
        """
        async with self:
            yield

    async def __aenter__(self) -> Self:
        launch = self._new_launch()
        try:
            await launch.enter()
        except BaseException:
            self._launch = None
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        assert self._launch is not None, "it is left by who has entered it"
        try:
            return await self._launch.leave(error)
        finally:
            self._launch = None

    @contextmanager
    def _launched(self) -> Iterator[Launch]:
        launch = self._new_launch()
        try:
            yield launch
        finally:
            self._launch = None

    def _new_launch(self) -> Launch:
        if self._launch is not None:
            raise AlreadyRunningError(f"application {self.id!r}")
        self._launch = Launch(self)
        return self._launch

    def _fail(self, error: BaseException) -> None:
        if self._launch is not None:
            self._launch.fail(error)

    def _wait_for_end(self, thread: LoopThread, ending: Ending, wait: Callable[..., bool]) -> None:
        """Wait until it has ended, unless its event loop does not get to that in time."""
        wait(ending.asked)
        entrypoints = [c for c in self.components.values() if isinstance(c, Entrypoint)]
        longest = max((each._longest_end() for each in entrypoints), default=0.0)
        if not wait(ending.runs_over, longest + _MARGIN):
            logger.critical("%s: its event loop is blocked, and is left behind", self.id)
            return
        wait(ending.left)
        if not thread.ended.wait(_LAST_SECONDS):
            logger.warning("%s: its event loop does not end, and is left behind", self.id)


def _nothing() -> None:
    """Do nothing."""


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
    names = check_list("bootstrap", bootstrap)
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
    fix = "Call it from the main thread of the program; elsewhere, use `async with`."
    if threading.current_thread() is not threading.main_thread():
        where = "outside the main thread, where signals do not arrive"
    elif on_event_loop():
        where = "inside an event loop that runs already"
    else:
        return
    raise CannotRunHereError("application: run()", where, fix=fix)


def _check_backend(backend: object) -> None:
    if backend not in ("asyncio", "trio"):
        raise InvalidArgumentError(
            "backend", backend, "is not an event loop", fix="Pass 'asyncio' or 'trio'."
        )
    if backend == "trio" and find_spec("trio") is None:
        raise InvalidArgumentError(
            "backend", backend, "is not installed", fix="Install the extra: weftjobs[trio]."
        )
