"""What a store remembers of a key, and the only ways in which it changes.

The scripts of the Redis mutex and the statements of the PostgreSQL mutex do the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MEMORY = 600_000
"""How many ms from the last run a slot is remembered that lies in the future of the store.

One in its past is remembered for good. So an instance whose clock is years ahead keeps the
others from running for these ten minutes, and not for years.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One key. All times are the store's, in ms since the epoch.

    Attributes:
        nonce: Who holds the lock; `None` when it was given back.
        token: The fencing token of the latest acquisition.
        expires: When the lease, or the hold after it, ends.
        slot: The latest slot that was claimed.
        touched: When the record was changed last.
    """

    nonce: str | None = None
    token: int = 0
    expires: int = 0
    slot: int | None = None
    touched: int = 0

    def claim(self, nonce: str, now: int, lease: int, slot: int | None) -> Record | None:
        """Return the record with the lock acquired; `None` when it cannot be."""
        if self.nonce == nonce:
            # The answer to an earlier attempt was lost on its way.
            return replace(self, expires=now + lease, touched=now)
        if self.expires > now or self._refuses(slot, now):
            return None
        # As a rule a clock moves on by more than is acquired: so it grows after a loss too.
        token = max(self.token + 1, now)
        return Record(nonce, token, now + lease, self.slot if slot is None else slot, now)

    def renew(self, nonce: str, now: int, lease: int) -> Record | None:
        """Return the record with the lease renewed; `None` when it was lost."""
        if self.nonce != nonce:
            return None
        return replace(self, expires=now + lease, touched=now)

    def release(self, nonce: str, now: int, hold: int) -> Record | None:
        """Return the record with the lock given back; `None` when it was lost."""
        if self.nonce != nonce:
            return None
        return replace(self, nonce=None, expires=now + hold, touched=now)

    def _refuses(self, slot: int | None, now: int) -> bool:
        if slot is None or self.slot is None or slot > self.slot:
            return False
        return self.slot <= now or abs(now - self.touched) < MEMORY
