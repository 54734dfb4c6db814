"""Runs: call what is due, write `last`, tell how it ended, and know what is in progress."""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from weftjobs._loop import cancelled_from_outside
from weftjobs.clock import Clock, Turn, hold, wait
from weftjobs.errors import cut, shown
from weftjobs.rows import MISSING, ObservableArray, Row, swap

_STANDBY = 8
"""How many idle tasks stand by for what is due next."""

_THREADS = 40
"""How many plain functions run at once, each in a worker thread."""


class RunContext:
    """What a run is told, and what it may ask for.

    Attributes:
        due: The slot that the run was scheduled for, in ms since the epoch. It lies before
            now when the run is late: a one-off added with an `at` already past, or a slot
            that the process slept through.
        by_hand: Whether `run_now` asked for it, so that `due` is no slot of the row.
    """

    __slots__ = (
        "_error",
        "_previous",
        "_record",
        "_released",
        "_row",
        "_run",
        "_runs",
        "_skipped",
        "by_hand",
        "due",
    )

    def __init__(self, runs: Runs, row: Row, due: int, by_hand: bool) -> None:
        self.due = due
        self.by_hand = by_hand
        self._runs = runs
        self._row = row
        self._released = False
        self._skipped = False
        self._error: Exception | None = None
        self._previous: Any = MISSING
        self._record: dict[str, Any] | None = None
        self._run: int | None = None

    def __repr__(self) -> str:
        return f"<RunContext due={self.due} of {self._row!r}>"

    def release(self) -> None:
        """Let the row fire again although this run goes on; from any thread.

        From then on `last` belongs to the most recent run of the row.
        """
        self._runs.release(self)

    def skip(self) -> None:
        """Have this run count as none: once it returns, `last` is put back as it was."""
        self._skipped = True


Run = Callable[[Row, RunContext], object]
Handler = Callable[[Row, Any], object]


