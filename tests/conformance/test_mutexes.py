"""What every mutex does: one suite, and each of them through it, with real servers."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import psycopg
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.servers import Postgres, Valkey
from weftjobs import InvalidScheduleError
from weftjobs.testing import VirtualClock
from weftjobs_controllers import InvalidArgumentError, MutexError
from weftjobs_controllers.mutexes import (
    FileMutex,
    MemoryMutex,
    Mutex,
    PostgresMutex,
    RedisMutex,
)
from weftjobs_controllers.mutexes import file as file_mutex
from weftjobs_controllers.mutexes import postgres as postgres_mutex
from weftjobs_controllers.mutexes import redis as redis_mutex
from weftjobs_controllers.mutexes._blocking import BlockingMutex
from weftjobs_controllers.mutexes._record import MEMORY, Record

LONG = 60_000
KINDS = ["memory", "file", "redis", "postgres"]
FAR = 4_102_444_800_000
"""The year 2100, which lies in the future of every store."""


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Any) -> Callable[..., BlockingMutex]:
    """Give a function that makes a mutex; all that it makes share their store."""
    if request.param == "memory":
        shared = MemoryMutex()
        return lambda **options: shared
    if request.param == "file":
        return lambda **options: FileMutex(tmp_path / "locks", **options)
    if request.param == "redis":
        server: Valkey = request.getfixturevalue("valkey")
        return lambda **options: RedisMutex(server.url, **options)
    database: Postgres = request.getfixturevalue("postgres")
    return lambda **options: PostgresMutex(database.conninfo, **options)


@pytest.fixture
async def mutex(make: Callable[..., BlockingMutex]) -> AsyncIterator[BlockingMutex]:
    """Give a mutex, and close it."""
    async with make() as mutex:
        yield mutex


@pytest.fixture
def key() -> str:
    """Give a key that no other test uses."""
    return f"schedule:{uuid4().hex}"


async def test_one_holder_at_a_time(mutex: Mutex, key: str) -> None:
    """X6: a lock that is held is not to be had, and is when it was given back."""
    lease = await mutex.try_acquire(key, lease=LONG)
    assert lease is not None
    assert lease.key == key
    assert await mutex.try_acquire(key, lease=LONG) is None
    assert await mutex.try_acquire(f"{key}:other", lease=LONG) is not None
    assert await lease.release()
    assert await mutex.try_acquire(key, lease=LONG) is not None


async def test_token_grows_with_every_acquisition(mutex: Mutex, key: str) -> None:
    """X6: so that a resource can refuse who came before."""
    tokens = []
    for _ in range(5):
        lease = await mutex.try_acquire(key, lease=LONG)
        assert lease is not None
        tokens.append(lease.token)
        await lease.release()
    assert tokens == sorted(set(tokens))


async def test_hold_keeps_others_away(mutex: Mutex, key: str) -> None:
    """X3: the store holds the lock after the release, and its holder is gone."""
    lease = await mutex.try_acquire(key, lease=LONG)
    assert lease is not None
    assert await lease.release(hold=LONG)
    assert await mutex.try_acquire(key, lease=LONG) is None
    assert not await lease.renew()
    assert not await lease.release()


async def test_hold_ends(mutex: Mutex, key: str) -> None:
    """X3: the hold ends by the time of the store, not before."""
    lease = await mutex.try_acquire(key, lease=LONG)
    assert lease is not None
    begun = time.perf_counter()
    await lease.release(hold=200)
    while await mutex.try_acquire(key, lease=LONG) is None:
        await anyio.lowlevel.checkpoint()
    assert time.perf_counter() - begun > 0.19


async def test_lease_ends_and_harms_nobody_afterwards(
    make: Callable[..., BlockingMutex], key: str, request: pytest.FixtureRequest
) -> None:
    """X5, X6: a holder that is late learns that it lost, and the new one is untouched."""
    async with make() as first, make() as second:
        if isinstance(first, FileMutex):
            pytest.skip("a file lock ends with its process, not by time")
        late = await first.try_acquire(key, lease=200)
        assert late is not None
        while (fresh := await second.try_acquire(key, lease=LONG)) is None:
            await anyio.lowlevel.checkpoint()
        assert fresh.token > late.token
        assert not await late.renew()
        assert not await late.release(hold=LONG)
        assert await fresh.renew()
        assert await first.try_acquire(key, lease=LONG) is None
        assert await fresh.release()


async def test_renewed_lease_lasts(mutex: Mutex, key: str) -> None:
    """X5: a lease that is renewed outlives its first end, several times over."""
    lease = await mutex.try_acquire(key, lease=200)
    assert lease is not None
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.9:
        assert await lease.renew()
        assert await mutex.try_acquire(key, lease=LONG) is None
    assert await lease.release()


async def test_holder_that_wakes_and_was_not_missed_goes_on(mutex: Mutex, key: str) -> None:
    """X5: an expired lease that nobody took may still be renewed."""
    lease = await mutex.try_acquire(key, lease=1)
    assert lease is not None
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.05:
        await anyio.lowlevel.checkpoint()
    assert await lease.renew()


async def test_slot_starts_once(mutex: Mutex, key: str) -> None:
    """X4: a slot that is not later than the latest is refused; a run by hand has none."""
    for slot, expected in [(2000, True), (2000, False), (1000, False), (None, True), (3000, True)]:
        lease = await mutex.try_acquire(key, lease=LONG, slot=slot)
        assert (lease is not None) == expected, slot
        if lease is not None:
            await lease.release()
    assert await mutex.try_acquire(key, lease=LONG, slot=3000) is None


async def test_slot_is_claimed_once_by_many(make: Callable[..., BlockingMutex], key: str) -> None:
    """X4: of many instances that ask for one slot at once, one gets it."""
    won: list[int] = []

    async def instance(slot: int) -> None:
        async with make() as mutex:
            lease = await mutex.try_acquire(key, lease=LONG, slot=slot)
            if lease is not None:
                won.append(slot)
                await lease.release()

    for slot in range(1000, 1010):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(instance, slot)
    assert won == list(range(1000, 1010))


async def test_lost_answer(mutex: BlockingMutex, key: str) -> None:
    """X6: an attempt that is made again finds that it has the lock already."""
    token = mutex._claim(key, "nonce", LONG, 1000)
    if isinstance(mutex, FileMutex):
        pytest.skip("a file answers, or the process is gone")
    assert mutex._claim(key, "nonce", LONG, 1000) == token
    assert mutex._claim(key, "other", LONG, 2000) is None
    assert mutex._release(key, "nonce", 0)


async def test_cancelled_attempt_gives_the_lock_back(
    mutex: BlockingMutex, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X8: nobody waits for the answer any more, so the lock that it brings is given back."""
    if isinstance(mutex, MemoryMutex):
        pytest.skip("it answers at once")
    asked, answer, back = threading.Event(), threading.Event(), threading.Event()
    claim, release = mutex._claim, mutex._release

    def slow_claim(*arguments: Any) -> int | None:
        asked.set()
        answer.wait(20)
        return claim(*arguments)

    def noted_release(*arguments: Any) -> bool:
        released = release(*arguments)
        back.set()
        return released

    monkeypatch.setattr(mutex, "_claim", slow_claim)
    monkeypatch.setattr(mutex, "_release", noted_release)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: mutex.try_acquire(key, lease=LONG, slot=1000))
        await anyio.to_thread.run_sync(asked.wait)
        tasks.cancel_scope.cancel()
    answer.set()
    assert await anyio.to_thread.run_sync(back.wait, 20)
    monkeypatch.undo()
    assert await mutex.try_acquire(key, lease=LONG, slot=1000) is None
    assert await mutex.try_acquire(key, lease=LONG, slot=2000) is not None


