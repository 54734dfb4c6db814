"""Exclusive runs: which instance runs a slot, how long its lock is kept, and how it is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.controllers.booting import Hooks, application_of
from weftjobs import Croniter, Every, Recurrence, Trigger
from weftjobs.testing import VirtualClock
from weftjobs_controllers import (
    Application,
    Controller,
    Exclusive,
    InvalidArgumentError,
    LeaseLostError,
    MissingMutexError,
    MutexError,
    build_entrypoints,
    exclusive,
    schedule,
    schedule_entrypoint,
)
from weftjobs_controllers.mutexes import MemoryMutex

START = "2026-01-01T00:00:30Z"
MINUTE = 60_000


class Skewed(VirtualClock):
    """The clock of one machine, which is ahead of another one's and moves with it."""

    def __init__(self, other: VirtualClock, ahead: int) -> None:
        self._other = other
        self._ahead = ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)

    def now(self) -> int:
        return self._other.now() + self._ahead

    async def sleep_until(self, milliseconds: int, /) -> int | None:
        return await self._other.sleep_until(milliseconds - self._ahead)


class Instance:
    """One instance of an application, whose job notes what it does."""

    def __init__(
        self,
        label: str,
        journal: list[str],
        mutex: object,
        clock: VirtualClock,
        *,
        takes: str | None = None,
        every: str = "1m",
        components: dict[str, object] | None = None,
        **options: Any,
    ) -> None:
        self.hooks = Hooks()
        self.journal = journal
        self.tokens: list[int | None] = []
        instance = self

        class Jobs(Controller):
            @schedule(every=every, **{"exclusive": True, "name": "job", **options})
            async def job(self) -> None:
                instance.tokens.append(self.context.lease_token)
                journal.append(f"{label} {self.context.scheduled_at:%H:%M:%S}")
                if takes is not None:
                    try:
                        await clock.sleep(takes)
                    finally:
                        journal.append(f"{label} aborted: {self.signal.aborted}")

        self.adapter = schedule_entrypoint(
            clock=clock, on_error=self.hooks.on_error, on_skip=self.hooks.on_skip
        )
        parts = {"mutex": mutex} if components is None else components
        self.application = application_of(
            build_entrypoints(controllers=[Jobs], schedule=self.adapter), **parts
        )


@asynccontextmanager
async def running(*instances: Instance) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for instance in instances:
            await stack.enter_async_context(instance.application)
        yield


def pair(**options: Any) -> tuple[VirtualClock, list[str], Instance, Instance]:
    """Return two instances that share a mutex and a clock."""
    clock = VirtualClock(START)
    mutex = MemoryMutex(clock=clock)
    journal: list[str] = []
    one, two = (Instance(name, journal, mutex, clock, **options) for name in "ab")
    return clock, journal, one, two


async def test_each_slot_runs_in_one_instance() -> None:
    """X1, X2: instances plan the same slots, one runs each, the other is told why it does not."""
    clock, journal, one, two = pair()
    async with running(one, two):
        await clock.advance("3m")
    assert [entry[2:] for entry in journal] == ["00:01:00", "00:02:00", "00:03:00"]
    skips = one.hooks.skips + two.hooks.skips
    assert sorted(skips) == [
        ("job", f"2026-01-01T00:0{minute}:00+00:00", "exclusive") for minute in (1, 2, 3)
    ]
    tokens = [token for token in one.tokens + two.tokens if token is not None]
    assert len(set(tokens)) == 3
    assert one.adapter.jobs[0]["exclusive"] is True


async def test_skipped_instance_has_had_no_run() -> None:
    """X1, K9a: what is skipped is not counted, and leaves `last` as it was."""
    clock, _, one, two = pair()
    async with running(one, two):
        await clock.advance("1m")
        records = [instance.adapter.jobs[0].get("last") for instance in (one, two)]
    assert sorted(record is None for record in records) == [False, True]


