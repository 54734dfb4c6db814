"""What is told to observers and in which order, and how it is undone before it is told."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

C = TypeVar("C")

Undo: TypeAlias = tuple[Callable[..., object], *tuple[Any, ...]]
"""A function that undoes a change, and its arguments."""


class Subscription(Generic[C]):
    """A callback that is told, until it is no longer active."""

    __slots__ = ("active", "callback")

    def __init__(self, callback: Callable[[tuple[C, ...]], object]) -> None:
        self.callback = callback
        self.active = True


class Commits(Generic[C]):
    """The commits of one array, open blocks included. Whoever calls it holds the lock.

    Attributes:
        lock: Held around every change and its delivery.
        marks: How much there was to tell and to undo when each open block began.
        subscriptions: Who is told. When there is none, and no block is open, a change need
            not be emitted at all.
        guards: Who may refuse a commit before it is told. When there is one, every change is
            made in a block.
    """

    __slots__ = (
        "_changes",
        "_delivering",
        "_outbox",
        "_undo",
        "guards",
        "lock",
        "marks",
        "subscriptions",
    )

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.marks: list[tuple[int, int]] = []
        self.subscriptions: tuple[Subscription[C], ...] = ()
        self.guards: tuple[Subscription[C], ...] = ()
        self._changes: list[C] = []
        self._undo: list[Undo] = []
        self._outbox: deque[tuple[tuple[C, ...], tuple[Subscription[C], ...]]] = deque()
        self._delivering = False

    def subscribe(self, callback: Callable[[tuple[C, ...]], object]) -> Callable[[], None]:
        """Have a callback told from now on, and return the function that stops it."""
        subscription = Subscription(callback)
        self.subscriptions += (subscription,)

        def stop() -> None:
            with self.lock:
                subscription.active = False
                self.subscriptions = tuple(s for s in self.subscriptions if s.active)

        return stop

    def guard(self, callback: Callable[[tuple[C, ...]], object]) -> Callable[[], None]:
        """Have a callback asked from now on, and return the function that stops it."""
        subscription = Subscription(callback)
        self.guards = (subscription, *self.guards)

        def stop() -> None:
            with self.lock:
                self.guards = tuple(each for each in self.guards if each is not subscription)

        return stop

    def emit(self, changes: tuple[C, ...], undo: Undo) -> None:
        """Tell of changes: when the open block ends, or now when there is none."""
        if self.marks:
            self._changes += changes
            self._undo.append(undo)
        elif self.subscriptions:
            self._deliver(changes)

    def begin(self) -> None:
        """Open a block, maybe inside another one."""
        self.marks.append((len(self._changes), len(self._undo)))

    def ask(self) -> None:
        """Ask the guards, when the outermost block is about to close, what it changed."""
        if self.guards and self._changes and len(self.marks) == 1:
            commit = tuple(self._changes)
            for subscription in self.guards:
                subscription.callback(commit)

    def end(self) -> None:
        """Close a block; when it was the outermost, deliver what was changed inside."""
        self.marks.pop()
        if self.marks:
            return
        commit = tuple(self._changes)
        self._changes.clear()
        self._undo.clear()
        if commit:
            self._deliver(commit)

    def roll_back(self) -> list[C]:
        """Close a block, undo what was changed inside, and return what that was."""
        changes, undo = self.marks.pop()
        while len(self._undo) > undo:
            function, *arguments = self._undo.pop()
            function(*arguments)
        undone = self._changes[changes:]
        del self._changes[changes:]
        return undone

    def _deliver(self, commit: tuple[C, ...]) -> None:
        subscriptions = self.subscriptions
        if self._delivering:
            self._outbox.append((commit, subscriptions))
            return
        self._delivering = True
        errors: list[BaseException] = []
        try:
            while True:
                for subscription in subscriptions:
                    if subscription.active:
                        try:
                            subscription.callback(commit)
                        except BaseException as error:
                            errors.append(error)
                if not self._outbox:
                    break
                commit, subscriptions = self._outbox.popleft()
        finally:
            self._delivering = False
        if errors:
            raise_all(errors)


def raise_all(errors: list[BaseException]) -> None:
    """Raise what observers raised: one error as it is, several as a group."""
    try:
        if len(errors) == 1:
            raise errors[0]
        raise BaseExceptionGroup("several observers of the array raised", tuple(errors))
    finally:
        # Else the errors and the frames that they hold would keep each other alive.
        errors.clear()
