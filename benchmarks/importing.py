"""How long an import takes in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import time
start = time.perf_counter()
import {module}
print((time.perf_counter() - start) * 1000)
"""

MODULES = {
    "weftjobs": "weftjobs",
    "weftjobs_controllers": "weftjobs_controllers",
    "APScheduler 3": "apscheduler.schedulers.asyncio",
    "schedule": "schedule",
}


def importing(module: str) -> dict[str, float]:
    """Import a module in a process with nothing else in it: ms, its bytecode being there."""
    import_in_process(module)
    return {"import": import_in_process(module)}


def import_in_process(module: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    return float(subprocess.check_output(command, env=environment))