@pytest.mark.parametrize("ahead", [5_000, 29_000, 31_000, 90_000])
async def test_skewed_clocks(ahead: int) -> None:
    """X4: whatever the clocks of the instances say, a slot starts at most once."""
    clock = VirtualClock(START)
    mutex = MemoryMutex(clock=clock)
    journal: list[str] = []
    slow = Instance("a", journal, mutex, clock)
    fast = Instance("b", journal, mutex, Skewed(clock, ahead))
    async with running(slow, fast):
        await clock.advance("10m")
    slots = [entry[2:] for entry in journal]
    assert len(slots) == len(set(slots))
    assert len(slots) >= 10
    assert slow.hooks.errors + fast.hooks.errors == []


async def test_late_instance_within_its_grace() -> None:
    """X4: an instance that starts a slot late, after the hold has ended, finds it started."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=clock)
    instance = Instance("a", [], mutex, clock, every="10m")
    async with running(instance):
        await clock.advance("10m")
        slot = clock.now()
        await clock.advance("45s")
        assert await mutex.try_acquire("schedule:job", lease=MINUTE, slot=slot) is None
        assert await mutex.try_acquire("schedule:job", lease=MINUTE, slot=slot + 1) is not None


@pytest.mark.parametrize(
    ("every", "held"), [("1m", 30_000), ("10m", 30_000), ("10s", 5_000), ("500ms", 250)]
)
async def test_lock_is_kept_after_a_run(every: str, held: int) -> None:
    """X3: for half the gap to the next slot since the planned time, 30 seconds at most."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=clock)
    instance = Instance("a", [], mutex, clock, every=every)
    async with running(instance):
        await clock.advance(every)
        due = clock.now()
        instance.adapter.jobs[0]["paused"] = True
        clock.jump(held - 1)
        assert await mutex.try_acquire("schedule:job", lease=MINUTE) is None
        clock.jump(1)
        assert clock.now() == due + held
        assert await mutex.try_acquire("schedule:job", lease=MINUTE) is not None


async def test_hold_counts_from_the_planned_time() -> None:
    """X3: a run that took longer than the hold gives its lock back at once."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=clock)
    instance = Instance("a", [], mutex, clock, takes="40s")
    async with running(instance):
        await clock.advance("1m40s")
        assert await mutex.try_acquire("schedule:job", lease=MINUTE) is not None


async def test_hold_after_a_failed_run_and_at_the_stop() -> None:
    """X3: whatever the outcome of the run, and also when the application stops."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=clock)
    instance = Instance("a", [], mutex, clock, takes="1d")
    async with running(instance):
        await clock.advance("1m")
    assert instance.journal == ["a 00:01:00", "a aborted: True"]
    assert await mutex.try_acquire("schedule:job", lease=MINUTE, slot=2 * clock.now()) is not None


async def test_run_of_several_leases_keeps_its_lock() -> None:
    """X5: it is renewed every third of the lease while the run lasts."""
    clock, journal, one, two = pair(every="5m", takes="2m10s")
    async with running(one, two):
        await clock.advance("4m30s")
        await clock.advance("2m10s")
        assert len(journal) == 2
        assert journal[1].endswith("aborted: False")
    assert one.hooks.errors + two.hooks.errors == []


class Moody(MemoryMutex):
    """A mutex that loses its records, or does not answer."""

    broken = False
    silent = False

    async def try_acquire(self, key: str, **options: Any) -> Any:
        await self._mood()
        lease = await super().try_acquire(key, **options)
        if lease is not None:
            renew = lease.renew

            async def moody_renew() -> bool:
                await self._mood()
                return await renew()

            lease.renew = moody_renew  # type: ignore[method-assign]
        return lease

    async def _mood(self) -> None:
        if self.silent:
            await anyio.sleep_forever()
        if self.broken:
            raise MutexError("Moody", "key", "not today")