async def test_slot_of_a_clock_that_was_years_ahead_is_forgotten(
    mutex: BlockingMutex, key: str, request: pytest.FixtureRequest
) -> None:
    """X4: ten minutes after its last run; until then it is refused as any slot."""
    lease = await mutex.try_acquire(key, lease=LONG, slot=FAR)
    assert lease is not None
    await lease.release()
    assert await mutex.try_acquire(key, lease=LONG, slot=FAR - 1) is None
    age(mutex, key, MEMORY, request)
    again = await mutex.try_acquire(key, lease=LONG, slot=FAR - 1)
    assert again is not None


def age(mutex: Mutex, key: str, by: int, request: pytest.FixtureRequest) -> None:
    """Have the record of a key be touched so many ms earlier."""
    if isinstance(mutex, MemoryMutex):
        record = mutex._records[key]
        mutex._records[key] = Record(**{**fields(record), "touched": record.touched - by})
    elif isinstance(mutex, FileMutex):
        record = mutex._read(key)
        mutex._write(key, Record(**{**fields(record), "touched": record.touched - by}))
    elif isinstance(mutex, RedisMutex):
        client = redis.Redis.from_url(request.getfixturevalue("valkey").url)
        client.hincrby(f"weftjobs:{key}", "touched", -by)
        client.close()
    else:
        statement = "UPDATE weftjobs_locks SET touched = touched - %s WHERE key = %s"
        with psycopg.connect(request.getfixturevalue("postgres").conninfo) as connection:
            connection.execute(statement, [by, key])


def fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in Record.__slots__}


slots = st.one_of(st.none(), st.integers(1, 5), st.integers(FAR, FAR + 3))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.sampled_from("abc"), st.just(LONG), slots),
        st.tuples(st.just("renew"), st.sampled_from("abc"), st.just(LONG)),
        st.tuples(st.just("release"), st.sampled_from("abc"), st.sampled_from([0, 0, LONG])),
    ),
    max_size=12,
)


@given(steps=steps)
@settings(max_examples=60)
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_stores_do_what_the_record_does(
    kind: str, steps: list[Any], request: pytest.FixtureRequest
) -> None:
    """X4, X6: scripts and statements do the same as the record, whatever the order."""
    mutex: BlockingMutex = (
        RedisMutex(request.getfixturevalue("valkey").url)
        if kind == "redis"
        else PostgresMutex(request.getfixturevalue("postgres").conninfo)
    )
    key, record, now = uuid4().hex, Record(), 1_000_000
    for name, nonce, *values in steps:
        now += 1
        changed = getattr(record, name)(nonce, now, *values)
        answer = getattr(mutex, f"_{name}")(key, nonce, *values)
        assert (answer is not None and answer is not False) == (changed is not None)
        record = record if changed is None else changed
    mutex._close()


async def test_closing_leaves_nothing_open(make: Callable[..., BlockingMutex], key: str) -> None:
    """X6: no thread and no connection stays behind, and closing twice is harmless."""
    mutex = make()
    lease = await mutex.try_acquire(key, lease=LONG)
    assert lease is not None
    await lease.release()
    await mutex.aclose()
    await mutex.aclose()
    if isinstance(mutex, PostgresMutex):
        assert mutex._idle == []
    if isinstance(mutex, FileMutex):
        assert mutex._held == {}
    ours = [thread for thread in threading.enumerate() if thread.name == "weftjobs"]
    for thread in ours:
        thread.join(20)
    assert [thread for thread in ours if thread.is_alive()] == []


async def test_closing_leaves_the_locks_of_others_alone(
    make: Callable[..., BlockingMutex], key: str
) -> None:
    """X5, X6: a mutex that two applications share is closed by one of them in mid-run."""
    mutex = make()
    lease = await mutex.try_acquire(key, lease=LONG)
    assert lease is not None
    await mutex.aclose()
    assert await mutex.try_acquire(key, lease=LONG) is None
    assert await lease.renew()
    assert await lease.release()
    await mutex.aclose()


