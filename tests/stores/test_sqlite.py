"""The SQLite store: what comes back, what is refused, what is remembered, and what goes wrong."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weftjobs import JobsError, ObservableArray, Row, RunContext, Scheduler, atomic
from weftjobs.stores import Edit, Run, Store, open_store
from weftjobs.stores._positions import spread
from weftjobs.testing import VirtualClock

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def contents(jobs: ObservableArray) -> list[dict[str, Any]]:
    return [dict(row) for row in jobs]


async def entries(store: Store, *arguments: Any, **options: Any) -> list[Run | Edit]:
    return [entry async for entry in store.history(*arguments, **options)]


async def test_rows_come_back_in_order(url: str) -> None:
    """P1: an array is empty the first time, then as it was left, with `last`."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        assert contents(jobs) == []
        jobs.extend([Row(name="b", every="1h"), Row(name="c", cron="@daily", tz="UTC")])
        jobs.insert(0, Row(name="a", last={"started": 5, "status": "running"}))
        jobs.move(jobs[2], 1)
        jobs[0]["nested"] = {"list": [1, 2.5, None, True, "ü"]}
        assert await store.open("jobs") is jobs
        assert contents(await store.open("other")) == []
        before = contents(jobs)
    async with open_store(url) as store:
        assert contents(await store.open("jobs")) == before
        assert [row["name"] for row in await store.open("jobs")] == ["a", "c", "b"]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
edits = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "insert", "delete", "move", "reverse", "set", "slice", "unset"]
        ),
        st.integers(0, 9),
        st.integers(0, 9),
        values,
        st.booleans(),
    ),
    max_size=15,
)


@given(edits)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_edited_comes_back(tmp_path: Path, edits: list[Any]) -> None:
    """P1, P2: rows, their order and their fields, whatever the edits and the blocks were."""
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
    anyio.run(edit_and_reopen, f"sqlite:///{path}", edits)


async def edit_and_reopen(url: str, edits: list[Any]) -> None:
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        for name, first, second, value, in_block in edits:
            if in_block:
                with atomic(jobs):
                    edit(jobs, name, first, second, value)
                    edit(jobs, "append", first, second, value)
            else:
                edit(jobs, name, first, second, value)
        before = contents(jobs)
    async with open_store(url) as store:
        assert contents(await store.open("jobs")) == before


def edit(jobs: ObservableArray, name: str, first: int, second: int, value: Any) -> None:  # noqa: C901
    if name == "append":
        jobs.append(Row(n=value))
    elif name == "insert":
        jobs.insert(first, Row(n=value))
    elif name == "reverse":
        jobs.reverse()
    elif name == "slice":
        jobs[first:second] = [Row(n=value), *jobs[first:second][1:][::-1]]
    elif len(jobs):
        row = jobs[first % len(jobs)]
        if name == "delete":
            jobs.remove(row)
        elif name == "move":
            jobs.move(row, second % len(jobs))
        elif name == "unset":
            row.pop(f"key {second}", None)
        else:
            row[f"key {second}"] = value


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), max_size=60))
def test_positions_sort_and_have_room(steps: list[tuple[int, int]]) -> None:
    """P2: between any two rows there is room, so that an edit writes no other rows."""
    keys: list[bytes] = []
    for place, count in steps:
        at = min(place, len(keys))
        low = keys[at - 1] if at else None
        high = keys[at] if at < len(keys) else None
        keys[at:at] = spread(low, high, count)
        assert keys == sorted(keys)
        assert len(set(keys)) == len(keys)


NOT_JSON: dict[str, Any] = {
    "set": {1},
    "tuple": (1, 2),
    "timedelta": timedelta(hours=1),
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "NaN": float("nan"),
    "infinite": float("inf"),
    "bytes": b"x",
    "object": object(),
    "key": {1: "one"},
    "nested": [{"deep": {1, 2}}],
    "lone surrogate": "\ud800",
    "huge": 10**5000,
    "a class of int": type("Level", (int,), {})(5),
}


@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON)
async def test_what_is_not_json_is_refused(url: str, value: Any) -> None:
    """P3: where it is assigned, naming the field; the commit is rolled back."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(name="a"))
        with pytest.raises(JobsError, match=r"^field: ") as raised:
            jobs[0]["field"] = value
        assert raised.value.reason == "not-storable"
        with pytest.raises(JobsError, match=r"^field: ") as raised:
            jobs.append(Row(field=value))
        assert raised.value.reason == "not-storable"
        assert contents(jobs) == [{"name": "a"}]
    async with open_store(url) as store:
        assert contents(await store.open("jobs")) == [{"name": "a"}]


async def test_schedule_that_is_not_json_says_how_to_write_it(url: str) -> None:
    """P3: the message shows the value and the type."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        with pytest.raises(JobsError, match="JSON has no timedelta"):
            jobs.append(Row(every=timedelta(hours=1)))


