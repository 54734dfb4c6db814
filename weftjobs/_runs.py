"""Runs: call what is due, write `last`, tell how it ended, and know what is in progress."""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from operator import is_
from typing import Any

import anyio
from anyio.abc import TaskGroup

from weftjobs._held_tasks import AsyncioTasks, Event, HeldTasks, TrioTasks
from weftjobs._loop import on_asyncio
from weftjobs.clock import Clock, Turn, hold, wait
from weftjobs.errors import cut, shown
from weftjobs.rows import MISSING, ObservableArray, Row, Subscriptions, swap

_STANDBY = 8
"""How many idle tasks stand by for what is due next."""

_LARGEST_WAVE = 256
"""How many tasks are started at once at most."""

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
        "_earlier",
        "_error",
        "_landed",
        "_number",
        "_previous",
        "_record",
        "_released",
        "_row",
        "_runs",
        "_skipped",
        "by_hand",
        "due",
    )

    _earlier: RunContext | None
    """The run of the same row that began before this one and is in progress as well."""

    _landed: bool
    """Whether it has ended and what there was to tell of it has been told."""

    _number: int | None
    """What the recorder of the array calls this run; set when it starts."""

    _previous: Any
    """What `last` was before; set when it starts."""

    _record: dict[str, Any] | None

    def __init__(
        self, runs: Runs, row: Row, due: int, by_hand: bool, earlier: RunContext | None
    ) -> None:
        self.due = due
        self.by_hand = by_hand
        self._runs = runs
        self._row = row
        self._earlier = earlier
        self._landed = False
        self._released = False
        self._skipped = False
        self._record = None
        self._number = None
        self._error: Exception | None = None

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


class _Report:
    """Something that a handler is told, as soon as a task is free."""

    __slots__ = ("_landed", "fact", "handler", "row")

    def __init__(self, handler: Handler, row: Row, fact: object) -> None:
        self.handler = handler
        self.row = row
        self.fact = fact
        self._landed = False


