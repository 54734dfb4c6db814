"""A row: named fields that are safe from any thread, and told to the array it sits in."""

from __future__ import annotations

import threading
from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext
from reprlib import recursive_repr
from typing import Any, Protocol

from weftjobs.errors import JobsError, shown

MISSING: Any = object()
"""The value of a field that is not there."""

loose = threading.RLock()
"""Guards the rows that are in no array. Whoever takes it holds no other lock but an array's."""

_NO_FIELDS: tuple[tuple[str, Any], ...] = ()


class Owner(Protocol):
    """What a row knows of the array it sits in."""

    _lock: threading.RLock

    def _write(self, row: Row, key: str, value: Any) -> None: ...
    def _erase(self, row: Row, key: str) -> None: ...
    def _block(self) -> AbstractContextManager[None]: ...
    def _release(self, row: Row) -> None: ...
    def _let_go_unasked(self, row: Row) -> None: ...


class Row(MutableMapping[str, Any]):
    """A row of an `ObservableArray`: named fields, any of them yours.

    A row is equal to itself only: two rows with the same content are two rows.

    A value is replaced, not mutated in place: a list or dict held in a field is not
    observed inside, so write `row["tags"] = [*row["tags"], "new"]`. Assigning an equal
    value of the same type is not a change.

    Every read and write is safe from any thread. Reads that belong together go into one
    `atomic` block.

        >>> row = Row(name="digest", cron="0 7 * * *", tz="America/Toronto")
        >>> row["cron"] = "0 8 * * *"
        >>> row["cron"]
        '0 8 * * *'

    Args:
        fields: A mapping, or pairs, to take fields from.
        more: Fields by name.

    Raises:
        JobsError: `invalid`, when they are no fields, or the name of one is not a string.
    """

    __slots__ = ("__weakref__", "_array", "_fields", "_position")

    _array: Owner | None
    _fields: dict[str, Any]
    _position: int
    """Where the array last saw it; set when it comes into one."""

    def __init__(
        self,
        fields: Mapping[str, Any] | Iterable[tuple[str, Any]] = _NO_FIELDS,
        /,
        **more: Any,
    ) -> None:
        self._fields = more if fields is _NO_FIELDS else {**_read(fields), **more}
        self._array = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return Row, (dict(self.items()),)

    @recursive_repr("Row({...})")
    def __repr__(self) -> str:
        # Without the lock: errors show rows of other arrays, whose locks may wait for ours.
        return f"Row({self._fields.copy()!r})"

    def _hold(self) -> threading.RLock:
        """Acquire the lock that guards this row now, and return it."""
        while True:
            array = self._array
            lock = loose if array is None else array._lock
            lock.acquire()
            if self._array is array:
                return lock
            lock.release()

    def __getitem__(self, key: str) -> Any:
        lock = self._hold()
        try:
            return self._fields[key]
        finally:
            lock.release()

    def get(self, key: str, default: Any = None) -> Any:
        lock = self._hold()
        try:
            return self._fields.get(key, default)
        finally:
            lock.release()

    def __contains__(self, key: object) -> bool:
        return key in self._snapshot()

    def __len__(self) -> int:
        return len(self._snapshot())

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshot())

    def keys(self) -> KeysView[str]:
        """Return the names of the fields as they are now."""
        return self._snapshot().keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of the fields as they are now."""
        return self._snapshot().values()

    def items(self) -> ItemsView[str, Any]:
        """Return the fields as they are now: `dict(row.items())` is of one moment."""
        return self._snapshot().items()

    def _snapshot(self) -> dict[str, Any]:
        lock = self._hold()
        try:
            return self._fields.copy()
        finally:
            lock.release()

    def __setitem__(self, key: str, value: Any) -> None:
        if type(key) is not str:
            _check_key(key)
        lock = self._hold()
        try:
            array, fields = self._array, self._fields
            if array is not None:
                array._write(self, key, value)
            else:
                fields[key] = value
        finally:
            lock.release()

    def __delitem__(self, key: str) -> None:
        lock = self._hold()
        try:
            if key not in self._fields:
                raise KeyError(key)
            if self._array is not None:
                self._array._erase(self, key)
            else:
                del self._fields[key]
        finally:
            lock.release()

    def update(self, fields: Any = _NO_FIELDS, /, **more: Any) -> None:
        """Set several fields in one commit."""
        values = {**_read(fields), **more}
        with self._step():
            for key, value in values.items():
                self[key] = value

    def pop(self, key: str, default: Any = MISSING) -> Any:
        """Delete a field and return what it held, or the default when there is no such field."""
        with self._step():
            if key not in self._fields and default is not MISSING:
                return default
            value = self._fields[key]
            del self[key]
            return value

    def popitem(self) -> tuple[str, Any]:
        """Delete the field that was added last and return its name and value."""
        with self._step():
            key = next(reversed(self._fields), MISSING)
            if key is MISSING:
                raise KeyError("the row has no fields")
            return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a field, set to the default first when there is no such field."""
        with self._step():
            if key not in self._fields:
                self[key] = default
            return self._fields[key]

    def clear(self) -> None:
        """Delete every field in one commit."""
        with self._step():
            for key in tuple(self._fields):
                del self[key]

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One step for other threads, and one commit where the row is in an array."""
        lock = self._hold()
        try:
            with nullcontext() if self._array is None else self._array._block():
                yield
        finally:
            lock.release()


def _read(fields: Any) -> dict[str, Any]:
    try:
        found = dict(fields.items() if isinstance(fields, Row) else fields)
    except (TypeError, ValueError) as error:
        raise JobsError(
            f"row: {shown(fields)} is not a mapping of fields",
            reason="invalid",
            fix="Give fields by name, Row(every='1h'), or in a dict.",
        ) from error
    for key in found:
        _check_key(key)
    return found


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise JobsError(
            f"row: {shown(key)} is not the name of a field",
            reason="invalid",
            fix="Name a field with a string.",
        )


def check_row(value: object) -> None:
    """Refuse what is not a row, with reason `invalid`."""
    if not isinstance(value, Row):
        raise JobsError(
            f"row: {shown(value)} is not a Row", reason="invalid", fix="Wrap it: Row(mapping)."
        )


def already_in_array(row: Row) -> JobsError:
    """Return the error for a row that cannot be added."""
    return JobsError(
        f"row: {shown(row)} already sits in an array",
        reason="invalid",
        fix="Remove it there first, or add a copy: Row(row).",
    )