async def run_hourly(jobs: ObservableArray, hours: int, run: Callable[..., Any]) -> VirtualClock:
    clock = VirtualClock("2026-01-01T00:00:00Z")
    async with Scheduler(jobs, run, failed=lambda *told: None, clock=clock):
        await clock.advance(f"{hours}h")
    return clock


async def test_history_of_runs_and_edits(url: str) -> None:
    """P4: every run with its slot and its end, and every edit of a schedule, the latest first."""

    async def run(job: Row, context: RunContext) -> None:
        if context.due == start + 2 * 3_600_000:
            raise ValueError("no rows")

    start = VirtualClock("2026-01-01T00:00:00Z").now()
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        row = Row(name="a", every="1h")
        jobs.append(row)
        clock = await run_hourly(jobs, 2, run)
        row["note"] = "not about the schedule"
        row["every"] = "2h"
        other = Row(every="1d")
        jobs.append(other)
        del jobs[1]
        number = store.number("jobs", row)
        runs = [entry for entry in await entries(store, "jobs", row) if isinstance(entry, Run)]
        changes = [entry for entry in await entries(store, "jobs") if isinstance(entry, Edit)]
        error = {"message": "no rows"}
        assert runs == [
            Run(clock.now(), number, start + 7_200_000, "failed", clock.now(), error),
            Run(start + 3_600_000, number, start + 3_600_000, "ok", start + 3_600_000, None),
        ]
        assert [(each.row, each.kind, dict(each.changes)) for each in changes] == [
            (number + 1, "removed", {}),
            (number + 1, "inserted", {"every": (None, "1d")}),
            (number, "edited", {"every": ("1h", "2h")}),
            (number, "inserted", {"every": (None, "1h")}),
        ]
        assert len(await entries(store, "jobs", limit=1)) == 1
        early = await entries(store, "jobs", number, before=start + 3_600_001)
        assert [each.at for each in early] == [start + 3_600_000]


async def test_history_counts_no_skipped_run(url: str) -> None:
    """P4, K9a: a run that counts as none leaves no entry."""

    async def run(job: Row, context: RunContext) -> None:
        context.skip()

    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(every="1h"))
        await run_hourly(jobs, 2, run)
        assert [each for each in await entries(store, "jobs") if isinstance(each, Run)] == []


async def test_history_of_overlapping_runs(url: str) -> None:
    """P4, S6: each run has its own end, although `last` is of the latest one."""

    async def run(job: Row, context: RunContext) -> None:
        context.release()
        await clock.sleep("90m")

    clock = VirtualClock("2026-01-01T00:00:00Z")
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(every="1h"))
        async with Scheduler(jobs, run, clock=clock):
            await clock.advance("2h")
            del jobs[0]
            await clock.advance("2h")
        runs = [each for each in await entries(store, "jobs") if isinstance(each, Run)]
        assert [(each.status, (each.ended or 0) - each.at) for each in runs] == [
            ("ok", 5_400_000)
        ] * 2


async def test_history_is_bounded(url: str) -> None:
    """P4: of each row the latest runs are kept, and of all rows that are gone as many."""
    async with open_store(url, kept_runs=10) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(every="1h"))
        await run_hourly(jobs, 500, lambda job, context: None)
        runs = [e for e in await entries(store, "jobs", limit=10_000) if isinstance(e, Run)]
        assert 10 <= len(runs) <= 10 + 64
        for number in range(200):
            jobs.append(Row(every="1h", n=number))
            del jobs[-1]
        gone = {e.row for e in await entries(store, "jobs", limit=10_000)}
        assert len(gone) <= 10 + 2


async def test_running_record_is_on_disk_before_the_run(url: str, path: Path) -> None:
    """P2: who is killed in a run is found running."""
    seen: list[Any] = []

    async def run(job: Row, context: RunContext) -> None:
        connection = sqlite3.connect(path)
        seen.append(connection.execute("SELECT fields FROM rows").fetchone()[0])
        connection.close()

    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(at=0))
        await run_hourly(jobs, 1, run)
    assert '"status":"running"' in seen[0]