@pytest.mark.parametrize("mood", ["revoked", "unreachable"])
async def test_lost_lease(mood: str) -> None:
    """X5: the run is aborted and told once, and somebody else's lock is untouched."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = Moody(clock=clock)
    journal: list[str] = []
    instance = Instance("a", journal, mutex, clock, every="10m", takes="5m")
    other: Any = None
    async with running(instance):
        await clock.advance("10m")
        await clock.advance("15s")
        if mood == "revoked":
            mutex._records.clear()
            other = await mutex.try_acquire("schedule:job", lease=10 * MINUTE)
            assert other is not None
        else:
            mutex.broken = True
        await clock.advance("30s")
        mutex.broken = False
        ((error, _, context),) = instance.hooks.errors
        record = instance.adapter.jobs[0]["last"]
    assert isinstance(error, LeaseLostError)
    assert (error.job, error.key, error.reason) == ("job", "schedule:job", mood)
    assert error.token == instance.tokens[0]
    assert context is not None
    assert context.lease_token == error.token
    # The last good renewal was 10 s after the start; 0.9 of the lease are 27 s.
    assert error.held == (20 if mood == "revoked" else 37)
    assert record["error"]["reason"] == mood
    assert journal == ["a 00:10:00", "a aborted: True"]
    if mood == "revoked":
        assert await mutex.try_acquire("schedule:job", lease=MINUTE) is None
        assert await other.renew()


async def test_mutex_that_comes_back_in_time() -> None:
    """X5: a run whose mutex is unreachable for a while goes on."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = Moody(clock=clock)
    journal: list[str] = []
    instance = Instance("a", journal, mutex, clock, every="10m", takes="5m")
    async with running(instance):
        await clock.advance("10m15s")
        mutex.broken = True
        await clock.advance("20s")
        mutex.broken = False
        await clock.advance("5m")
    assert journal == ["a 00:10:00", "a aborted: False"]
    assert instance.hooks.errors == []


async def test_thread_that_loses_its_lease_is_told_at_once() -> None:
    """X5: nothing can cancel a thread; its signal is aborted, and `on_error` does not wait."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=clock)
    hooks = Hooks()
    seen: list[object] = []

    class Jobs(Controller):
        @schedule("10m", exclusive=True, name="job")
        def job(self) -> None:
            seen.append(self.signal.wait_blocking("5m"))
            seen.append(len(hooks.errors))

    entrypoint = build_entrypoints(
        controllers=[Jobs], schedule=schedule_entrypoint(clock=clock, on_error=hooks.on_error)
    )
    async with application_of(entrypoint, mutex=mutex):
        await clock.advance("10m15s")
        mutex._records.clear()
        await clock.advance("15s")
    assert seen[0] is True
    assert [type(error) for error, _, _ in hooks.errors] == [LeaseLostError]


@pytest.mark.parametrize("component", [None, object()], ids=["missing", "no mutex"])
async def test_missing_mutex(component: object) -> None:
    """X1: the job does not run, and `on_error` hears of it once per slot."""
    clock = VirtualClock(START)
    parts = {} if component is None else {"mutex": component}
    instance = Instance("a", [], None, clock, components=parts)
    async with running(instance):
        await clock.advance("2m")
    assert instance.journal == []
    assert [type(error) for error, _, _ in instance.hooks.errors] == [MissingMutexError] * 2
    assert str(instance.hooks.errors[0][0]) == (
        "job: the application has no mutex 'mutex', so the job does not run"
    )


async def test_mutex_that_cannot_be_reached() -> None:
    """X1: the job does not run, `on_error` is told once per slot, other jobs are on time."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = Moody(clock=clock)
    mutex.broken = True
    hooks = Hooks()
    journal: list[str] = []

    class Jobs(Controller):
        @schedule("1m", exclusive=True)
        async def exclusive(self) -> None:
            journal.append("exclusive")

        @schedule("1m")
        async def other(self) -> None:
            journal.append("other")

    entrypoint = build_entrypoints(
        controllers=[Jobs], schedule=schedule_entrypoint(clock=clock, on_error=hooks.on_error)
    )
    async with application_of(entrypoint, mutex=mutex):
        await clock.advance("2m")
        mutex.broken = False
        await clock.advance("1m")
    assert journal == ["other", "other", "exclusive", "other"]
    assert [type(error) for error, _, _ in hooks.errors] == [MutexError] * 2


