"""Where rows stand, as keys that sort: between any two there is room for another.

A key is a number of eight bytes, counted up at the end and down at the start, and more bytes
where rows were put in between. So an edit writes the rows that it moves and no others.
"""

from __future__ import annotations

_MIDDLE = 1 << 62
_WIDTH = 8


def spread(low: bytes | None, high: bytes | None, count: int) -> list[bytes]:
    """Return so many keys between two others; `None` stands for the start and the end."""
    if high is None:
        first = _MIDDLE if low is None else _number(low) + 1
        return [_key(first + step) for step in range(count)]
    if low is None:
        first = _number(high) - count
        return [_key(first + step) for step in range(count)]
    if count == 0:
        return []
    middle = _between(low, high)
    before = spread(low, middle, count // 2)
    return [*before, middle, *spread(middle, high, count - count // 2 - 1)]


def _between(low: bytes, high: bytes) -> bytes:
    key = bytearray()
    bounded = True
    for index in range(max(len(low), len(high)) + 2):
        least = low[index] if index < len(low) else 0
        most = (high[index] if index < len(high) else 0) if bounded else 256
        if most - least > 1:
            key.append((least + most) // 2)
            return bytes(key)
        key.append(least)
        bounded = bounded and most == least
    raise AssertionError(f"there is no room between {low.hex()} and {high.hex()}")


def _number(key: bytes) -> int:
    return int.from_bytes(key[:_WIDTH], "big")


def _key(number: int) -> bytes:
    return number.to_bytes(_WIDTH, "big")
