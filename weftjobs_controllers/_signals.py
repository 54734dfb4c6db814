"""SIGINT and SIGTERM, for a main thread that waits."""

from __future__ import annotations

import math
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Self

_HEEDED = signal.SIGINT, signal.SIGTERM

_LOOK = 0.1
"""How many seconds the main thread waits at once."""


def wait_for(event: threading.Event, seconds: float = math.inf) -> bool:
    """Wait in a thread that Ctrl-C may interrupt, and return whether the event is set."""
    return _wait(event, seconds, lambda: None)


class Heeding:
    """Heeds signals for as long as the main thread is inside, and waits for events in it.

    A handler only notes the signal, because it may interrupt the very wait for the event that
    heeding the signal would set. Python calls handlers in the main thread, and one that the
    system hands to another thread, or just before a wait begins, wakes nobody: so the wait
    looks up.

    Args:
        heed: Called with the signal, and with how many there were so far.
    """

    def __init__(self, heed: Callable[[signal.Signals, int], None]) -> None:
        self._heed = heed
        self._received: deque[int] = deque()
        self._count = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _HEEDED}
        return self

    def __exit__(self, *details: object) -> None:
        for number, handler in self._before.items():
            # A handler that was not set by Python is told as None, and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def wait(self, event: threading.Event, seconds: float = math.inf) -> bool:
        """Wait for an event, and return whether it is set."""
        return _wait(event, seconds, self._take)

    def _handle(self, number: int, frame: object) -> None:
        self._received.append(number)

    def _take(self) -> None:
        while self._received:
            self._count += 1
            self._heed(signal.Signals(self._received.popleft()), self._count)


def _wait(event: threading.Event, seconds: float, look: Callable[[], object]) -> bool:
    while not event.wait(min(_LOOK, seconds)):
        look()
        seconds -= _LOOK
        if seconds <= 0:
            return False
    return True