async def test_key_and_mutex_of_its_own() -> None:
    """X1: two jobs that share a key exclude one another, in the mutex that they name."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    locks = MemoryMutex(clock=clock)
    options: dict[str, Any] = {
        "exclusive": Exclusive(mutex="locks", key="purge"),
        "components": {"locks": locks},
    }
    journal: list[str] = []
    one = Instance("a", journal, None, clock, name="one", **options)
    two = Instance("b", journal, None, clock, name="two", **options)
    async with running(one, two):
        await clock.advance("2m")
    assert [entry[2:] for entry in journal] == ["00:01:00", "00:02:00"]
    assert list(locks._records) == ["schedule:purge"]


async def test_mutex_outside_bootstrap_is_started() -> None:
    """X1: the component of the lock starts when it is first needed."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    instance = Instance("a", [], None, clock, components={})
    entrypoint = instance.application.components["entrypoint"]
    application = Application(
        id="app",
        name="App",
        components={"mutex": MemoryMutex(clock=clock), "entrypoint": entrypoint},
        bootstrap=["entrypoint"],
    )
    async with application:
        await clock.advance("1m")
    assert instance.journal == ["a 00:01:00"]


async def test_immediate_counts_as_the_latest_slot() -> None:
    """X8: instances that start, or restart, within one period run it once."""
    clock, journal, one, two = pair(every="1h", immediate=True)
    async with running(one):
        await clock.advance("20m")
        async with running(two):
            await clock.advance("20m")
    async with running(two):
        await clock.advance("1m")
        assert journal == ["a 00:00:30"]
        await clock.advance("30m")
    assert [entry[2:] for entry in journal] == ["00:00:30", "01:00:00"]
    assert two.hooks.skips == [
        ("job", "2026-01-01T00:20:30+00:00", "exclusive"),
        ("job", "2026-01-01T00:40:30+00:00", "exclusive"),
    ]


async def test_immediate_of_a_cron() -> None:
    """X8: the latest slot of a cron expression is its previous time."""
    clock = VirtualClock(START)
    mutex = MemoryMutex(clock=clock)
    runs: list[str] = []

    def instance() -> Application:
        class Jobs(Controller):
            @schedule(cron="0 3 * * *", timezone="UTC", exclusive=True, immediate=True, name="job")
            async def job(self) -> None:
                runs.append(self.context.scheduled_at.isoformat())

        adapter = schedule_entrypoint(clock=clock)
        return application_of(build_entrypoints(controllers=[Jobs], schedule=adapter), mutex=mutex)

    for _ in range(2):
        async with instance():
            await clock.advance("30m")
    assert runs == ["2026-01-01T00:00:30+00:00"]


async def test_overlap_claims_the_slot_and_holds_no_lock() -> None:
    """X8: runs overlap, among the instances too, and each slot starts once."""
    clock, journal, one, two = pair(overlap=True, takes="90s")
    async with running(one, two):
        await clock.advance("2m30s")
        starts = [entry for entry in journal if "aborted" not in entry]
        assert [entry[2:] for entry in starts] == ["00:01:00", "00:02:00", "00:03:00"]
        for instance in (one, two):
            instance.adapter.jobs[0]["paused"] = True
        await clock.advance("2m")
    assert one.hooks.errors + two.hooks.errors == []


