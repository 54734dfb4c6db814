"""The heap of what is due when: plain data, no clock and no event loop."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_KEEP_DEAD = 64
"""How many timers that no longer count may stay in any heap, however short."""


class Timers(Generic[K]):
    """Keys by when they are due, in the order in which they were armed.

    Disarming leaves the timer in the heap; the heap is rebuilt when half of it is such.
    """

    def __init__(self) -> None:
        self._armed: dict[K, tuple[int, int, K]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._order = count()

    def arm(self, key: K, due: int) -> None:
        """Have a key due at the given time, and no longer when it was before."""
        self._armed[key] = timer = (due, next(self._order), key)
        heap = self._heap
        heappush(heap, timer)
        if len(heap) > 2 * len(self._armed) + _KEEP_DEAD:
            self._rebuild()

    def disarm(self, key: K) -> None:
        """Have a key due no longer."""
        if self._armed.pop(key, None) and len(self._heap) > 2 * len(self._armed) + _KEEP_DEAD:
            self._rebuild()

    def due(self, key: K) -> int | None:
        """Return when a key is due, or `None`."""
        timer = self._armed.get(key)
        return None if timer is None else timer[0]

    def next_due(self) -> int | None:
        """Return when the soonest is due, or `None`."""
        heap, armed = self._heap, self._armed
        while heap:
            timer = heap[0]
            if armed.get(timer[2]) is timer:
                return timer[0]
            heappop(heap)
        return None

    def pop(self, now: int) -> tuple[int, K] | None:
        """Disarm and return the soonest with when it was due, if that is not past now."""
        heap, armed = self._heap, self._armed
        while heap:
            timer = heap[0]
            due, _, key = timer
            if armed.get(key) is not timer:
                heappop(heap)
            elif due > now:
                break
            else:
                heappop(heap)
                del armed[key]
                return due, key
        return None

    def clear(self) -> None:
        """Disarm everything."""
        self._armed.clear()
        self._heap.clear()

    def _rebuild(self) -> None:
        self._heap = list(self._armed.values())
        heapify(self._heap)
