"""A process that forks while a scheduler runs: the child's copy must not stay silent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAD = """
import os, signal, sys, anyio
from weftjobs import JobsError, ObservableArray, Row, Scheduler

async def run(job, context):
    ran.set()

def exit_code(error):
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return 7 if isinstance(error, JobsError) and error.reason == "forked" else 8

os.register_at_fork(after_in_child=lambda: signal.alarm(20))
ran = anyio.Event()
jobs = ObservableArray([Row(every=20)])
scheduler = Scheduler(jobs, run, skipped=lambda row, due: None)
"""

ASKED = """
async def main():
    async with scheduler:
        child = os.fork()
        if child == 0:
            try:
                scheduler.run_now(jobs[0])
            except Exception as error:
                os._exit(exit_code(error))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        await ran.wait()

anyio.run(main, backend=sys.argv[1])
"""

WOKEN_ON_TRIO = """
async def main():
    try:
        async with scheduler:
            child = os.fork()
            if child == 0:
                await anyio.sleep_forever()
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            await ran.wait()
    except BaseException as error:
        # The event loops share what they wait on, so the child must not tear its own down.
        os._exit(exit_code(error))

anyio.run(main, backend="trio")
"""

WOKEN_ON_ASYNCIO = """
import asyncio

async def wait_for(task):
    await task

# A loop that runs cannot be forked; one that stands between two steps can.
loop = asyncio.new_event_loop()
serving = loop.create_task(scheduler.serve())
loop.run_until_complete(asyncio.sleep(0))
child = os.fork()
if child == 0:
    try:
        loop.run_until_complete(asyncio.wait_for(wait_for(serving), 10))
    except BaseException as error:
        os._exit(exit_code(error))
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
loop.run_until_complete(ran.wait())
loop.run_until_complete(scheduler.stop())
loop.run_until_complete(serving)
"""


@pytest.mark.parametrize(
    ("script", "backend"),
    [
        pytest.param(ASKED, "asyncio", id="asked-asyncio"),
        pytest.param(ASKED, "trio", id="asked-trio"),
        pytest.param(WOKEN_ON_ASYNCIO, "asyncio", id="woken-asyncio"),
        pytest.param(WOKEN_ON_TRIO, "trio", id="woken-trio"),
    ],
)
def test_forked_child_does_not_stay_silent(script: str, backend: str) -> None:
    """S10: the child's copy of the scheduler raises with reason forked; the parent's runs on."""
    result = subprocess.run(
        [sys.executable, "-c", HEAD + script, backend],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.stderr == ""
    assert result.stdout == "7\n"
    assert result.returncode == 0
