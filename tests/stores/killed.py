"""A program that edits a stored array and runs its rows, until it is killed, and what came of it.

python -m tests.stores.killed FOLDER [--backend trio]
python -m tests.stores.killed FOLDER --rounds 200      # kills it so often, and checks
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import anyio

from weftjobs import Row, RunContext, Scheduler, atomic
from weftjobs.stores import open_store

ROOT = Path(__file__).parents[2]


class Journal:
    """Lines in a file, each there for good once it was written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


async def work(folder: Path) -> None:
    """Append pairs of rows, one commit each, and run the one-off of each pair."""
    journal = Journal(folder / "journal")

    async def run(job: Row, context: RunContext) -> None:
        journal.note("started", job["n"])
        await anyio.lowlevel.checkpoint()

    async with open_store(f"sqlite:///{folder}/jobs.db") as store:
        jobs = await store.open("jobs")
        first = max((row["n"] for row in jobs), default=-1) + 1
        async with Scheduler(jobs, run):
            journal.note("open")
            for number in range(first, first + 100_000):
                with atomic(jobs):
                    jobs.append(Row(n=number, kind="one-off", at=0))
                    jobs.insert(number % 7, Row(n=number, kind="note", every="30d"))
                if number % 5 == 0:
                    await store.settled()
                journal.note("committed", number)
                await anyio.lowlevel.checkpoint()


async def check(folder: Path, lines: list[str]) -> str | None:
    """Return what is wrong with what was left behind, if anything is."""
    async with open_store(f"sqlite:///{folder}/jobs.db") as store:
        rows = list(await store.open("jobs", read_only=True))
    numbers = Counter((row["kind"], row["n"]) for row in rows)
    committed = [int(line.split()[1]) for line in lines if line.startswith("committed")]
    latest = max((number for _, number in numbers), default=-1)
    if latest < max(committed, default=-1):
        return f"a commit was lost: {max(committed)} is not there, but {latest}"
    whole = {(kind, n): 1 for kind in ("one-off", "note") for n in range(latest + 1)}
    if numbers != whole:
        return f"commits were torn: {len(numbers)} rows, not {len(whole)}"
    started = Counter(line.split()[1] for line in lines if line.startswith("started"))
    twice = [number for number, count in started.items() if count > 1]
    return f"one-offs were started twice: {twice}" if twice else None


def kill_and_check(folder: Path, backend: str, seed: int) -> str | None:
    """Start the program, kill it at a random moment, and check."""
    wait = random.Random(seed)
    journal = folder / "journal"
    command = [sys.executable, "-W", "error", "-m", "tests.stores.killed", str(folder)]
    before = journal.read_text().count("open") if journal.exists() else 0
    with subprocess.Popen([*command, "--backend", backend], cwd=ROOT) as program:
        try:
            while not journal.exists() or journal.read_text().count("open") == before:
                assert program.poll() is None, "it has ended"
                time.sleep(0.005)
            time.sleep(wait.uniform(0, 0.15))
            assert program.poll() is None, "it has ended"
        finally:
            program.send_signal(signal.SIGKILL)
    lines = journal.read_text().rpartition("\n")[0].splitlines()
    return anyio.run(check, folder, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backend", default="asyncio")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    if options.rounds is None:
        anyio.run(work, options.folder, backend=options.backend)
        return
    wrong = []
    for number in range(options.rounds):
        backend = ("asyncio", "trio")[number % 2]
        wrong += [why] if (why := kill_and_check(options.folder, backend, number)) else []
    lines = (options.folder / "journal").read_text().splitlines()
    counted = Counter(line.split()[0] for line in lines)
    print(f"{options.rounds} kills, {dict(counted)}, wrong: {wrong}")


if __name__ == "__main__":
    main()