class Runs:
    """The runs in progress and the standing tasks that make them.

    A standing task takes what is ready, one after another. A run that waits occupies its
    task; so before a task begins something, it sees to it that another one stands by. A
    task whose run changed a context variable ends, so that each run starts with the context
    in which the scheduler was entered.

    What is ready and which rows are busy may be changed from any thread with the array's
    lock held; the tasks live on the event loop.
    """

    def __init__(
        self,
        jobs: ObservableArray,
        run: Run,
        clock: Clock,
        failed: Handler | None,
        freed: Callable[[Row], object],
    ) -> None:
        self._jobs = jobs
        self._run = run
        self._is_async = _is_async(run)
        self._clock = clock
        self._failed = failed
        self._freed = freed
        self._writing: tuple[Row, object] | None = None
        self._busy: dict[Row, list[RunContext]] = {}
        self._ready: deque[Callable[[], Awaitable[None]]] = deque()
        self._flying: set[object] = set()
        self._stopping: set[object] = set()
        self._waiting: list[anyio.Event] = []
        self._idle: list[anyio.Event] = []
        self._free = 0
        self._closed = False

    def open(self, tasks: TaskGroup) -> None:
        """Begin to take what is ready, in tasks of this group."""
        self._tasks = tasks
        self._context = copy_context()
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._unlimited = anyio.CapacityLimiter(math.inf)

    # From any thread, with the array's lock held

    def busy(self, row: Row) -> bool:
        """Return whether the row may not fire, because a run of it has not released it."""
        return any(not context._released for context in self._busy.get(row, ()))

    def count(self, row: Row) -> int:
        """Return how many runs of the row are in progress."""
        return len(self._busy.get(row, ()))

    def begin(self, row: Row, due: int, *, by_hand: bool = False) -> None:
        """Have the row run as soon as a task is free."""
        context = RunContext(self, row, due, by_hand)
        self._busy.setdefault(row, []).append(context)
        self._flying.add(context)
        self._ready.append(partial(self._make, context))

    def tell(self, handler: Handler, row: Row, fact: object) -> None:
        """Have a handler told something as soon as a task is free."""
        token = object()
        self._flying.add(token)
        self._ready.append(partial(self._tell, token, handler, row, fact))

    def release(self, context: RunContext) -> None:
        """Let the context's row fire again although its run goes on."""
        with self._jobs._lock:
            if not context._released and context in self._flying:
                context._released = True
                self._freed(context._row)

    def writes(self, row: Row, value: object) -> bool:
        """Return whether this change of `last` is being made here."""
        writing = self._writing
        return writing is not None and writing[0] is row and writing[1] is value

    def close(self) -> None:
        """Drop the runs that have not begun, and take no more of them."""
        with self._jobs._lock:
            self._closed = True

    # On the event loop

    def kick(self) -> None:
        """See to it that a task takes what is ready."""
        if self._free or not self._ready:
            return
        self._free += 1
        if self._idle:
            self._idle.pop().set()
        else:
            self._context.copy().run(self._tasks.start_soon, self._work)

    def dismiss(self) -> None:
        """Have the tasks end as soon as nothing is ready."""
        for event in self._idle:
            event.set()
        self._free += len(self._idle)
        self._idle.clear()

    async def settle(self) -> None:
        """Wait until the runs in progress, and what is told of them, have ended.

        Called from inside a run it waits for the others, and not for those that wait here
        themselves.
        """
        me = _current.get()
        inside = me in self._flying
        if inside:
            self._stopping.add(me)
            self._wake_waiting()
        while len(self._flying) > (len(self._stopping) if inside else 0):
            event = anyio.Event()
            self._waiting.append(event)
            await wait(self._clock, event)

    async def _work(self) -> None:
        turn = Turn(self._clock)
        clean = copy_context()
        while await self._next_ready(turn):
            task = self._ready.popleft()
            self._free -= 1
            self.kick()
            await task()
            del task
            if not _same_context(clean):
                self.kick()
                return
            self._free += 1
            if turn.over():
                await turn.yield_to_others()
        self._free -= 1

    async def _next_ready(self, turn: Turn) -> bool:
        """Wait until something is ready; answer no when this task is not needed."""
        while not self._ready:
            if self._closed or len(self._idle) >= _STANDBY:
                return False
            event = anyio.Event()
            self._idle.append(event)
            self._free -= 1
            await event.wait()
            turn.begin()
        return True

    async def _make(self, context: RunContext) -> None:
        token = _current.set(context)
        try:
            if await self._start(context):
                error = await self._call(context)
                self._end(context, error)
                if error is not None:
                    await self.tell_failed(context._row, error)
                    del error
            else:
                self._free_row(context)
        finally:
            _current.reset(token)
            self._land(context)

    async def _start(self, context: RunContext) -> bool:
        """Write that the run is running; answer no when it may not begin any more."""
        row = context._row
        with self._jobs._lock:
            if self._closed or row._array is not self._jobs:
                return False
            context._previous = row._fields.get("last", MISSING)
            context._record = {"started": self._clock.now(), "status": "running"}
            recorder = self._jobs._recorder
            if recorder is not None:
                recorder.begin(context.due)
            error = self._write(row, context._previous, context._record)
            written = row._fields.get("last") is context._record
            if recorder is not None:
                context._run = recorder.begun()
        if error is not None:
            await self.tell_failed(row, error)
        return written

    async def _call(self, context: RunContext) -> BaseException | None:
        """Call `run` and return what it raised."""
        try:
            if self._is_async:
                await self._run(context._row, context)  # type: ignore[misc]
                return None
            async with self._threads:
                with hold(self._clock):
                    (result,) = await anyio.to_thread.run_sync(
                        _caught, self._run, context._row, context, limiter=self._unlimited
                    )
            if inspect.isawaitable(result):
                await result
            error, context._error = context._error, None
            return error
        except Exception as error:
            return error
        except BaseException as error:
            if self._is_foreign(error):
                return error
            self._end(context, error)
            raise

    def _end(self, context: RunContext, error: BaseException | None) -> None:
        """Write how the run ended, unless `last` is no longer this run's, and free the row."""
        started = context._record["started"] if context._record else 0
        record: Any = {
            "started": started,
            "ended": max(started, self._clock.now()),
            "status": "ok" if error is None else "failed",
        }
        if error is not None:
            record["error"] = _describe(error)
        elif context._skipped:
            record = context._previous
        with self._jobs._lock:
            for other in self._busy[context._row]:
                if other._previous is context._record:
                    # What it puts back when it counts as none is how this run ended.
                    other._previous = record
            skipped = error is None and context._skipped
            failure = self._note_end(context, None if skipped else record)
            failure = self._write(context._row, context._record, record) or failure
            if failure is not None:
                self.tell(self.tell_failed, context._row, failure)
            self._free_row(context)

    def _note_end(self, context: RunContext, record: dict[str, Any] | None) -> Exception | None:
        recorder, run = self._jobs._recorder, context._run
        if recorder is None or run is None:
            return None
        try:
            recorder.end(run, record)
        except Exception as error:
            return error
        return None

    def _write(self, row: Row, old: object, new: object) -> Exception | None:
        """Replace the row's `last` and return what an observer raised at it."""
        self._writing = (row, new)
        try:
            swap(self._jobs, row, "last", old, new)
        except Exception as error:
            return error
        finally:
            self._writing = None
        return None

    def _free_row(self, context: RunContext) -> None:
        with self._jobs._lock:
            contexts = self._busy[context._row]
            contexts.remove(context)
            if not contexts:
                del self._busy[context._row]
            if not context._released:
                self._freed(context._row)

    def _land(self, token: object) -> None:
        self._flying.discard(token)
        self._stopping.discard(token)
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        for event in self._waiting:
            event.set()
        self._waiting.clear()

    def _is_foreign(self, error: BaseException) -> bool:
        """Return whether this is a cancellation that was not meant for the task it came up in."""
        return isinstance(error, anyio.get_cancelled_exc_class()) and not cancelled_from_outside(
            self._tasks.cancel_scope.cancel_called
        )

    async def tell_failed(self, row: Row, error: BaseException) -> None:
        """Hand an error to the handler; without one, raise it where nothing catches it."""
        if self._failed is not None:
            await self._call_handler(self._failed, row, error)
        elif isinstance(error, Exception):
            raise error
        else:
            # Raised as it is, it would end this task without a word.
            raise RuntimeError("a run awaited something that was cancelled") from error

    async def _tell(self, token: object, handler: Handler, row: Row, fact: object) -> None:
        reset = _current.set(token)
        try:
            await self._call_handler(handler, row, fact)
        finally:
            _current.reset(reset)
            self._land(token)

    async def _call_handler(self, handler: Handler, row: Row, fact: object) -> None:
        try:
            result = handler(row, fact)
            if inspect.isawaitable(result):
                await result
        except anyio.get_cancelled_exc_class() as error:
            if self._is_foreign(error):
                raise RuntimeError("a handler awaited something that was cancelled") from error
            raise