async def test_run_whose_record_cannot_be_written_does_not_start(url: str) -> None:
    """P5: it is reported, and other jobs are on time."""
    started: list[str] = []
    failed: list[Any] = []

    def refuse(commit: Any) -> None:
        if any(change.row["name"] == "full" for change in commit):
            raise JobsError("store: no room", reason="store", fix="Make room.")

    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.extend([Row(name="full", every="1h"), Row(name="other", every="1h")])
        jobs.guard(refuse)
        clock = VirtualClock(0)
        async with Scheduler(
            jobs,
            lambda job, context: started.append(job["name"]),
            failed=lambda job, error: failed.append((job["name"], error.reason)),  # type: ignore[attr-defined]
            clock=clock,
        ):
            await clock.advance("2h")
        assert started == ["other", "other"]
        assert failed == [("full", "store")] * 2
        assert "last" not in jobs[0]


LOCKING = """
import sys
import anyio
from weftjobs.stores import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        jobs = await store.open("jobs")
        print("open", flush=True)
        sys.stdin.read()

anyio.run(main)
"""


async def test_second_process_is_refused_and_may_read(url: str, path: Path) -> None:
    """P1: `locked` names the file; reading works meanwhile, and a kill frees the lock."""
    async with open_store(url) as store:
        (await store.open("jobs")).append(Row(name="a"))
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-W", "error", "-c", LOCKING, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    ) as other:
        assert other.stdout is not None
        assert await anyio.to_thread.run_sync(other.stdout.readline) == b"open\n"
        async with open_store(url) as store:
            with pytest.raises(JobsError) as raised:
                await store.open("jobs")
            assert raised.value.reason == "locked"
            assert str(path) in str(raised.value)
            copy = await store.open("jobs", read_only=True)
            assert contents(copy) == [{"name": "a"}]
            with pytest.raises(JobsError, match="read-only"):
                copy.append(Row())
            with pytest.raises(JobsError, match="read-only"):
                copy[0]["x"] = 1
            assert contents(await store.open("another")) == []
            other.kill()
            other.wait()
            assert contents(await store.open("jobs")) == [{"name": "a"}]


async def test_closed_store_refuses_edits(url: str) -> None:
    """P2: nothing is accepted that would not be kept."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
    with pytest.raises(JobsError, match="it is closed"):
        jobs.append(Row())
    assert contents(jobs) == []
    with pytest.raises(JobsError, match="it is closed"):
        await store.open("jobs")


def not_a_database(path: Path) -> None:
    path.write_text("this is a text, and not a database, whatever its name says. " * 100)


def of_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (id INTEGER)")
    connection.close()


def of_the_future(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {0x77656674}")
    connection.execute("PRAGMA user_version = 99")
    connection.execute("CREATE TABLE rows (id INTEGER)")
    connection.close()


BROKEN = {
    "not a database": (not_a_database, "file is not a database"),
    "of another program": (of_another_program, "it is a database of another program"),
    "of the future": (of_the_future, "it is of version 99, newer than 1"),
}


@pytest.mark.parametrize(("make", "message"), BROKEN.values(), ids=BROKEN)
async def test_file_that_is_not_ours(
    url: str, path: Path, make: Callable[[Path], None], message: str
) -> None:
    """P5: the error names the file and what is wrong, and the file is as it was."""
    make(path)
    before = path.read_bytes()
    with pytest.raises(JobsError, match=message) as raised:
        async with open_store(url) as store:
            await store.open("jobs")
    assert raised.value.reason == "store"
    assert str(path) in str(raised.value)
    assert raised.value.fix
    assert path.read_bytes() == before


async def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """P5: it is not made up."""
    with pytest.raises(JobsError, match="its folder does not exist"):
        async with open_store(f"sqlite:///{tmp_path}/no/jobs.db"):
            pytest.fail("it must not open")


READ_ONLY = """
import os
import sys
import anyio
import filelock
from weftjobs import JobsError, Row
from weftjobs.stores import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        (await store.open("jobs")).append(Row(name="a"))
    os.chmod(sys.argv[2], 0o555)
    if os.geteuid() == 0:  # who may write everywhere
        os.setegid(65534)
        os.seteuid(65534)
    async with open_store(sys.argv[1]) as store:
        try:
            await store.open("jobs")
        except JobsError as error:
            print(error.reason, error)
        print([dict(row) for row in await store.open("jobs", read_only=True)])

