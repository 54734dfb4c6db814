"""A list whose items know about where they are, and the moves from one order to another."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Protocol, TypeVar


class Placed(Protocol):
    """What can be in `Places`: it is equal to itself only, and keeps its position."""

    _position: int


P = TypeVar("P", bound=Placed)
T = TypeVar("T")


class Places(list[P]):
    """A list that finds its items without searching.

    An item's position is its index, off by `_base` for all of them alike. An insertion or
    removal on the left half moves the base instead of the items on the right.
    """

    __slots__ = ("_base",)

    def __init__(self) -> None:
        super().__init__()
        self._base = 0

    def place(self, index: int, item: P) -> None:
        """Insert an item; the index is not negative."""
        if index * 2 < len(self):
            self._base -= 1
        item._position = index + self._base
        self.insert(index, item)

    def take(self, index: int) -> P:
        """Remove the item at an index that is not negative, and return it."""
        if index * 2 < len(self):
            self._base += 1
        return self.pop(index)

    def shift(self, old: int, new: int) -> None:
        """Move the item at one index to another."""
        self.place(new, self.take(old))

    def replace(self, low: int, high: int, items: list[P]) -> None:
        """Put other items in place of those from low up to high."""
        if low < len(self) - high:
            self._base -= len(items) - (high - low)
        self[low:high] = items
        for position, item in enumerate(items, low + self._base):
            item._position = position

    def locate(self, item: P) -> int:
        """Find an item of the list near where it was last seen.

        An insertion or removal leaves the items on its shorter side one off. They are found
        again by looking around; when that is far, all are numbered anew, so that it costs
        the square root of the length at the most, spread over the edits.
        """
        guess = item._position - self._base
        if 0 <= guess < len(self) and self[guess] is item:
            return guess
        reach = isqrt(len(self)) + 8
        try:
            index = self.index(item, max(guess - reach, 0), max(guess + reach, 0))
        except ValueError:
            for position, other in enumerate(self, self._base):
                other._position = position
            return item._position - self._base
        item._position = index + self._base
        return index


def moves(before: list[T], after: list[T]) -> Iterator[tuple[T, int, int]]:
    """Yield the item, old index and new index of the moves that lead to another order.

    Each item is put in its place from the left. It is found behind the items placed so far,
    after the ones before it that still wait; how many of those have gone already is counted
    in a Fenwick tree.
    """
    rank = {item: index for index, item in enumerate(before)}
    gone = [0] * (len(before) + 1)
    for place, item in enumerate(after):
        start = rank[item]
        waiting, node = start, start
        while node > 0:
            waiting -= gone[node]
            node &= node - 1
        node = start + 1
        while node <= len(before):
            gone[node] += 1
            node += node & -node
        if waiting:
            yield item, place + waiting, place