async def test_run_now_has_no_slot_and_leaves_no_hold() -> None:
    """X8: it tries the lock, and the slot after it runs all the same."""
    clock, journal, one, two = pair(takes="10s")
    async with running(one, two):
        one.adapter.scheduler.run_now(one.adapter.jobs[0])
        await clock.advance("1s")
        two.adapter.scheduler.run_now(two.adapter.jobs[0])
        await clock.advance("9s")
        two.adapter.scheduler.run_now(two.adapter.jobs[0])
        await clock.advance("10s")
        assert journal == [
            "a 00:00:30",
            "a aborted: False",
            "b 00:00:40",
            "b aborted: False",
        ]
        await clock.advance("20s")
    assert [entry[2:] for entry in journal[4:5]] == ["00:01:00"]
    assert two.hooks.skips[0] == ("job", "2026-01-01T00:00:31+00:00", "exclusive")


async def test_lock_is_taken_after_the_condition() -> None:
    """X8: a run that its `skip_if` skips asks for no lock, and claims no slot."""
    clock = VirtualClock(START)
    mutex = MemoryMutex(clock=clock)
    journal: list[str] = []
    one = Instance("a", journal, mutex, clock, skip_if=lambda context: True)
    two = Instance("b", journal, mutex, clock)
    async with running(one, two):
        await clock.advance("2m")
    assert journal == ["b 00:01:00", "b 00:02:00"]
    assert {reason for _, _, reason in one.hooks.skips} == {"condition"}


async def test_lock_of_a_cancelled_run_is_given_back() -> None:
    """X8, X9: cancellation while the lock is being acquired leaves no orphan."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    asked, answer = anyio.Event(), anyio.Event()

    class Slow(MemoryMutex):
        async def try_acquire(self, key: str, **options: Any) -> Any:
            asked.set()
            await answer.wait()
            return await super().try_acquire(key, **options)

    mutex = Slow(clock=clock)
    instance = Instance("a", [], mutex, clock)
    instance.adapter._clock = clock

    async def run() -> None:
        with scope:
            async with running(instance):
                instance.adapter.scheduler.run_now(instance.adapter.jobs[0])
                await anyio.sleep_forever()

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await asked.wait()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        answer.set()
    assert instance.journal == []
    assert await MemoryMutex.try_acquire(mutex, "schedule:job", lease=MINUTE) is not None


async def test_timeout_of_an_exclusive_run() -> None:
    """X3, K8a: it has failed by its timeout, and its lock is given back."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=clock)
    instance = Instance("a", [], mutex, clock, every="10m", takes="5m", timeout="1m")
    async with running(instance):
        await clock.advance("11m")
        ((error, _, _),) = instance.hooks.errors
        assert type(error).__name__ == "RunTimeoutError"
        assert await mutex.try_acquire("schedule:job", lease=MINUTE) is not None


async def test_interval_given_as_a_trigger_is_aligned() -> None:
    """X2: an `Every` without a grid of its own gets that of the clock."""
    clock = VirtualClock("2026-01-01T00:00:13Z")
    mutex = MemoryMutex(clock=clock)
    runs: list[str] = []

    def instance() -> Application:
        class Jobs(Controller):
            @schedule(Every("1h"), exclusive=True, name="job")
            async def job(self) -> None:
                runs.append(f"{self.context.scheduled_at:%H:%M:%S}")

        adapter = schedule_entrypoint(clock=clock)
        return application_of(build_entrypoints(controllers=[Jobs], schedule=adapter), mutex=mutex)

    async with instance():
        await clock.advance("10m")
        async with instance():
            await clock.advance("3h")
    assert runs == ["01:00:00", "02:00:00", "03:00:00"]


