"""The scheduler: follow the array, sleep until the soonest row is due, hand it over."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Literal, Self

import anyio
from anyio.from_thread import start_blocking_portal

from weftjobs._loop import poster
from weftjobs._runs import Run, Runs
from weftjobs._timers import Timers
from weftjobs.clock import Clock, SystemClock, Turn
from weftjobs.errors import InvalidScheduleError, JobsError, shown
from weftjobs.planning import Planner, plan_row
from weftjobs.rows import MISSING, Change, ObservableArray, Row, check_array
from weftjobs.triggers import Trigger
from weftjobs.units import MAX_INSTANT, MIN_INSTANT

logger = logging.getLogger("weftjobs")

_CORRECTION = 3 * 3_600_000
"""A step back of the clock by more than this many ms is a correction, not a change of hour."""

_LONGEST_SLEEP = 24 * 3_600_000
"""So long may the time be that a correction of the clock is judged by, when it goes unnoticed."""

_FAR = MAX_INSTANT + 1

Failed = Callable[[Row, Exception], object]
Skipped = Callable[[Row, int], object]


class Scheduler:
    """Runs the rows of an array when they are due, and follows every edit of the array.

        async def run(job, context):
            print(job["name"], "was due at", context.due)

        async with Scheduler(jobs, run, failed=on_failed) as scheduler:
            ...

    Entering starts it; leaving it stops it and waits for the runs in progress. It writes
    `last`, the record of a row's most recent run, and touches nothing else. A scheduler is
    entered once. Two schedulers over one array both run every row: make one.

    Args:
        jobs: The rows.
        run: Called as `run(job, context)` when a row is due. A plain function runs in a
            worker thread.
        failed: Called as `failed(job, error)` when a run raised, and once when a row cannot
            be scheduled (`error.reason` is `"invalid"`). Without it the error cancels the
            scheduler and comes out of the `async with` block.
        skipped: Called as `skipped(job, due)` when a slot came while the row was running;
            `due` in ms since the epoch. Without it this is logged.
        plan: How a row becomes a trigger.
        clock: Where the time comes from.

    Raises:
        JobsError: `missing` without jobs or run, `not-a-list` when jobs is not an
            `ObservableArray`.
    """

    def __init__(
        self,
        jobs: ObservableArray,
        run: Run,
        *,
        failed: Failed | None = None,
        skipped: Skipped | None = None,
        plan: Planner = plan_row,
        clock: Clock = SystemClock(),
    ) -> None:
        _check_arguments(jobs, run, failed=failed, skipped=skipped, plan=plan)
        self._jobs = jobs
        self._skipped = skipped
        self._plan = plan
        self._clock = clock
        self._runs = Runs(jobs, run, clock, failed, self._freed)
        self._timers: Timers[Row] = Timers()
        self._triggers: dict[Row, Trigger | None] = {}
        self._problems: dict[Row, tuple[type, str]] = {}
        self._checked: type | None = None
        self._waiting: dict[Row, int] = {}
        self._state: Literal["new", "running", "stopped"] = "new"
        self._nap: anyio.CancelScope | None = None
        self._woken = False
        self._wakes_at = _FAR

    # Starting and stopping

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise JobsError(
                "scheduler: it has been entered before",
                reason="invalid",
                fix="Make a new Scheduler over the same array.",
            )
        self._now = self._clock.now()
        self._state = "running"
        self._process = os.getpid()
        self._post = poster()
        self._stopped = anyio.Event()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            self._runs.open(self._tasks)
            await self._begin()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def _begin(self) -> None:
        with self._jobs._lock:
            self._unobserve = self._jobs.observe(self._follow)
            self._runs.subscriptions = self._jobs._commits.subscriptions[-1:]
            rows = list(self._jobs)
        turn = Turn(self._clock)
        for row in rows:
            with self._jobs._lock:
                if row not in self._triggers and row in self._jobs:
                    self._look_at(row)
            if turn.over():
                await turn.yield_to_others()
        self._tasks.start_soon(self._serve)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failure = error
        if failure is None:
            try:
                await self.stop()
            except BaseException as stopping:
                failure = stopping
        self._halt()
        if isinstance(failure, anyio.get_cancelled_exc_class()):
            await self._tasks.__aexit__(type(failure), failure, failure.__traceback__)
            raise failure
        if failure is not None:
            self._tasks.cancel_scope.cancel()
        # An error of the block is not handed in: it would come out inside an exception group.
        await self._tasks.__aexit__(None, None, None)
        if failure is not error and failure is not None:
            raise failure

    async def serve(self) -> None:
        """Run until the scheduler is stopped, or this is cancelled."""
        async with self:
            await self._stopped.wait()

    @contextmanager
    def in_thread(self, backend: Literal["asyncio", "trio"] = "asyncio") -> Iterator[Self]:
        """Run on an event loop of its own in a background thread, for a program without one.

        Entering starts it, leaving it stops it and waits for the runs in progress. What
        `async with` would raise comes out of the block.
        """
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(backend))
            stack.enter_context(portal.wrap_async_context_manager(self))
            try:
                yield self
            finally:
                if os.getpid() != self._process:
                    # The thread stayed behind in the process that was forked.
                    stack.pop_all()

    async def stop(self) -> None:
        """Cancel every timer, stop following the array, and wait for the runs in progress.

        Nothing fires after it. Called from inside a run it waits for the other runs only,
        and not for those that wait here as well.
        """
        if self._state == "new":
            return
        self._halt()
        await self._runs.settle()

    def _halt(self) -> None:
        with self._jobs._lock:
            if self._state == "stopped":
                return
            self._state = "stopped"
            self._unobserve()
            self._timers.clear()
            self._triggers.clear()
            self._problems.clear()
            self._waiting.clear()
            self._runs.close()
        self._runs.dismiss()
        self._stopped.set()
        self._interrupt()

    # From any thread

    def run_now(self, row: Row) -> bool:
        """Start a run of a row at once, outside its schedule and without moving its grid.

        It works on rows that are paused, finished or not schedulable too.

        Returns:
            Whether the run was started: not when the row is running already (which is
            reported to `skipped`), is not in the array, or the scheduler does not run.
        """
        with self._jobs._lock:
            if self._state != "running" or row not in self._jobs:
                return False
            self._check_process()
            now = self._clock.now()
            started = not self._runs.busy(row)
            if started:
                self._runs.begin(row, now, by_hand=True)
            else:
                self._report_skipped(row, now)
            self._wake()
        return started

    def next_due(self, row: Row) -> int | None:
        """Return when a row is due next, in ms since the epoch; `None` when it is not."""
        with self._jobs._lock:
            return self._waiting.get(row, self._timers.due(row))

    def running(self, row: Row) -> int:
        """Return how many runs of a row are in progress."""
        with self._jobs._lock:
            return self._runs.count(row)

    # Following the array, with its lock held

    def _follow(self, commit: tuple[Change, ...]) -> None:
        for kind, row, _, key, _, new in commit:
            if key is None:
                if kind == "inserted":
                    self._look_at(row)
                elif kind == "removed":
                    self._forget(row)
            elif key != "last":
                self._look_at(row)
            elif not self._runs.writes(row, MISSING if kind == "deleted" else new):
                self._look_at_last(row)

    def _forget(self, row: Row) -> None:
        if self._triggers.pop(row, None) is not None:
            self._timers.disarm(row)
        if self._waiting:
            self._waiting.pop(row, None)
        if self._problems:
            self._problems.pop(row, None)

    def _look_at(self, row: Row) -> None:
        """Plan a row anew; arm it from now when its schedule is another one."""
        before = self._triggers.get(row)
        try:
            trigger = self._plan(row)
            if type(trigger) is not self._checked and trigger is not None:
                _check_trigger(trigger)
                self._checked = type(trigger)
            same = before is not None and trigger == before
        except Exception as error:
            self._refuse(row, error)
            return
        if self._problems:
            self._problems.pop(row, None)
        if trigger is None:
            self._unplan(row)
        elif not same:
            self._triggers[row] = trigger
            self._arm(row, trigger)

    def _look_at_last(self, row: Row) -> None:
        """Take in that the application wrote `last`, which says whether a one-off is done."""
        trigger = self._triggers.get(row)
        if trigger is None:
            return
        due = self._waiting.get(row, self._timers.due(row))
        if due is None:
            self._arm(row, trigger)
        elif self._is_done(row, trigger, due):
            self._waiting.pop(row, None)
            self._timers.disarm(row)

    def _arm(self, row: Row, trigger: Trigger) -> None:
        """Arm a row from now on."""
        if self._waiting:
            self._waiting.pop(row, None)
        slot = self._ask(row, trigger, None, self._clock.now())
        if slot is None or ("last" in row._fields and self._is_done(row, trigger, slot)):
            self._timers.disarm(row)
        else:
            self._timers.arm(row, slot)
            if slot < self._wakes_at:
                self._wake()

    def _is_done(self, row: Row, trigger: Trigger, slot: int) -> bool:
        """Return whether this is the last slot of the row and has been started before."""
        last = row._fields.get("last")
        if last is None:
            return False
        started = last.get("started") if isinstance(last, Mapping) else None
        if isinstance(started, bool) or not isinstance(started, int | float):
            return False
        return started >= slot and self._ask(row, trigger, slot, slot) is None

    def _ask(self, row: Row, trigger: Trigger, previous: int | None, now: int) -> int | None:
        """Ask the trigger for a slot: the first one, or the one after the previous."""
        try:
            slot = trigger.first(now) if previous is None else trigger.after(previous, now)
            least = MIN_INSTANT if previous is None else previous + 1
            if type(slot) is not int or not least <= slot <= MAX_INSTANT:
                _check_slot(trigger, slot, previous)
        except Exception as error:
            self._refuse(row, error)
            return None
        return slot

    def _refuse(self, row: Row, error: Exception) -> None:
        self._unplan(row)
        problem = (type(error), str(error))
        if self._problems.get(row) != problem:
            self._problems[row] = problem
            self._runs.tell(self._runs.tell_failed, row, error)
            self._wake()

    def _unplan(self, row: Row) -> None:
        self._triggers[row] = None
        self._waiting.pop(row, None)
        self._timers.disarm(row)

    def _freed(self, row: Row, now: int) -> None:
        """Take in that a row may fire again: what came meanwhile waits or is skipped."""
        due = self._timers.due(row)
        if due is not None and due <= now:
            self._timers.disarm(row)
            self._fire(row, due, now, busy=True)
        if self._waiting and (waiting := self._waiting.pop(row, None)) is not None:
            self._runs.begin(row, waiting)
            self._wake()

    # The loop

    async def _serve(self) -> None:
        turn = Turn(self._clock)
        await turn.yield_to_others()
        while self._state == "running":
            # One scope for many naps: making it costs a tenth of a fire that comes alone.
            with anyio.CancelScope() as self._nap:
                await self._fire_until_woken(turn)

    async def _fire_until_woken(self, turn: Turn) -> None:
        while self._state == "running":
            self._check_process()
            self._woken = False
            with self._jobs._lock:
                due = self._fire_due(turn)
            self._runs.kick()
            if turn.over():
                await turn.yield_to_others()
            elif not self._woken:
                await self._sleep_until(due)
                turn.begin()

    def _fire_due(self, turn: Turn) -> int | None:
        """Hand over what is due, for as long as the turn lasts; return what is due next."""
        now = self._clock.now()
        if now < self._now - _CORRECTION:
            self._correct(now)
        self._now = now
        pop, busy = self._timers.pop, self._runs.busy
        while not turn.over() and (popped := pop(now)) is not None:
            due, row = popped
            self._fire(row, due, now, busy=busy(row))
        next_due = self._timers.next_due()
        self._wakes_at = _FAR if next_due is None else next_due
        return next_due

    def _fire(self, row: Row, due: int, now: int, *, busy: bool) -> None:
        trigger = self._triggers[row]
        assert trigger is not None, "only a row with a trigger is armed"
        following = self._ask(row, trigger, due, now)
        # A trigger may have edited the array when it was asked, its own row included.
        if following is not None and self._triggers.get(row) is trigger:
            self._timers.arm(row, following)
        if not busy:
            self._runs.begin(row, due)
        elif following is None and self._ask(row, trigger, None, now) == due:
            self._waiting[row] = due
        else:
            self._report_skipped(row, due)

    def _correct(self, now: int) -> None:
        logger.warning(
            "the clock was set back from %s to %s (ms since the epoch): "
            "the slots of all rows are found anew",
            self._now,
            now,
        )
        for row, trigger in list(self._triggers.items()):
            if trigger is not None and row not in self._waiting:
                self._arm(row, trigger)

    def _report_skipped(self, row: Row, due: int) -> None:
        if self._skipped is None:
            logger.info("skipped the slot at %s (ms) of %s: it is running", due, shown(row))
        else:
            self._runs.tell(self._skipped, row, due)

    async def _sleep_until(self, due: int | None) -> None:
        until = self._now + _LONGEST_SLEEP
        before = await self._clock.sleep_until(until if due is None or due > until else due)
        if before is not None:
            self._now = max(self._now, before)

    def _wake(self) -> None:
        """Have the loop look again, from any thread."""
        if not self._woken:
            self._check_process()
            self._woken = True
            self._post(self._interrupt)

    def _interrupt(self) -> None:
        if self._nap is not None:
            self._nap.cancel()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise JobsError(
                f"scheduler: process {os.getpid()} is a fork of {self._process}, which runs it",
                reason="forked",
                fix="Start the scheduler after the fork (with gunicorn: not under --preload).",
            )


def _check_arguments(jobs: object, run: object, **callables: Any) -> None:
    for name, value in (("jobs", jobs), ("run", run)):
        if value is None:
            raise _missing(name, value)
    check_array(jobs, "jobs")
    if not callable(run):
        raise _missing("run", run)
    for name, value in callables.items():
        if not callable(value) and (value is not None or name == "plan"):
            raise JobsError(
                f"{name}: {shown(value)} cannot be called",
                reason="invalid",
                fix=f"Pass a function as {name}, or leave it out.",
            )


def _missing(name: str, value: object) -> JobsError:
    given = "nothing was given" if value is None else f"{shown(value)} cannot be called"
    return JobsError(
        f"{name}: {given}",
        reason="missing",
        fix="Make it as Scheduler(jobs, run), with an ObservableArray and a function.",
    )


def _check_trigger(trigger: object) -> None:
    if callable(getattr(trigger, "first", None)) and callable(getattr(trigger, "after", None)):
        return
    raise InvalidScheduleError(
        f"plan: {shown(trigger)} is not a trigger",
        fix="Return an object with first(now) and after(previous, now), or None.",
    )


def _check_slot(trigger: object, slot: object, previous: int | None) -> None:
    if slot is None:
        return
    if isinstance(slot, bool) or not isinstance(slot, int):
        wrong = f"answered {shown(slot)}, which is not an integer"
    elif not MIN_INSTANT <= slot <= MAX_INSTANT:
        wrong = f"answered {shown(slot)}, which lies outside the calendar"
    elif previous is not None and slot <= previous:
        wrong = f"answered {slot}, which is not past the previous slot {previous}"
    else:
        return
    raise InvalidScheduleError(
        f"trigger: {shown(trigger)} {wrong}",
        fix="Answer ms since the epoch, each slot later than the one before, or None.",
    )
