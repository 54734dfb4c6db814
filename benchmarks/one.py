"""One measurement in this process, which should be a fresh one; the figures go out as JSON.

    python -m benchmarks.one churn weftjobs

`benchmarks.compare` starts one such process after another.
"""

from __future__ import annotations

import json
import sys
from functools import partial

import anyio

from benchmarks.contestants import CONTESTANTS
from benchmarks.cron_times import LIBRARIES, cron
from benchmarks.importing import MODULES, importing
from benchmarks.workloads import WORKLOADS


def measure(workload: str, contestant: str) -> dict[str, float]:
    if workload == "cron":
        return cron(LIBRARIES[contestant])
    if workload == "import":
        return importing(MODULES[contestant])
    entry = CONTESTANTS[contestant]
    return anyio.run(partial(WORKLOADS[workload], entry), backend=entry.backend)


def main() -> None:
    _, workload, contestant = sys.argv
    print(json.dumps(measure(workload, contestant)))


if __name__ == "__main__":
    main()
