"""What a store is: arrays by name, and what became of their rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from weftjobs.rows import ObservableArray, Row
from weftjobs.units import Instant


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a row. Times are milliseconds since the epoch.

    Attributes:
        at: When it started.
        row: The number of the row in the store.
        due: The slot that it ran for.
        status: `running`, `ok` or `failed`. One that is `running` in a store that nobody
            works with was cut off by the end of its process.
        ended: When it ended.
        error: What it failed with, as in the row's `last`.
    """

    at: int
    row: int
    due: int
    status: str
    ended: int | None
    error: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a row's schedule.

    Attributes:
        at: When it was made, in ms since the epoch.
        row: The number of the row in the store.
        kind: `inserted`, `removed` or `edited`.
        changes: The fields that say when the row runs: of each the value before and after,
            `None` when there was none.
    """

    at: int
    row: int
    kind: str
    changes: Mapping[str, tuple[Any, Any]]


class Store(Protocol):
    """Keeps arrays. Entered with `async with`; leave it after the schedulers of its arrays."""

    async def open(self, name: str, *, read_only: bool = False) -> ObservableArray:
        """Return an array with its rows in order: an empty one the first time.

        Every commit of it is stored, whole, before it is delivered. A commit that cannot be
        stored is refused: the error comes out of the edit, and nothing has changed. Asked
        for again, the name gives the same array.

        Args:
            name: The name of the array.
            read_only: Give a copy of how it is now, which refuses edits; while another
                process works with the array, too.

        Raises:
            JobsError: `locked`, when another process works with it; `store`, when it cannot
                be read.
        """

    def history(
        self,
        name: str,
        row: Row | int | None = None,
        *,
        limit: int = 100,
        before: Instant | None = None,
    ) -> AsyncIterator[Run | Edit]:
        """Iterate over what became of the rows of an array, the latest first.

        Args:
            name: The name of the array.
            row: One row, or its number; `None` for all, those that were removed included.
            limit: How many at most.
            before: Only what was before this instant: ms since the epoch, an aware `datetime`,
                or ISO 8601 text with an offset.

        Raises:
            JobsError: `store`, when it cannot be read; `invalid`, when the row is not one of
                the array.
        """

    async def names(self) -> list[str]:
        """Return the names of the arrays that there are.

        Raises:
            JobsError: `store`, when it cannot be read.
        """

    def number(self, name: str, row: Row) -> int:
        """Return the number of a row in the store, as its history has it.

        Raises:
            JobsError: `invalid`, when the row is not in the array.
        """

    async def settled(self) -> None:
        """Wait until everything so far is on disk, so that a loss of power does no harm."""

    async def __aenter__(self) -> Self:
        """Open it."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Close it; its arrays refuse edits from then on."""
