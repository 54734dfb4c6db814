"""The public door of the stores, and what going through it brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import weftjobs.stores

ROOT = Path(__file__).parents[2]


def test_exports() -> None:
    """Z5: what is exported is there, sorted, and has a docstring."""
    assert weftjobs.stores.__all__ == ["Edit", "Run", "SQLiteStore", "Store", "open_store"]
    assert all(getattr(weftjobs.stores, name).__doc__ for name in weftjobs.stores.__all__)


def test_import_is_cheap() -> None:
    """P1: the library that locks files is loaded when an array is opened."""
    program = "import sys, weftjobs.stores; print('filelock' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert result.stdout == "False\n"
