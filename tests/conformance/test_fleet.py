"""Exclusive jobs in real processes over real servers, some of which are killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import redis

from tests.conformance.fleet import ROOT, Fleet
from tests.conformance.servers import Postgres, Valkey
from tests.conformance.worker import mutex_of

PLACES = pytest.mark.parametrize("kind", ["file", "valkey", "postgres"])
SERVERS = pytest.mark.parametrize("kind", ["valkey", "postgres"])


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give an empty mutex to share."""
    if kind == "file":
        yield f"file:{tmp_path / 'locks'}"
    elif kind == "valkey":
        server: Valkey = request.getfixturevalue("valkey")
        client = redis.Redis.from_url(server.url)
        client.flushall()
        client.close()
        yield server.url
    else:
        database: Postgres = request.getfixturevalue("postgres")
        with psycopg.connect(database.conninfo) as connection:
            connection.execute("DROP TABLE IF EXISTS weftjobs_locks")
        yield database.conninfo


@pytest.fixture
def fleet(place: str, tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    """Give a function that makes a fleet over the mutex."""
    made: list[Fleet] = []

    def make(**options: Any) -> Fleet:
        made.append(Fleet(tmp_path, place, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@PLACES
def test_eight_processes(kind: str, fleet: Callable[..., Fleet]) -> None:
    """X1, X4: 200 slots of 50 ms, each started once, never two runs at once."""
    eight = fleet()
    eight.start(8)
    eight.work(200)
    eight.stop()
    outcome = eight.outcome()
    assert outcome.doubles == []
    assert outcome.overlaps == []
    assert outcome.errors == {}
    assert outcome.slots >= 200
    # A busy machine loses some; how many an idle one runs is in benchmarks/README.md.
    assert outcome.runs >= 0.5 * outcome.slots
    assert [process.returncode for process in eight.processes] == [0] * 8


@PLACES
def test_holders_that_are_killed(kind: str, fleet: Callable[..., Fleet]) -> None:
    """X4, X5: the slot of a killed holder is not started again, and the job goes on."""
    eight = fleet(takes=15)
    eight.start(8)

    def kill_holder(fleet: Fleet) -> None:
        holder = fleet.holder()
        if holder is not None:
            fleet.kill(holder)
            fleet.start()

    eight.work(100, kill_holder)
    eight.work(40)
    eight.stop()
    outcome = eight.outcome()
    assert eight.killed
    assert outcome.doubles == []
    assert outcome.overlaps == []
    last_kill = max(eight.killed.values())
    after = [line for line in outcome.lines if line["what"] == "start" and line["at"] > last_kill]
    assert after


@SERVERS
def test_server_that_is_killed_and_restarted(
    kind: str, fleet: Callable[..., Fleet], request: pytest.FixtureRequest
) -> None:
    """X4, X7: whatever the server remembers, no slot starts twice and the job goes on."""
    server = request.getfixturevalue(kind)
    eight = fleet(takes=15)
    eight.start(8)
    eight.work(40)
    server.kill()
    server.start()
    restarted = time.monotonic_ns()
    eight.work(80)
    eight.stop()
    outcome = eight.outcome()
    assert outcome.doubles == []
    assert outcome.overlaps == []
    assert max(line["at"] for line in outcome.lines if line["what"] == "start") > restarted


@PLACES
def test_clocks_that_disagree(kind: str, fleet: Callable[..., Fleet]) -> None:
    """X4: instances whose clocks are up to 90 slots apart start each slot once."""
    eight = fleet()
    for ahead in (0, 5, 29, 31, 90):
        eight.start(ahead=ahead * 50 // 60)
    eight.work(60)
    eight.stop()
    outcome = eight.outcome()
    assert outcome.doubles == []
    assert outcome.overlaps == []
    assert outcome.runs >= 30


def lines_of(fleet: Fleet, what: str) -> list[dict[str, Any]]:
    return [line for line in fleet.lines() if line["what"] == what]


def wait_for(fleet: Fleet, what: str, count: int = 1) -> dict[str, Any]:
    """Wait until something was noted so often, and return the latest note of it."""
    while len(found := lines_of(fleet, what)) < count:
        assert any(process.poll() is None for process in fleet.processes), fleet.lines()
        time.sleep(0.005)
    return found[count - 1]


@PLACES
def test_run_of_four_leases(kind: str, fleet: Callable[..., Fleet]) -> None:
    """X5: it keeps its lock, with seven others after it."""
    eight = fleet(every=100, takes=6300, lease=1500)
    eight.start(8)
    end = wait_for(eight, "end")
    starts = [line for line in lines_of(eight, "start") if line["at"] < end["at"]]
    assert len(starts) == 1
    assert lines_of(eight, "error") == []
    eight.stop()


@PLACES
def test_run_that_blocks_its_event_loop(kind: str, fleet: Callable[..., Fleet]) -> None:
    """X5: threads renew the lease, so that not even three leases of blocking lose it."""
    eight = fleet(every=100, takes=100, blocks=4500, lease=1500)
    eight.start(8)
    end = wait_for(eight, "end")
    starts = [line for line in lines_of(eight, "start") if line["at"] < end["at"]]
    assert len(starts) == 1
    assert lines_of(eight, "error") == []
    eight.stop()


@SERVERS
def test_holder_that_is_stopped_past_its_lease(kind: str, fleet: Callable[..., Fleet]) -> None:
    """X5, X6: it learns of the loss when it wakes; the new holder is untouched."""
    two = fleet(every=500, takes=3000, lease=1000)
    two.start(2)
    first = wait_for(two, "start")
    os.kill(first["pid"], signal.SIGSTOP)
    second = wait_for(two, "start", 2)
    assert second["pid"] != first["pid"]
    assert second["token"] > first["token"]
    os.kill(first["pid"], signal.SIGCONT)
    aborted = wait_for(two, "abort")
    assert aborted["pid"] == first["pid"]
    error = wait_for(two, "error")
    assert error["reason"] == "revoked"
    end = wait_for(two, "end")
    assert end["pid"] == second["pid"]
    assert aborted["at"] < end["at"]
    two.stop()
    assert two.outcome().errors == {"revoked": 1}


def test_server_killed_in_a_run_valkey(tmp_path: Path, valkey: Valkey) -> None:
    """X7: it comes back empty: the holder is aborted and told once, before the next slot."""
    fleet = Fleet(tmp_path, valkey.url, every=3000, takes=2500, lease=1000)
    try:
        fleet.start(2)
        start = wait_for(fleet, "start")
        valkey.kill()
        valkey.start()
        aborted = wait_for(fleet, "abort")
        assert aborted["slot"] == start["slot"]
        following = wait_for(fleet, "start", 2)
        assert aborted["at"] < following["at"]
        fleet.stop()
        assert fleet.outcome().errors["revoked"] == 1
    finally:
        fleet.close()


def test_server_killed_in_a_run_postgres(tmp_path: Path, postgres: Postgres) -> None:
    """X7: what was committed comes back: the run goes on when the server is back in time."""
    fleet = Fleet(tmp_path, postgres.conninfo, every=6000, takes=5000, lease=4000)
    try:
        fleet.start(2)
        start = wait_for(fleet, "start")
        postgres.kill()
        postgres.start()
        end = wait_for(fleet, "end")
        assert end["slot"] == start["slot"]
        fleet.stop()
        # The other instance may have asked in vain meanwhile.
        assert fleet.outcome().errors.keys() <= {"mutex"}
    finally:
        fleet.close()


@SERVERS
def test_server_that_is_stopped_in_a_run(
    kind: str, fleet: Callable[..., Fleet], request: pytest.FixtureRequest
) -> None:
    """X5, X9: the holder is told within a lease, and the process ends within 6 seconds."""
    server = request.getfixturevalue(kind)
    one = fleet(every=500, takes=60_000, lease=3000)
    one.start()
    wait_for(one, "start")
    server.suspend()
    stopped = time.monotonic_ns()
    try:
        aborted = wait_for(one, "abort")
        # 0.9 of the lease after the last good renewal, to the ms on a virtual clock elsewhere.
        assert (aborted["at"] - stopped) / 1e6 <= 3000 + 1000
        assert wait_for(one, "error")["reason"] == "unreachable"
        (process,) = one.processes
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)
        assert process.returncode == 0
    finally:
        server.resume()


@PLACES
def test_stop_in_a_run_frees_the_lock(
    kind: str, place: str, fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    """X3, X9: the next slot runs elsewhere, and nothing but records is left behind."""
    two = fleet(every=400, takes=60_000, lease=5000, shutdown=1)
    two.start()
    wait_for(two, "start")
    two.start()
    two.processes[0].send_signal(signal.SIGTERM)
    second = wait_for(two, "start", 2)
    assert second["pid"] == two.processes[1].pid
    two.stop()
    if kind == "file":
        kinds = {path.suffix for path in (tmp_path / "locks").iterdir()}
        assert kinds == {".lock", ".json"}


WEB = """
import os, sys, time
from fastapi import FastAPI
from weftjobs_controllers import (
    Application, Controller, build_entrypoints, schedule, schedule_entrypoint,
)
from tests.conformance.worker import mutex_of

place, journal = os.environ["PLACE"], os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND)


class Jobs(Controller):
    @schedule("50ms", exclusive=True)
    async def job(self):
        os.write(journal, f"{self.context.scheduled_at.timestamp():.3f} {os.getpid()}\\n".encode())


app = FastAPI(lifespan=Application(
    id="web", name="Web",
    components={
        "mutex": mutex_of(place, 1000),
        "entrypoint": build_entrypoints(controllers=[Jobs], schedule=schedule_entrypoint()),
    },
    bootstrap=["mutex", "entrypoint"],
).lifespan)
"""


@PLACES
def test_four_workers_of_a_web_server(kind: str, place: str, tmp_path: Path) -> None:
    """X1: four uvicorn workers over one FastAPI application run each slot once."""
    journal = tmp_path / "journal"
    journal.touch()
    (tmp_path / "web.py").write_text(WEB)
    port = free_port()
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", "web:app", "--workers", "4"),
            *("--port", str(port), "--log-level", "error"),
        ],
        cwd=tmp_path,
        env={
            "PYTHONPATH": f"{ROOT}:{tmp_path}",
            "PLACE": place,
            "JOURNAL": str(journal),
            "PATH": os.environ["PATH"],
        },
    ) as server:
        try:
            while len(slots := read_slots(journal)) < 60:
                assert server.poll() is None
                time.sleep(0.05)
            assert httpx2.get(f"http://127.0.0.1:{port}/docs").status_code == 200
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=20)
    last = slots[-50:]
    assert len(set(slots)) == len(slots)
    assert round((max(last) - min(last)) / 0.05) + 1 == 50


def read_slots(journal: Path) -> list[float]:
    return sorted(float(line.split()[0]) for line in journal.read_text().splitlines())


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def test_mutex_of_a_worker(tmp_path: Path) -> None:
    """X7: the worker of these tests uses the mutexes that are tested."""
    places = [f"file:{tmp_path}", "redis://localhost", "dbname=postgres"]
    names = [type(mutex_of(each, 1000)).__name__ for each in places]
    assert names == ["FileMutex", "RedisMutex", "PostgresMutex"]
