"""What a mutex and a lease are; implement the two to use another store."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self


class Lease(Protocol):
    """A lock that is held for a while, unless it is renewed.

    Attributes:
        key: The key that is locked.
        token: Grows with every acquisition of the key, so that a resource can refuse a holder
            that was paused for longer than its lease (a fencing token).
    """

    key: str
    token: int

    async def renew(self) -> bool:
        """Hold the lock for another full lease, from now on.

        Returns:
            Whether it is still held: not when somebody else has acquired it meanwhile.
        """

    async def release(self, *, hold: int = 0) -> bool:
        """Give the lock back, and keep everybody from acquiring it for another while.

        Args:
            hold: How many milliseconds. The store keeps it, so that it outlives the holder.

        Returns:
            Whether it was still held. A lease that was lost harms nobody.
        """


class Mutex(Protocol):
    """Locks by key. It is an async context manager, so that it can be a component.

    Attributes:
        lease: How many milliseconds a lock is held unless it is renewed.
    """

    lease: int

    async def try_acquire(self, key: str, *, lease: int, slot: int | None = None) -> Lease | None:
        """Acquire a lock without waiting for it.

        Args:
            key: What is locked.
            lease: How many milliseconds it is held, by the time of the store.
            slot: The planned time of the run that wants it, in ms since the epoch. The store
                remembers the latest slot of a key, for 10 minutes at least, and refuses one
                that is not later.

        Returns:
            The lease; `None` when somebody else holds the lock, or the slot was refused.

        Raises:
            MutexError: The store cannot be reached, or does not answer in time.
        """

    async def aclose(self) -> None:
        """Close what the mutex keeps open."""

    async def __aenter__(self) -> Self:
        """Open what the mutex needs."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Close it."""
