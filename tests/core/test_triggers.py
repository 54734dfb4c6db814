from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftjobs import At, Cron, Every, InvalidScheduleError, Trigger
from weftjobs.units import MAX_INSTANT, MIN_INSTANT

HOUR = 3_600_000
DAY = 24 * HOUR
INSTANTS = st.integers(MIN_INSTANT, MAX_INSTANT)
INTERVALS = st.integers(1, 1_000) | st.integers(1, MAX_INSTANT)


# Every: (interval, origin, now, the first slot)
FIRST = [
    (HOUR, None, 0, HOUR),
    (HOUR, None, 12_345, HOUR + 12_345),
    (HOUR, None, -1, HOUR - 1),
    (1, None, 7, 8),
    (HOUR, 0, 0, HOUR),
    (HOUR, 0, 1, HOUR),
    (HOUR, 0, HOUR - 1, HOUR),
    (HOUR, 0, HOUR, 2 * HOUR),
    (HOUR, 0, -1, 0),
    (HOUR, 0, -HOUR, 0),
    (HOUR, 0, -HOUR - 1, -HOUR),
    (HOUR, 500, 499, 500),
    (HOUR, 500, 500, HOUR + 500),
    (HOUR, -500, 0, HOUR - 500),
    (HOUR, -500, -501, -500),
    (HOUR, -10 * HOUR - 500, 0, HOUR - 500),
    (HOUR, 10 * HOUR + 500, 0, 500),
    (HOUR, MIN_INSTANT, 1, HOUR),
    (7, MAX_INSTANT, 0, MAX_INSTANT % 7),
    (1, 0, MAX_INSTANT - 1, MAX_INSTANT),
    (1, 0, MAX_INSTANT, None),
    (1, None, MAX_INSTANT, None),
    (HOUR, None, MAX_INSTANT - HOUR, MAX_INSTANT),
    (HOUR, None, MAX_INSTANT - HOUR + 1, None),
    (MAX_INSTANT, None, 0, MAX_INSTANT),
    (MAX_INSTANT, 0, 0, MAX_INSTANT),
    (MAX_INSTANT, 0, -1, 0),
]


@pytest.mark.parametrize(("interval", "origin", "now", "slot"), FIRST)
def test_first_of_an_interval(
    interval: int, origin: int | None, now: int, slot: int | None
) -> None:
    """R2, R4: one interval ahead, or the first of the given grid, strictly past now."""
    assert Every(interval, origin).first(now) == slot


# Every: (interval, origin, previous, now, the slot after)
AFTER = [
    (HOUR, None, 500, 500, HOUR + 500),
    (HOUR, None, 500, HOUR + 499, HOUR + 500),
    (HOUR, None, 500, HOUR + 500, 2 * HOUR + 500),
    (HOUR, None, 500, 7 * DAY, 7 * DAY + 500),
    (HOUR, None, 500, 0, HOUR + 500),
    (HOUR, None, 500, -DAY, HOUR + 500),
    (HOUR, 0, HOUR, HOUR, 2 * HOUR),
    (HOUR, 0, HOUR, 5 * HOUR + 1, 6 * HOUR),
    (HOUR, 0, HOUR, 5 * HOUR, 6 * HOUR),
    (HOUR, 0, 500, 500, HOUR),
    (HOUR, 0, 5 * HOUR, 0, 6 * HOUR),
    (HOUR, -500, HOUR - 500, HOUR, 2 * HOUR - 500),
    (HOUR, None, MAX_INSTANT - HOUR, 0, MAX_INSTANT),
    (HOUR, None, MAX_INSTANT - HOUR + 1, 0, None),
    (HOUR, None, 0, MAX_INSTANT, None),
]


@pytest.mark.parametrize(("interval", "origin", "previous", "now", "slot"), AFTER)
def test_after_of_an_interval(
    interval: int, origin: int | None, previous: int, now: int, slot: int | None
) -> None:
    """R2, S4: the first slot of the row's own grid past both the previous one and now."""
    assert Every(interval, origin).after(previous, now) == slot


@given(INTERVALS, INSTANTS | st.none(), INSTANTS, INSTANTS)
def test_slots_lie_on_the_grid(interval: int, origin: int | None, now: int, later: int) -> None:
    """R2, R4: slots lie on the grid, past now, none is left out; asked again, the same."""
    every = Every(interval, origin)
    slot = every.first(now)
    assert every.first(now) == slot
    if slot is None:
        assert now + interval > MAX_INSTANT
        return
    assert now < slot <= min(now + interval, MAX_INSTANT)
    assert origin is not None or slot == now + interval
    assert (slot - (now if origin is None else origin)) % interval == 0
    after = every.after(slot, later)
    if after is None:
        assert max(slot, later) + interval > MAX_INSTANT
    else:
        assert max(slot, later) < after <= max(slot, later) + interval
        assert (after - slot) % interval == 0