_current: ContextVar[object] = ContextVar("weftjobs_current_run", default=None)
"""The run, or the report, that the code is inside of."""


def _caught(run: Run, row: Row, context: RunContext) -> tuple[object]:
    """Call a plain function in its thread; what it raises is left on the context.

    An error that travels from a thread to the event loop, raised or returned, ends up in a
    cycle that keeps its frames alive until the next garbage collection. What the function
    returns is wrapped, because trio refuses a bare coroutine.
    """
    try:
        return (run(row, context),)
    except Exception as error:
        context._error = error
        return (None,)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


def _same_context(before: Context) -> bool:
    """Return whether every context variable holds the very object that it held before."""
    now = copy_context()
    return len(now) == len(before) and all(
        now.get(variable, MISSING) is value for variable, value in before.items()
    )


def _describe(error: BaseException) -> dict[str, str]:
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return {"message": "cancelled"}
    described = {"message": _plain(cut(_text(error)))}
    with suppress(Exception):
        reason = error.reason  # type: ignore[attr-defined]
        if isinstance(reason, str):
            described["reason"] = _plain(reason)
    return described


def _plain(text: str) -> str:
    """Return text as what a store takes: no kind of its own, and Unicode."""
    return "".join(text).encode(errors="replace").decode()


def _text(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return shown(error)
