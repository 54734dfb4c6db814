"""Which values can be stored: those that JSON gives back as they were."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from weftjobs._row import Row
from weftjobs.errors import JobsError, shown

_DEEPEST = 100

_LONGEST_INTEGER = 10_000
"""How many bits: Python itself refuses to write much longer ones as text."""

_FIX = "Store text, numbers, True, False, None, and lists and dicts of these."


def encoded(row: Row, fields: dict[str, object]) -> str:
    """Return fields as JSON.

    Raises:
        JobsError: `not-storable`, naming the field that JSON would not give back as it is.
    """
    for key, value in fields.items():
        check(row, key, value)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def check(row: Row, key: str, value: object) -> None:
    """Refuse a field that cannot be stored."""
    wrong = _why_not(value, 0) or _why_not(key, 0)
    if wrong is not None:
        raise JobsError(
            f"{key}: {shown(value)} of {shown(row)} cannot be stored: {wrong}",
            reason="not-storable",
            fix=_FIX,
        )


def _why_not(value: object, depth: int) -> str | None:
    if value is None or type(value) is bool:
        return None
    if depth > _DEEPEST:
        return "it is nested too deep"
    check = _CHECKS.get(type(value))
    return check(value, depth) if check is not None else f"JSON has no {type(value).__name__}"


def _why_not_list(value: list[object], depth: int) -> str | None:
    return next((why for item in value if (why := _why_not(item, depth + 1))), None)


def _why_not_dict(value: dict[object, object], depth: int) -> str | None:
    for key, item in value.items():
        if type(key) is not str:
            return f"a key in it is a {type(key).__name__}"
        if (why := _why_not(key, depth) or _why_not(item, depth + 1)) is not None:
            return why
    return None


def _why_not_text(value: str, depth: int) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it is not Unicode"
    return None


def _why_not_int(value: int, depth: int) -> str | None:
    return None if value.bit_length() < _LONGEST_INTEGER else "it is too long a number"


def _why_not_float(value: float, depth: int) -> str | None:
    return None if math.isfinite(value) else "JSON has no such number"


# By the exact type: an IntEnum or a subclass of dict would come back as something else.
_CHECKS: dict[type, Callable[[Any, int], str | None]] = {
    int: _why_not_int,
    str: _why_not_text,
    float: _why_not_float,
    list: _why_not_list,
    dict: _why_not_dict,
}
