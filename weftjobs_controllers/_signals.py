"""SIGINT and SIGTERM, for a main thread that waits."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HEEDED = signal.SIGINT, signal.SIGTERM


@contextmanager
def heeding_signals(heed: Callable[[signal.Signals, int], None]) -> Iterator[None]:
    """Have signals call `heed(signal, count)` in the main thread, counted from 1."""
    count = 0

    def handle(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        heed(signal.Signals(number), count)

    before = {number: signal.signal(number, handle) for number in _HEEDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            # A handler that was not set by Python is told as None, and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
