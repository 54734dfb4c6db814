"""SIGINT and SIGTERM, for a main thread that waits."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HEEDED = signal.SIGINT, signal.SIGTERM

_LOOK = 0.2
"""How many seconds the main thread waits at once."""


def wait_heeding(event: threading.Event, seconds: float = math.inf) -> bool:
    """Wait in the main thread for an event, and return whether it is set.

    Python calls handlers in the main thread only, and a signal that the system hands to
    another thread, or just before the wait begins, does not wake it: so it looks up.
    """
    while not event.wait(min(_LOOK, seconds)):
        seconds -= _LOOK
        if seconds <= 0:
            return False
    return True


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
