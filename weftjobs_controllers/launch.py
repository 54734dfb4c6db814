"""One life of an application: its components start, its jobs run, and all of it ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from weftjobs_controllers._ending import Ending
from weftjobs_controllers._hosting import Components, is_context_manager
from weftjobs_controllers.entrypoint import Entrypoint
from weftjobs_controllers.session import Session

if TYPE_CHECKING:
    from weftjobs_controllers.application import Application

logger = logging.getLogger("weftjobs_controllers")


_LAST_WORDS = 5.0
"""How many seconds hooks and components have once the application is aborted."""


class Launch:
    """One life of an application, entered and left by one task.

    Attributes:
        ending: Whether it has been asked to stop, and how far it has come with that.
        components: Those that have started.
    """

    components: Components

    def __init__(self, application: Application) -> None:
        self._application = application
        self._sessions: list[Session] = []
        self._failure: BaseException | None = None
        self._closing_error: Exception | None = None
        self._ended = False
        self.ending = Ending()

    async def serve(self, launched: Callable[[], object]) -> None:
        """Run until it is asked to stop; asked during the start, it gives the start up."""
        if not await self.enter(give_up=True):
            return
        launched()
        interruption: BaseException | None = None
        try:
            await self.ending.heard()
        except BaseException as error:
            interruption = error
        if not await self.leave(interruption) and interruption is not None:
            raise interruption

    async def enter(self, *, give_up: bool = False) -> bool:
        """Start the components, then the jobs.

        Args:
            give_up: Whether the start is given up when the application is asked to stop.

        Returns:
            Whether it started: not when the start was given up.
        """
        self.ending.attach()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._body = anyio.CancelScope()
        self._body.__enter__()
        self._closed = anyio.Event()
        self._unhurried = anyio.CancelScope()
        self.components = Components(self._application.components, self._tasks, self.fail)
        try:
            if give_up:
                self._tasks.start_soon(self._give_up)
            await self._start()
        except BaseException as error:
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                self._failure = error
            if not await self.leave(error):
                raise
            return False
        return True

    async def leave(self, error: BaseException | None) -> bool:
        """End the runs, then leave the components.

        Args:
            error: What the code between entering and leaving raised.

        Returns:
            Whether that was a cancellation that the application itself had made.
        """
        traceback = None if error is None else error.__traceback__
        kind = None if error is None else type(error)
        is_cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        is_own = bool(self._body.__exit__(kind, error, traceback))
        self.ending.ask()
        self._tasks.start_soon(self._close, is_cancelled and not is_own)
        try:
            await self._closed.wait()
        except anyio.get_cancelled_exc_class():
            # Closing is a task of its own: whoever cancels this one, once or twice, hurries it.
            self._unhurried.cancel()
            raise
        finally:
            await self._tasks.__aexit__(None, None, None)
            for session in self._sessions:
                session.adapter._shut_down()
        if self._closing_error is not None:
            raise self._closing_error
        if self._failure is not None and self._failure is not error:
            raise self._failure
        return is_own

    def fail(self, error: BaseException) -> None:
        """End the application because of an error, which comes out of it."""
        if self._failure is None:
            self._failure = error
        else:
            logger.error("%s: failed once more while it ended", self._name, exc_info=error)
        self.ending.ask()
        self._body.cancel()

    @property
    def _name(self) -> str:
        return self._application.id

    # Starting

    async def _give_up(self) -> None:
        await self.ending.heard()
        self._body.cancel()

    async def _start(self) -> None:
        application = self._application
        for name in application.bootstrap:
            component = application.components[name]
            if isinstance(component, Entrypoint):
                session = component._boot(application)
                self._sessions += [] if session is None else [session]
            elif is_context_manager(component):
                await self.components.start(name)
        self._warn_of_idle_jobs()
        await self._tell(application._on_launched)
        self._tasks.start_soon(self._stop_sessions)
        for session in self._sessions:
            launched = anyio.Event()
            self._tasks.start_soon(self._keep, session, launched)
            await launched.wait()

    async def _keep(self, session: Session, launched: anyio.Event) -> None:
        try:
            await session.serve(launched)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self.fail(error)
        finally:
            launched.set()

    def _warn_of_idle_jobs(self) -> None:
        for name, component in self._application.components.items():
            if not isinstance(component, Entrypoint):
                continue
            why = component._why_idle(name in self._application.bootstrap)
            methods = component._methods()
            if why is not None and methods:
                logger.warning(
                    "%s: of the component %r these methods never run, because %s: %s",
                    self._name,
                    name,
                    why,
                    ", ".join(methods),
                )

    # Ending

    async def _stop_sessions(self) -> None:
        """Stop the jobs of all adapters, so that none starts while those of another finish."""
        with anyio.CancelScope(shield=True):
            await self.ending.heard()
            async with anyio.create_task_group() as stops:
                for session in self._sessions:
                    stops.start_soon(session.stop)

    async def _close(self, at_once: bool) -> None:
        """End the runs and leave the components, in a task that nobody else cancels."""
        try:
            with anyio.CancelScope(shield=True):
                with self._unhurried:
                    if at_once:
                        self._unhurried.cancel()
                    await anyio.lowlevel.checkpoint()
                    for session in self._launched_sessions():
                        await session.wait()
                    await self._close_components(cancel=False)
                if self._unhurried.cancelled_caught:
                    await self._abort()
        except Exception as error:
            self._closing_error = error
        finally:
            self.ending.complete()
            self._closed.set()

    def _launched_sessions(self) -> list[Session]:
        return [session for session in self._sessions if session.served]

    async def _abort(self) -> None:
        async with anyio.create_task_group() as aborts:
            for session in self._launched_sessions():
                aborts.start_soon(session.abort)
        with anyio.move_on_after(_LAST_WORDS, shield=True):
            await self._close_components(cancel=True)

    async def _close_components(self, *, cancel: bool) -> None:
        self.ending.runs_over.set()
        application = self._application
        told = self._failure
        if told is not None and not self._ended:
            self._ended = True
            await self._tell_fatal(told)
        try:
            await self.components.leave(cancel=cancel)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self.fail(error)
        if self._failure is None:
            await self._tell_end(application._on_done)
        elif self._failure is not told:
            await self._tell_fatal(self._failure)

    async def _tell_end(self, hook: Callable[..., object] | None) -> None:
        """Tell a hook, once, also when the application is hurried meanwhile."""
        if not self._ended:
            self._ended = True
            await self._tell(hook)

    async def _tell_fatal(self, failure: BaseException) -> None:
        try:
            await self._tell(self._application._on_fatal, failure)
        except Exception:
            logger.exception("%s: on_fatal raised", self._name)

    async def _tell(self, hook: Callable[..., object] | None, *facts: Any) -> None:
        if hook is None:
            return
        result = hook(self._application, *facts)
        if inspect.isawaitable(result):
            await result