@given(INTERVALS, INSTANTS, st.integers(-5, 5), INSTANTS)
def test_origins_on_one_grid_are_one_grid(
    interval: int, origin: int, steps: int, now: int
) -> None:
    """R4: several processes that name any instant of the grid share it."""
    other = origin + steps * interval
    if MIN_INSTANT <= other <= MAX_INSTANT:
        assert Every(interval, origin).first(now) == Every(interval, other).first(now)


@given(INSTANTS, INSTANTS)
def test_at_comes_once(at: int, now: int) -> None:
    """R2: a one-off is due at its instant, past or not, and never again."""
    assert At(at).first(now) == at
    assert At(at).after(at, now) is None


EQUAL: list[list[Trigger]] = [
    [
        At("2026-09-05T15:00:00Z"),
        At("2026-09-05T17:00:00+02:00"),
        At(datetime(2026, 9, 5, 15, tzinfo=UTC)),
        At(datetime(2026, 9, 5, 11, tzinfo=timezone(timedelta(hours=-4)))),
        At(1_788_620_400_000),
        At(1_788_620_400_000.9),
    ],
    [At(HOUR)],
    [Every("1h"), Every(HOUR), Every(float(HOUR)), Every(timedelta(hours=1)), Every("60m", None)],
    [Every("1h", 0), Every("1h", "1970-01-01T00:00:00Z"), Every(HOUR, origin=0.0)],
    [Every("1h", HOUR)],
    [Every("1h1ms")],
]


def test_equal_triggers() -> None:
    """R4: triggers are equal when they mean the same, however written, and hash equal."""
    flat = [(kind, trigger) for kind, triggers in enumerate(EQUAL) for trigger in triggers]
    for kind, trigger in flat:
        for other_kind, other in flat:
            assert (trigger == other) == (kind == other_kind)
    assert len({trigger for _, trigger in flat}) == len(EQUAL)


@pytest.mark.parametrize("trigger", [At(5), Every(5), Every(5, 7)], ids=repr)
def test_triggers_are_frozen(trigger: Any) -> None:
    """R4: a trigger is a value: nobody changes it, and nothing is added to it."""
    for field in dataclasses.fields(trigger):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(trigger, field.name, 6)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(trigger, field.name)
    with pytest.raises((AttributeError, TypeError)):
        trigger.other = 6


@pytest.mark.parametrize(
    "trigger", [At(5), Every(5), Every(5, 7), Cron("0 7 * * *", "UTC")], ids=repr
)
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda trigger: pickle.loads(pickle.dumps(trigger))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_triggers_travel(copied: Callable[[Trigger], Trigger], trigger: Trigger) -> None:
    """R4: a trigger comes through a pickle equal, with the same hash and the same slots."""
    other = copied(trigger)
    assert (other, hash(other), repr(other)) == (trigger, hash(trigger), repr(trigger))
    assert other.first(123) == trigger.first(123)


def test_fields_can_be_read() -> None:
    """R4: a trigger shows what it was made of, in milliseconds."""
    assert At("1970-01-01T00:00:01Z").at == 1_000
    assert (Every("1m").interval, Every("1m").origin, Every("1m", 7).origin) == (60_000, None, 7)
    assert repr(At(5)) == "At(at=5)"
    assert repr(Every(5, origin=7)) == "Every(interval=5, origin=7)"


BAD: list[tuple[Callable[[], object], str]] = [
    (
        lambda: At(None),  # type: ignore[arg-type]
        "at: None is of type NoneType",
    ),
    (lambda: At(True), "at: True is of type bool"),
    (lambda: At("tomorrow"), "at: 'tomorrow' is not an ISO 8601 time"),
    (lambda: At("2026-09-05T15:00:00"), "at: '2026-09-05T15:00:00' has no offset"),
    (lambda: At(MAX_INSTANT + 1), "at: 253402300800000 lies outside the calendar"),
    (lambda: Every(0), "every: 0 is less than 1 millisecond"),
    (lambda: Every("1h", "noon"), "origin: 'noon' is not an ISO 8601 time"),
    (lambda: Every("1h", False), "origin: False is of type bool"),
    (lambda: Every("1h", MIN_INSTANT - 1), "origin: -62135596800001 lies outside the calendar"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_refused(make: Callable[[], object], message: str) -> None:
    """Z2, Z3: what is no instant, no interval or no origin is refused where it is made."""
    with pytest.raises(InvalidScheduleError) as caught:
        make()
    assert str(caught.value) == message
