"""One of each server for all tests of the mutexes, started when first needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.servers import Postgres, Valkey


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """Give a running Valkey server."""
    server = Valkey()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Give a running PostgreSQL server."""
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.close()
