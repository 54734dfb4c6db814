"""What every test shares: both event loops, and Hypothesis without a deadline."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("weftjobs", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("weftjobs")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("asyncio", {"debug": True}), id="asyncio"),
        pytest.param(("trio", {}), id="trio"),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run every async test, and every async fixture it uses, on each event loop."""
    return request.param
