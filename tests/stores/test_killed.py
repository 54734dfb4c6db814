"""kill -9 at random moments: what was committed is there, and no one-off starts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores.killed import kill_and_check


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_killed_at_random_moments(tmp_path: Path, backend: str) -> None:
    """P2: the array is its commits up to some commit, none that was made is missing."""
    wrong = [kill_and_check(tmp_path, backend, seed) for seed in range(12)]
    assert wrong == [None] * 12