@pytest.mark.parametrize(
    "trigger",
    [
        Croniter("0 * * * *", "UTC"),
        Recurrence("FREQ=MONTHLY", "UTC", start="2020-01-01T00:00:00Z"),
    ],
    ids=["Croniter", "Recurrence"],
)
async def test_immediate_of_a_trigger_that_only_looks_ahead(trigger: Trigger) -> None:
    """X8: its latest slot is found by looking from before it."""
    clock = VirtualClock("2026-01-01T00:00:13Z")
    mutex = MemoryMutex(clock=clock)
    runs: list[str] = []

    class Jobs(Controller):
        @schedule(trigger, exclusive=True, immediate=True, name="job")
        async def job(self) -> None:
            runs.append("ran")

    for _ in range(3):
        adapter = schedule_entrypoint(clock=clock)
        entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter)
        async with application_of(entrypoint, mutex=mutex):
            await clock.advance("35s")
    assert runs == ["ran"]


async def test_clock_set_back_during_a_run() -> None:
    """X3: the hold is no longer than 30 seconds, whatever the clock says meanwhile."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    real = VirtualClock("2026-01-01T00:00:00Z")
    mutex = MemoryMutex(clock=real)

    class Jobs(Controller):
        @schedule("1m", exclusive=True, name="job")
        async def job(self) -> None:
            clock.jump(-3_600_000)

    adapter = schedule_entrypoint(clock=clock)
    entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter)
    async with application_of(entrypoint, mutex=mutex):
        await clock.advance("1m")
        record = mutex._records["schedule:job"]
        assert record.nonce is None
        assert record.expires - real.now() == 30_000


@pytest.mark.parametrize("overlap", [False, True])
async def test_stop_while_the_lock_is_acquired(overlap: bool) -> None:
    """X8: the run does not begin, so the lock is given back."""
    clock = VirtualClock("2026-01-01T12:00:00Z")
    asked, answer = anyio.Event(), anyio.Event()

    class Slow(MemoryMutex):
        async def try_acquire(self, key: str, **options: Any) -> Any:
            asked.set()
            await answer.wait()
            return await super().try_acquire(key, **options)

    mutex = Slow(clock=clock)
    instance = Instance("a", [], mutex, clock, overlap=overlap)
    async with running(instance):
        instance.adapter.scheduler.run_now(instance.adapter.jobs[0])
        await asked.wait()
        instance.application.stop()
        await anyio.wait_all_tasks_blocked()
        answer.set()
    assert instance.journal == []
    assert mutex._records["schedule:job"].nonce is None


async def test_run_now_after_a_launch_that_was_skipped() -> None:
    """X8: only the run at launch counts as a slot, although its condition skipped it."""
    clock = VirtualClock(START)
    mutex = MemoryMutex(clock=clock)
    skip = [True]
    journal: list[str] = []
    instance = Instance(
        "a", journal, mutex, clock, immediate=True, skip_if=lambda context: skip[0]
    )
    async with running(instance):
        await clock.advance("10s")
        assert await mutex.try_acquire("schedule:job", lease=1, slot=clock.now()) is not None
        clock.jump("5s")
        skip[0] = False
        instance.adapter.scheduler.run_now(instance.adapter.jobs[0])
        await clock.advance(0)
    assert len(journal) == 1


@pytest.mark.parametrize("closing", ["long", "raises", "hides"])
async def test_lease_lost_while_the_scope_is_closed(closing: str) -> None:
    """X5: `on_error` hears of it, whatever closing the scope makes of the end of the run."""
    clock = VirtualClock("2026-01-01T12:00:00Z")
    mutex = MemoryMutex(clock=clock)
    hooks = Hooks()

    class Closing:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *details: object) -> bool:
            if closing == "long":
                await clock.sleep("2m")
            if closing == "raises":
                raise RuntimeError("rollback failed")
            return closing == "hides"

    class Jobs(Controller):
        @schedule("10m", exclusive=True, name="job")
        async def job(self) -> None:
            await self.scope.enter_async_context(Closing())
            if closing != "long":
                await clock.sleep("2m")

    adapter = schedule_entrypoint(clock=clock, on_error=hooks.on_error)
    entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter)
    async with application_of(entrypoint, mutex=mutex):
        await clock.advance("10m5s")
        mutex._records.clear()
        await mutex.try_acquire("schedule:job", lease=10 * MINUTE)
        await clock.advance("3m")
        assert adapter.jobs[0]["last"]["error"]["reason"] == "revoked"
    assert [type(error) for error, _, _ in hooks.errors] == [LeaseLostError]


async def test_mutex_whose_start_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: it is a `MutexError`, and does not keep the job running for ever."""

    class Hanging(MemoryMutex):
        async def __aenter__(self) -> Any:
            await anyio.sleep_forever()

    monkeypatch.setattr(exclusive, "LONGEST_CALL", 0.05)
    adapter = schedule_entrypoint(on_error=lambda error, *facts: told.append(error))
    told: list[Exception] = []

    class Jobs(Controller):
        @schedule("1h", exclusive=True)
        async def job(self) -> None: ...

    application = Application(
        id="app",
        name="App",
        components={
            "mutex": Hanging(),
            "entrypoint": build_entrypoints(controllers=[Jobs], schedule=adapter),
        },
        bootstrap=["entrypoint"],
    )
    async with application:
        adapter.scheduler.run_now(adapter.jobs[0])
        while not told:
            await anyio.lowlevel.checkpoint()
    assert [type(error) for error in told] == [MutexError]