anyio.run(main)
"""


def test_folder_that_cannot_be_written_to() -> None:
    """P5: opening for writing fails, naming the file; reading goes on."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        url = f"sqlite:///{folder}/jobs.db"
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", READ_ONLY, url, folder],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(ROOT)},
        )
        Path(folder).chmod(0o755)
    assert result.stderr == ""
    refused, rows = result.stdout.splitlines()
    assert refused.startswith(f"store store: {folder}/jobs.db: ")
    assert rows == "[{'name': 'a'}]"


FULL = """
import resource
import sys
import anyio
from weftjobs import JobsError, Row, Scheduler
from weftjobs.stores import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(name="first"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        while True:
            try:
                jobs.append(Row(name="more", text="x" * 10_000))
            except JobsError as error:
                print(error.reason, error, flush=True)
                break
        count = len(jobs)
        print(count)

anyio.run(main)
"""


async def test_full_disk(url: str, path: Path) -> None:
    """P5: the edit is refused, what was accepted is whole, and the array goes on."""
    process = await anyio.run_process(
        [sys.executable, "-W", "error", "-c", FULL, url], env={"PYTHONPATH": str(ROOT)}
    )
    said, count = process.stdout.decode().splitlines()
    assert said.startswith(f"store store: {path}: ")
    async with open_store(url) as store:
        assert len(await store.open("jobs")) == int(count)


async def test_settled_and_synchronous(path: Path) -> None:
    """P2: `settled` returns when all is in the file itself; `synchronous=full` is another way."""
    async with open_store(f"sqlite:///{path}?synchronous=full") as store:
        jobs = await store.open("jobs")
        jobs.append(Row(name="a"))
        await store.settled()
        connection = sqlite3.connect(path)
        (count,) = connection.execute("SELECT count(*) FROM rows").fetchone()
        connection.close()
        assert count == 1


async def test_log_is_worked_into_the_file(url: str, path: Path) -> None:
    """P2: it does not grow for ever, and no commit waits for that."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(n=0))
        for number in range(2_000):
            jobs[0]["n"] = number
        for thread in threading.enumerate():
            if thread.name == "weftjobs":
                await anyio.to_thread.run_sync(thread.join)
        jobs[0]["n"] = -1
        assert path.stat().st_size > 0
    assert not path.with_name("jobs.db-wal").exists()


async def test_row_that_is_taken_out_edited_and_put_back(url: str) -> None:
    """P2, P3: what was edited while it was nobody's is written, or refused, like any edit."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(n=1, every="1h"))
        with atomic(jobs):
            row = jobs.pop(0)
            row["every"] = "2h"
            jobs.insert(0, row)
        with pytest.raises(JobsError, match="cannot be stored"), atomic(jobs):
            row = jobs.pop(0)
            row["x"] = object()
            jobs.insert(0, row)
        assert contents(jobs) == [{"n": 1, "every": "2h"}]
    async with open_store(url) as store:
        assert contents(await store.open("jobs")) == [{"n": 1, "every": "2h"}]


async def test_one_file_has_one_lock(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: whatever it is called, and from wherever it is opened."""
    link = path.with_name("link.db")
    link.symlink_to(path)
    (path.parent / "elsewhere").mkdir()
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        async with open_store(f"sqlite:///{link}") as other:
            with pytest.raises(JobsError) as raised:
                await other.open("jobs")
            assert raised.value.reason == "locked"
    monkeypatch.chdir(path.parent)
    async with open_store("sqlite:///relative.db") as store:
        jobs = await store.open("jobs")
        jobs.append(Row(n=1))
        monkeypatch.chdir(path.parent / "elsewhere")
        await store.settled()
        assert len(await entries(store, "jobs")) == 1
        assert list((path.parent / "elsewhere").iterdir()) == []


async def test_history_is_bounded_over_restarts(url: str) -> None:
    """P4: a process that lives for a few runs only does not add to it for ever."""
    last: list[Run] = []
    for _ in range(6):
        async with open_store(url, kept_runs=10) as store:
            jobs = await store.open("jobs")
            if not jobs:
                jobs.append(Row(every="1h"))
            await run_hourly(jobs, 30, lambda job, context: None)
            last = [e for e in await entries(store, "jobs", limit=1000) if isinstance(e, Run)]
    assert len(last) <= 10 + 30


async def test_positions_stay_short(url: str) -> None:
    """A7: rows that are always put in at one place are numbered anew now and then."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.extend([Row(n="first"), Row(n="last")])
        for number in range(1_500):
            jobs.insert(1, Row(n=number))
        before = contents(jobs)
        stored = store._arrays["jobs"]  # type: ignore[attr-defined]
        assert max(map(len, stored.positions.values())) <= 64
    async with open_store(url) as store:
        assert contents(await store.open("jobs")) == before


async def test_two_runs_that_start_in_one_millisecond(url: str) -> None:
    """S9, P4: their records are equal, and they are two runs all the same."""
    clock = VirtualClock(0)

    async def run(job: Row, context: RunContext) -> None:
        context.release()
        await clock.sleep("1s")

    async with open_store(url, clock=clock) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(every="1h"))
        async with Scheduler(jobs, run, clock=clock) as scheduler:
            for _ in range(2):
                assert scheduler.run_now(jobs[0])
                await clock.advance(0)
            assert scheduler.running(jobs[0]) == 2
            await clock.advance("2s")
        assert len([e for e in await entries(store, "jobs") if isinstance(e, Run)]) == 2


