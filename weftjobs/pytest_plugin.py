"""The pytest plugin: a virtual clock for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from weftjobs.testing import VirtualClock


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """Return a `VirtualClock` at 2026-01-01T00:00:00Z, for `Scheduler(..., clock=...)`."""
    # Every pytest run loads this plugin; only those who use it shall pay for the import.
    from weftjobs.testing import VirtualClock

    return VirtualClock("2026-01-01T00:00:00Z")