@pytest.mark.parametrize("kind", ["valkey", "postgres"])
async def test_claim_that_a_stopped_server_carries_out_late(
    kind: str, key: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X8: nobody waits for it any more, so that it locks nothing when the server goes on."""
    server: Any = request.getfixturevalue(kind)
    mutex: BlockingMutex = (
        RedisMutex(server.url) if kind == "valkey" else PostgresMutex(server.conninfo)
    )
    async with mutex:
        lease = await mutex.try_acquire(key, lease=LONG)
        assert lease is not None
        await lease.release()
        monkeypatch.setattr(redis_mutex, "LONGEST_ANSWER", 500)
        monkeypatch.setattr(postgres_mutex, "LONGEST_ANSWER", 500)
        server.suspend()
        try:
            with pytest.raises(MutexError):
                await mutex.try_acquire(key, lease=LONG)
        finally:
            server.resume()
        while True:
            # The server carries out what waited in its sockets first.
            try:
                assert await mutex.try_acquire(key, lease=LONG) is not None
                break
            except MutexError:
                continue


async def test_file_mutex_after_a_boot_in_the_wrong_year(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: what was run in the wrong year is forgotten once the clock is right."""
    ahead = 8 * 366 * 86_400_000
    now: Callable[[], int] = file_mutex._now
    monkeypatch.setattr(file_mutex, "_now", lambda: now() + ahead)
    mutex = FileMutex(tmp_path)
    lease = await mutex.try_acquire("key", lease=LONG, slot=now() + ahead)
    assert lease is not None
    await lease.release(hold=LONG)
    monkeypatch.undo()
    assert await mutex.try_acquire("key", lease=LONG, slot=now()) is not None


async def test_folder_of_a_file_mutex_stays_where_it_was(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X7: a relative one is meant from where the mutex was made."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    mutex = FileMutex("locks")
    lease = await mutex.try_acquire("key", lease=LONG)
    assert lease is not None
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert await lease.renew()
    assert await mutex.try_acquire("key", lease=LONG) is None
    assert await lease.release()


def test_url_does_not_change_the_time_outs() -> None:
    """X7: they are of at most two seconds, whatever the URL says."""
    mutex = RedisMutex("redis://localhost/0?socket_timeout=60&socket_connect_timeout=60")
    options = mutex._client.connection_pool.connection_kwargs
    assert options["socket_timeout"] <= 2
    assert options["socket_connect_timeout"] <= 2
    with pytest.raises(InvalidArgumentError, match=r"^url: "):
        RedisMutex("http://localhost")


async def test_table_whose_name_is_a_word_of_sql(postgres: Postgres, key: str) -> None:
    """X7: a name is a name."""
    async with PostgresMutex(postgres.conninfo, table="user") as mutex:
        assert await mutex.try_acquire(key, lease=LONG) is not None


@pytest.mark.parametrize("lease", [999, "0.5s", 0, "soon", None, True])
def test_lease_is_a_duration_of_a_second_at_least(lease: Any) -> None:
    """X5, Z2: anything else is refused, naming it."""
    with pytest.raises(InvalidScheduleError, match=r"^lease: "):
        MemoryMutex(lease=lease)


async def test_empty_key(mutex: Mutex) -> None:
    """Z3: a key is text."""
    with pytest.raises(InvalidArgumentError, match=r"^key: '' is empty"):
        await mutex.try_acquire("", lease=LONG)


UNREACHABLE: dict[str, Callable[[Any], Mutex]] = {
    "file": lambda folder: FileMutex(folder / "file" / "locks"),
    "redis": lambda folder: RedisMutex(f"unix://{folder}/nobody"),
    "postgres": lambda folder: PostgresMutex(f"host={folder}/nobody dbname=postgres"),
}


@pytest.mark.parametrize("unreachable", UNREACHABLE.values(), ids=UNREACHABLE)
async def test_store_that_cannot_be_reached(
    unreachable: Callable[[Any], Mutex], tmp_path: Any
) -> None:
    """X1, Z3: the error names the store and the key."""
    (tmp_path / "file").write_text("not a folder")
    async with unreachable(tmp_path) as mutex:
        with pytest.raises(MutexError, match="does not answer for 'schedule:x'") as raised:
            await mutex.try_acquire("schedule:x", lease=LONG)
    assert raised.value.key == "schedule:x"
    assert raised.value.reason == "mutex"


async def test_memory_on_a_virtual_clock() -> None:
    """X7: leases and holds of the memory end by its clock."""
    clock = VirtualClock(0)
    mutex = MemoryMutex(clock=clock)
    lease = await mutex.try_acquire("key", lease=mutex.lease)
    assert lease is not None
    clock.jump("29s")
    assert await mutex.try_acquire("key", lease=mutex.lease) is None
    clock.jump("1s")
    fresh = await mutex.try_acquire("key", lease=mutex.lease)
    assert fresh is not None
    assert not await lease.renew()


@pytest.mark.parametrize("table", ["", "a b", "locks;", "a.b.c", 'x"y', "ünder"])
def test_table_is_a_name(table: str) -> None:
    """Z3: what is put into statements is a plain name."""
    with pytest.raises(InvalidArgumentError, match=r"^table: "):
        PostgresMutex("dbname=x", table=table)