async def test_failed_run_has_its_token_in_the_hook() -> None:
    """X6: the context that `on_error` gets is the one that the run had."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    hooks = Hooks()
    seen: list[int | None] = []

    class Jobs(Controller):
        @schedule("1m", exclusive=True)
        async def job(self) -> None:
            seen.append(self.context.lease_token)
            raise ValueError("no rows")

    adapter = schedule_entrypoint(clock=clock, on_error=hooks.on_error)
    entrypoint = build_entrypoints(controllers=[Jobs], schedule=adapter)
    async with application_of(entrypoint, mutex=MemoryMutex(clock=clock)):
        await clock.advance("1m")
    ((_, _, context),) = hooks.errors
    assert context is not None
    assert [context.lease_token] == seen


async def test_two_may_wait_for_quiet() -> None:
    """K11: stopping and aborting both wait for locks that are being given back."""
    locks = exclusive.Locks(application_of(build_entrypoints(controllers=[])), VirtualClock(0))
    done: list[int] = []

    async def wait(number: int) -> None:
        await locks.quiet()
        done.append(number)

    async with anyio.create_task_group() as tasks, locks._calling():
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await anyio.wait_all_tasks_blocked()
    assert sorted(done) == [1, 2]


async def test_lock_whose_release_fails_once_is_given_back() -> None:
    """X5: a lock that no lease ends is released again."""
    clock = VirtualClock("2026-01-01T00:00:00Z")
    tries: list[int] = []

    class Failing(MemoryMutex):
        async def try_acquire(self, key: str, **options: Any) -> Any:
            lease = await super().try_acquire(key, **options)
            if lease is not None:
                release = lease.release

                async def fail_once(*, hold: int = 0) -> bool:
                    tries.append(hold)
                    if len(tries) == 1:
                        raise RuntimeError("can't start new thread")
                    return await release(hold=hold)

                lease.release = fail_once  # type: ignore[method-assign]
            return lease

    mutex = Failing(clock=clock)
    async with running(Instance("a", [], mutex, clock)):
        await clock.advance("1m")
        assert len(tries) == 2
        assert mutex._records["schedule:job"].nonce is None


WRONG: dict[str, Any] = {
    "text": "locks",
    "number": 1,
    "no mutex": Exclusive(mutex=""),
    "no key": Exclusive(key=""),
    "key that is no text": Exclusive(key=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("option", WRONG.values(), ids=WRONG)
def test_wrong_options(option: Any) -> None:
    """K2: what does not say how a job is exclusive is refused where the class is defined."""
    with pytest.raises(InvalidArgumentError):
        schedule("1m", exclusive=option)