class Runs:
    """The runs in progress and the standing tasks that make them.

    A standing task takes what is ready, one after another. A run that waits occupies its
    task; so before a task begins something, it sees to it that another one stands by. A
    task whose run changed a context variable ends, so that each run starts with the context
    in which the scheduler was entered.

    Attributes:
        subscriptions: That by which the scheduler follows the array.

    What is ready and which rows are busy may be changed from any thread with the array's
    lock held; the tasks live on the event loop.
    """

    def __init__(
        self,
        jobs: ObservableArray,
        run: Run,
        clock: Clock,
        failed: Handler | None,
        freed: Callable[[Row, int], object],
    ) -> None:
        self._jobs = jobs
        self._run: Any = run if _is_async(run) else self._run_in_thread
        self._plain_run = run
        self._clock = clock
        self._failed = failed
        self._freed = freed
        self.subscriptions: Subscriptions = ()
        self._writing: tuple[Row, object] | None = None
        self._latest: dict[Row, RunContext] = {}
        self._ready: deque[RunContext | _Report] = deque()
        self._begun = 0
        self._ended = 0
        self._stopping: set[object] = set()
        self._waiting: list[anyio.Event] = []
        self._idle: list[Event] = []
        self._free = 0
        self._wave = 1
        self._turn = Turn(clock)
        self._closed = False

    def open(self, tasks: TaskGroup) -> None:
        """Begin to take what is ready, in tasks of this group."""
        self._tasks = tasks
        context = copy_context()
        context.run(_current.set, None)
        self._clean = list(context.values())
        held = AsyncioTasks if on_asyncio() else TrioTasks
        self._held: HeldTasks = held(tasks, context, self._work)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._unlimited = anyio.CapacityLimiter(math.inf)

    # From any thread, with the array's lock held

    def busy(self, row: Row) -> bool:
        """Return whether the row may not fire, because a run of it has not released it."""
        latest = self._latest.get(row)
        return latest is not None and not latest._released

    def count(self, row: Row) -> int:
        """Return how many runs of the row are in progress."""
        return sum(1 for _ in self._in_progress(row))

    def _in_progress(self, row: Row) -> Iterator[RunContext]:
        """Yield the runs of a row that are in progress, the latest first."""
        context = self._latest.get(row)
        while context is not None:
            yield context
            context = context._earlier

    def begin(self, row: Row, due: int, *, by_hand: bool = False) -> None:
        """Have the row run as soon as a task is free."""
        context = RunContext(self, row, due, by_hand, self._latest.get(row))
        self._latest[row] = context
        self._begun += 1
        self._ready.append(context)

    def tell(self, handler: Handler, row: Row, fact: object) -> None:
        """Have a handler told something as soon as a task is free."""
        self._begun += 1
        self._ready.append(_Report(handler, row, fact))

    def release(self, context: RunContext) -> None:
        """Let the context's row fire again although its run goes on."""
        with self._jobs._lock:
            if not context._released:
                context._released = True
                self._freed(context._row, self._clock.now())

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
        if self._idle:
            self._free = 1
            self._idle.pop().set()
            return
        # All wait inside of runs. One more a turn would be slow when thousands are to wait:
        # that each turn of the event loop starts twice as many makes it four times as fast.
        self._free = min(self._wave, len(self._ready))
        self._wave = min(2 * self._wave, _LARGEST_WAVE)
        for _ in range(self._free):
            self._held.start()

    def dismiss(self) -> None:
        """Have the tasks end as soon as nothing is ready."""
        for event in self._idle:
            event.set()
        self._free += len(self._idle)
        self._idle.clear()
        self.kick()
        self._held.close()

    async def settle(self) -> None:
        """Wait until the runs in progress, and what is told of them, have ended.

        Called from inside a run it waits for the others, and not for those that wait here
        themselves.
        """
        me = _current.get()
        inside = me is not None and not me._landed
        if inside:
            self._stopping.add(me)
            self._wake_waiting()
        while self._begun - self._ended > (len(self._stopping) if inside else 0):
            event = anyio.Event()
            self._waiting.append(event)
            await wait(self._clock, event)

    async def _work(self) -> None:
        """Make what is ready, one after another.

        It does so itself, without smaller functions, because each call costs a burst a
        twentieth, and each coroutine more in the tasks that wait, which the garbage collector
        walks, has the last of 10,000 start a tenth later.
        """
        turn, ready, run, clean = self._turn, self._ready, self._run, self._clean
        while (ready and not turn.over()) or await self._next_ready():
            item = ready.popleft()
            self._free -= 1
            if ready and not self._free:
                self.kick()
            _current.set(item)
            try:
                if isinstance(item, _Report):
                    await self._call_handler(item.handler, item.row, item.fact)
                elif self._start(item):
                    error: BaseException | None = None
                    try:
                        await run(item._row, item)
                    except BaseException as raised:
                        error = self._judged(item, raised)
                    self._end(item, error)
                    if error is not None:
                        await self.tell_failed(item._row, error)
                        del error
            finally:
                _current.set(None)
                self._land(item)
            del item
            now = copy_context()
            # No variable goes away, and those of two contexts come in one order if they are the
            # same; else a task is retired for nothing. Looking each up costs twice as much.
            if len(now) != len(clean) or not all(map(is_, now.values(), clean)):
                self.kick()
                return
            self._free += 1
        self._free -= 1

    async def _next_ready(self) -> bool:
        """Let others run until something is ready; answer no when this task is not needed."""
        if self._ready:
            await self._turn.yield_to_others()
        while not self._ready:
            self._wave = 1
            if self._closed or len(self._idle) >= _STANDBY:
                return False
            event = self._held.event()
            self._idle.append(event)
            self._free -= 1
            await event.wait()
            self._turn.begin()
        return True

    def _start(self, context: RunContext) -> bool:
        """Write that the run is running; answer no when it may not begin any more."""
        row, jobs = context._row, self._jobs
        with jobs._lock:
            now = self._clock.now()
            if not self._closed and row._array is jobs:
                context._previous = previous = row._fields.get("last", MISSING)
                context._record = record = {"started": now, "status": "running"}
                recorder = jobs._recorder
                if recorder is None:
                    written = self._write(row, previous, record)
                else:
                    recorder.begin(context.due)
                    written = self._write(row, previous, record)
                    context._number = recorder.begun()
                if written:
                    return True
            self._free_row(context, now)
            return False

    async def _run_in_thread(self, row: Row, context: RunContext) -> None:
        """Call a plain `run`."""
        async with self._threads:
            with hold(self._clock):
                (result,) = await anyio.to_thread.run_sync(
                    _caught, self._plain_run, row, context, limiter=self._unlimited
                )
        if inspect.isawaitable(result):
            await result
        error, context._error = context._error, None
        try:
            if error is not None:
                raise error
        finally:
            # Else the error and this frame would keep each other alive.
            del error

    def _judged(self, context: RunContext, error: BaseException) -> BaseException:
        """Return what a run has failed with; raise what is meant for the task that it is in."""
        if isinstance(error, Exception):
            return error
        if self._is_foreign(error):
            # The task itself may have been cancelled, and counts that: it is to be retired.
            _cancelled.set(True)
            return error
        self._end(context, error)
        raise error

    def _end(self, context: RunContext, error: BaseException | None) -> None:
        """Write how the run ended, unless `last` is no longer this run's, and free the row."""
        row, written, now = context._row, context._record, self._clock.now()
        assert written is not None, "only a run that has started ends"
        started = written["started"]
        ended = now if now > started else started
        record: Any = {"started": started, "ended": ended, "status": "ok"}
        if error is not None:
            record["status"] = "failed"
            record["error"] = _describe(error)
        elif context._skipped:
            record = context._previous
        with self._jobs._lock:
            if self._latest[row] is not context:
                self._pass_on(context, record)
            if context._number is not None:
                skipped = error is None and context._skipped
                self._note_end(context, None if skipped else record)
            self._write(row, written, record)
            self._free_row(context, now)

    def _pass_on(self, context: RunContext, record: object) -> None:
        """Have later runs put back how this one ended, if they count as none."""
        for other in self._in_progress(context._row):
            if other._record is not None and other._previous is context._record:
                other._previous = record

    def _note_end(self, context: RunContext, record: dict[str, Any] | None) -> None:
        recorder = self._jobs._recorder
        try:
            if recorder is not None and context._number is not None:
                recorder.end(context._number, record)
        except Exception as error:
            self.tell(self.tell_failed, context._row, error)

    def _write(self, row: Row, old: object, new: object) -> bool:
        """Replace the row's `last`, unless it is another one by now; return whether it is new.

        What an observer raised at it is told.
        """
        commits, fields = self._jobs._commits, row._fields
        if (
            # Told to nobody, a run is 1.5 µs cheaper.
            commits.subscriptions == self.subscriptions
            and not commits.guards
            and not commits.marks
            and new is not MISSING
            and row._array is self._jobs
            and fields.get("last", MISSING) is old
        ):
            fields["last"] = new
            return True
        self._writing = (row, new)
        try:
            swap(self._jobs, row, "last", old, new)
        except Exception as error:
            self.tell(self.tell_failed, row, error)
        finally:
            self._writing = None
        return row._fields.get("last", MISSING) is new

    def _free_row(self, context: RunContext, now: int) -> None:
        row = context._row
        latest = self._latest.pop(row)
        if latest is not context:
            self._unlink(latest, context)
            self._latest[row] = latest
        elif context._earlier is not None:
            self._latest[row] = context._earlier
        if not context._released:
            context._released = True
            self._freed(row, now)

    def _unlink(self, later: RunContext, context: RunContext) -> None:
        while later._earlier is not context:
            assert later._earlier is not None, "a run that ends is in progress"
            later = later._earlier
        later._earlier = context._earlier

    def _land(self, item: RunContext | _Report) -> None:
        item._landed = True
        self._ended += 1
        if self._stopping:
            self._stopping.discard(item)
        if self._waiting:
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        for event in self._waiting:
            event.set()
        self._waiting.clear()

    def _is_foreign(self, error: BaseException) -> bool:
        """Return whether this is a cancellation, but not that of the scheduler."""
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        return cancelled and not self._held.are_cancelled()

    async def tell_failed(self, row: Row, error: BaseException) -> None:
        """Hand an error to the handler; without one, raise it where nothing catches it."""
        if self._failed is not None:
            await self._call_handler(self._failed, row, error)
        elif isinstance(error, Exception):
            raise error
        else:
            # Raised as it is, it would end this task without a word.
            raise RuntimeError("a run awaited something that was cancelled") from error

    async def _call_handler(self, handler: Handler, row: Row, fact: object) -> None:
        try:
            result = handler(row, fact)
            if inspect.isawaitable(result):
                await result
        except anyio.get_cancelled_exc_class() as error:
            if self._is_foreign(error):
                raise RuntimeError("a handler awaited something that was cancelled") from error
            raise


_cancelled: ContextVar[bool] = ContextVar("weftjobs_cancelled_run", default=False)
"""Set where a run was cancelled and the scheduler was not."""

_current: ContextVar[RunContext | _Report | None] = ContextVar(
    "weftjobs_current_run", default=None
)
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
