from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftjobs._timers import Timers


def popped(timers: Timers[str], now: int) -> list[tuple[int, str]]:
    found = []
    while (timer := timers.pop(now)) is not None:
        found.append(timer)
        assert timers.due(timer[1]) is None
    return found


def armed(**dues: int) -> Timers[str]:
    timers: Timers[str] = Timers()
    for key, due in dues.items():
        timers.arm(key, due)
    return timers


def test_the_soonest_comes_first() -> None:
    """S2: what is due is popped by time, and what is not due stays."""
    timers = armed(a=30, b=10, c=-20, d=40)
    assert (timers.next_due(), timers.pop(-21), timers.due("d")) == (-20, None, 40)
    assert popped(timers, 30) == [(-20, "c"), (10, "b"), (30, "a")]
    assert (timers.next_due(), popped(timers, 40), timers.next_due()) == (40, [(40, "d")], None)


def test_due_together_come_as_armed() -> None:
    """T2: rows due together start in the order in which they were armed; re-armed is anew."""
    timers = armed(z=5, y=5, x=5, w=5, v=5)
    timers.arm("y", 5)
    timers.disarm("w")
    timers.arm("v", 4)
    timers.arm("v", 5)
    assert popped(timers, 5) == [(5, "z"), (5, "x"), (5, "y"), (5, "v")]


def test_disarmed_is_due_no_more() -> None:
    """S2: what is disarmed, or armed for another time, is not due at the time of before."""
    timers = armed(a=5, b=6)
    timers.disarm("never armed")
    assert (timers.due("a"), timers.due("never armed")) == (5, None)
    timers.disarm("a")
    timers.disarm("a")
    assert (timers.due("a"), timers.next_due()) == (None, 6)
    timers.arm("b", 9)
    assert (timers.next_due(), popped(timers, 8), popped(timers, 9)) == (9, [], [(9, "b")])
    timers.arm("b", 7)
    assert popped(timers, 7) == [(7, "b")]


def test_clear() -> None:
    """S8: after it nothing is due, and all may be armed again."""
    timers = armed(a=5, b=5)
    timers.arm("a", 6)
    timers.clear()
    assert (timers.due("a"), timers.due("b"), timers.next_due()) == (None, None, None)
    timers.arm("a", 7)
    assert popped(timers, 9) == [(7, "a")]


class Key:
    """A key that is compared as itself, and never ordered."""


@pytest.mark.parametrize("standing", [0, 10, 1_000])
@pytest.mark.parametrize("edit", ["disarm", "arm again"])
def test_edits_do_not_pile_up(standing: int, edit: str) -> None:
    """S10: however often rows are edited, memory stays in proportion to what is armed."""
    timers: Timers[Key] = Timers()
    for number in range(standing):
        timers.arm(Key(), number)
    edited = Key()
    for number in range(10_000):
        timers.arm(edited, 1_000_000 + number % 7)
        if edit == "disarm":
            timers.disarm(edited)
    # Each timer that is kept refers to the key.
    assert sys.getrefcount(edited) < standing + 100


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["arm", "arm", "disarm", "pop", "clear"]),
        st.integers(0, 9),
        st.integers(-3, 9),
    ),
    max_size=60,
)


@given(ACTIONS, st.integers(0, 100))
def test_does_what_a_sorted_list_does(actions: list[tuple[str, int, int]], churn: int) -> None:
    """S2, T2: the heap agrees with a list that is sorted by due time and order of arming."""
    timers: Timers[Key] = Timers()
    keys = [Key() for _ in range(10)]
    model: list[tuple[int, Key]] = []
    for action, which, due in actions:
        key = keys[which]
        if action == "pop":
            for expected in sorted((t for t in model if t[0] <= due), key=lambda t: t[0]):
                assert timers.pop(due) == expected
                model.remove(expected)
            assert timers.pop(due) is None
        elif action == "clear":
            timers.clear()
            model.clear()
        else:
            model = [timer for timer in model if timer[1] is not key]
            timers.disarm(key)
        if action == "arm":
            for _ in range(churn):
                timers.arm(key, -due)
            timers.arm(key, due)
            model.append((due, key))
        assert timers.next_due() == min((at for at, _ in model), default=None)
        dues = {key: at for at, key in model}
        assert [timers.due(key) for key in keys] == [dues.get(key) for key in keys]