class Reason(StrEnum):
    ODD = "odd"


class Odd(Exception):
    reason = Reason.ODD


@pytest.mark.parametrize("error", [Odd("boom"), Exception("\ud800")])
async def test_error_that_is_hard_to_store(url: str, error: Exception) -> None:
    """S3: how a run ended is written, whatever its error is made of."""

    async def run(job: Row, context: RunContext) -> None:
        raise error

    async with open_store(url) as store:
        jobs = await store.open("jobs")
        jobs.append(Row(at=0))
        await run_hourly(jobs, 1, run)
        assert jobs[0]["last"]["status"] == "failed"


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"limit": None}, {"before": "soon"}, {"before": 10**30}, {"row": "a"}],
)
async def test_wrong_questions(url: str, options: dict[str, Any]) -> None:
    """Z2, Z3: what is no number and no instant is refused."""
    async with open_store(url) as store:
        await store.open("jobs")
        with pytest.raises(JobsError) as raised:
            await entries(store, "jobs", **options)
        assert raised.value.reason == "invalid"
        assert await entries(store, "jobs", before="1970-01-02T00:00:00Z") == []


async def test_edits_from_threads(url: str) -> None:
    """P2, A5: commits of several threads are stored one after another."""
    async with open_store(url) as store:
        jobs = await store.open("jobs")

        def work(name: str) -> None:
            for number in range(100):
                jobs.append(Row(name=name, n=number))

        async with anyio.create_task_group() as tasks:
            for name in "abcd":
                tasks.start_soon(anyio.to_thread.run_sync, work, name)
        before = contents(jobs)
    async with open_store(url) as store:
        assert contents(await store.open("jobs")) == before
    for name in "abcd":
        assert [row["n"] for row in before if row["name"] == name] == list(range(100))


WRONG_URLS = [
    "jobs.db",
    "sqlite://jobs.db",
    "sqlite://",
    "sqlite:///",
    "mysql:///jobs",
    "sqlite:///jobs.db?mode=ro",
    "sqlite:///jobs.db?synchronous=off",
    "sqlite:///jobs.db#part",
    "",
    None,
    5,
]


@pytest.mark.parametrize("wrong", WRONG_URLS)
def test_wrong_urls(wrong: Any) -> None:
    """P1, Z3: what is no URL of a store is refused, with how to write one."""
    with pytest.raises(JobsError, match=r"^url: ") as raised:
        open_store(wrong)
    assert raised.value.fix


@pytest.mark.parametrize("kept", [0, -1, True, 1.5, "10"])
def test_wrong_number_of_runs(kept: Any) -> None:
    """P4, Z3: it is a number of runs, 1 at least."""
    with pytest.raises(JobsError, match=r"^kept_runs: "):
        open_store("sqlite:///jobs.db", kept_runs=kept)


@pytest.mark.parametrize("name", ["", None, 5])
async def test_wrong_names(url: str, name: Any) -> None:
    """P1, Z3: an array is named with text."""
    async with open_store(url) as store:
        with pytest.raises(JobsError, match=r"^name: "):
            await store.open(name)


@pytest.mark.parametrize("name", ["a/b", "ünder score", "x" * 100, "..", "jobs.db"])
async def test_odd_names(url: str, name: str) -> None:
    """P1: any text names an array, and the lock beside the file stays beside it."""
    async with open_store(url) as store:
        (await store.open(name)).append(Row(name=name))
    async with open_store(url) as store:
        assert contents(await store.open(name)) == [{"name": name}]


async def test_number_of_a_row_elsewhere(url: str) -> None:
    """P4, Z3: only rows of the array have a history."""
    async with open_store(url) as store:
        await store.open("jobs")
        with pytest.raises(JobsError, match="is not in the array 'jobs'"):
            store.number("jobs", Row())
