from __future__ import annotations

import copy
import pickle
import weakref
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from weftjobs import JobsError, ObservableArray, Row, atomic


def test_is_a_mutable_mapping() -> None:
    """A1: a row does what a dict does, and keeps the order of its fields."""
    row = Row(a=1, b=2)
    assert isinstance(row, MutableMapping)
    assert (row["a"], row.get("b"), row.get("c"), row.get("c", 3)) == (1, 2, None, 3)
    assert ("a" in row, "c" in row, len(row), list(row)) == (True, False, 2, ["a", "b"])
    row["c"] = 3
    del row["a"]
    assert list(row.items()) == [("b", 2), ("c", 3)]
    assert (list(row.keys()), list(row.values())) == (["b", "c"], [2, 3])
    assert (row.setdefault("b", 9), row.setdefault("d", 4), row.pop("c")) == (2, 4, 3)
    assert (row.pop("c", None), row.pop("c", 7)) == (None, 7)
    assert row.popitem() == ("d", 4)
    row.update({"e": 5}, f=6)
    row.update([("e", 8)])
    row.update(Row(g=7))
    row.update()
    assert repr(row) == "Row({'b': 2, 'e': 8, 'f': 6, 'g': 7})"
    row.clear()
    assert dict(row) == {}


@pytest.mark.parametrize(
    "read",
    [
        lambda row: row["z"],
        lambda row: row.pop("z"),
        lambda row: row.__delitem__("z"),
        lambda row: Row().popitem(),
        lambda row: ObservableArray([Row()])[0].popitem(),
    ],
    ids=["get", "pop", "delete", "popitem", "popitem in an array"],
)
@pytest.mark.parametrize("row", [Row(a=1), ObservableArray([Row(a=1)])[0]], ids=["loose", "in"])
def test_missing_field_is_a_key_error(row: Row, read: Callable[[Row], object]) -> None:
    """A1: a field that is not there is a `KeyError`, as in any mapping."""
    with pytest.raises(KeyError):
        read(row)
    assert dict(row) == {"a": 1}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(Row(a=1, b=2), id="names"),
        pytest.param(Row({"a": 1, "b": 2}), id="dict"),
        pytest.param(Row({"a": 0, "b": 2}, a=1), id="dict and names"),
        pytest.param(Row([("a", 1), ("b", 2)]), id="pairs"),
        pytest.param(Row(iter([("a", 1)]), b=2), id="iterator"),
        pytest.param(Row(ChainMap({"b": 2}, {"a": 1})), id="mapping"),
        pytest.param(Row(Row(a=1, b=2)), id="row"),
    ],
)
def test_ways_to_make_one(row: Row) -> None:
    """A1: fields come by name, from a mapping, or from pairs; names win."""
    assert list(row.items()) == [("a", 1), ("b", 2)]
    assert dict(Row({})) == dict(Row([])) == dict(Row(())) == dict(Row()) == {}


def test_takes_a_copy_of_the_mapping() -> None:
    """A1: what is done to the mapping later does not reach the row, nor the reverse."""
    fields = {"a": 1}
    row = Row(fields)
    fields["a"] = 2
    row["b"] = 3
    assert (dict(row), fields) == ({"a": 1, "b": 3}, {"a": 2})


@pytest.mark.parametrize("name", ["self", "fields", "key", "_fields", "_array", "last", "", "é\n"])
def test_no_field_name_is_reserved(name: str) -> None:
    """A1: any string is a field's name."""
    row = Row(**{name: 1})
    jobs = ObservableArray([row])
    row.update(**{name: 2})
    assert (dict(row), row in jobs) == ({name: 2}, True)
    row[name] = 3
    assert row.pop(name) == 3


def test_identity_is_equality() -> None:
    """A1: two rows with the same content are two rows."""
    row, twin = Row(a=1), Row(a=1)
    assert row == row
    assert row != twin
    assert row != {"a": 1}
    assert len({row, twin, row}) == 2


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda row: pickle.loads(pickle.dumps(row)), Row],
    ids=["copy", "deepcopy", "pickle", "Row"],
)
def test_a_copy_is_another_row(copied: Callable[[Row], Row]) -> None:
    """A1: a copy has the same fields, is not equal, and sits in no array."""
    row = Row(b=[1], a=2)
    jobs = ObservableArray([row])
    other = copied(row)
    assert list(other.items()) == [("b", [1]), ("a", 2)]
    assert other != row
    jobs.append(other)
    assert list(jobs) == [row, other]


def test_rows_that_hold_each_other_can_be_shown() -> None:
    """A1: any value may be held, the row itself too."""
    row = Row()
    row["me"] = row
    assert repr(row) == "Row({'me': Row({...})})"
    row["jobs"] = ObservableArray([row])
    assert repr(row) == "Row({'me': Row({...}), 'jobs': <ObservableArray of 1 rows>})"


def test_can_be_referred_to_weakly() -> None:
    """A7: what belongs to a row can go with it; a removed row is not kept alive."""
    jobs = ObservableArray([Row(), Row()])
    jobs.observe(lambda commit: None)
    gone = weakref.ref(jobs[0])
    with atomic(jobs):
        jobs[0]["x"] = 1
        del jobs[0]
    assert gone() is None


def test_views_are_of_one_moment() -> None:
    """A5: a row may be edited while its fields are gone through."""
    row = Row(a=1, b=2)
    for key in row:
        row[key + key] = row.pop(key)
    assert list(row.items()) == [("aa", 1), ("bb", 2)]


NOT_FIELDS: list[tuple[Any, str]] = [
    (None, "row: None is not a mapping of fields"),
    (0, "row: 0 is not a mapping of fields"),
    (5, "row: 5 is not a mapping of fields"),
    ("abc", "row: 'abc' is not a mapping of fields"),
    ([1], "row: [1] is not a mapping of fields"),
    ([("a", 1, 2)], "row: [('a', 1, 2)] is not a mapping of fields"),
    ([([], 1)], "row: [([], 1)] is not a mapping of fields"),
    ({1: 2}, "row: 1 is not the name of a field"),
    ([("a", 1), (None, 2)], "row: None is not the name of a field"),
]


@pytest.mark.parametrize(("fields", "message"), NOT_FIELDS, ids=[repr(f) for f, _ in NOT_FIELDS])
def test_refuses_what_are_no_fields(fields: Any, message: str) -> None:
    """A1, Z3: fields have names that are strings; a refusal changes nothing."""
    row = Row(a=0)
    jobs = ObservableArray([row])
    commits: list[object] = []
    jobs.observe(commits.append)
    for take in (Row, Row(a=0).update, row.update):
        with pytest.raises(JobsError) as caught:
            take(fields)
        assert (str(caught.value), caught.value.reason) == (message, "invalid")
    assert (dict(row), commits) == ({"a": 0}, [])


@pytest.mark.parametrize("key", [None, 1, b"a", ("a",), []], ids=repr)
def test_refuses_a_name_that_is_no_string(key: Any) -> None:
    """A1, Z3: the name of a field is a string."""
    for row in (Row(), ObservableArray([Row()])[0]):
        with pytest.raises(JobsError, match="is not the name of a field"):
            row[key] = 1
        assert dict(row) == {}


PARIS = ZoneInfo("Europe/Paris")


class Vector:
    """Compared item by item, so that whether it is equal is no single answer."""

    def __init__(self, *items: int) -> None:
        self.items = items

    def __eq__(self, other: object) -> Any:
        return Vector(*(1 for _ in self.items))

    def __bool__(self) -> bool:
        if len(self.items) != 1:
            raise ValueError("the truth of several is ambiguous")
        return bool(self.items[0])

    __hash__ = None  # type: ignore[assignment]


VECTOR = Vector(1, 2)

VALUES = [
    pytest.param(1, 1, False, id="number"),
    pytest.param("ab", "".join("ab"), False, id="text"),
    pytest.param([1], [1], False, id="list"),
    pytest.param(float("nan"), float("nan"), True, id="nan"),
    pytest.param(1, True, True, id="number to bool"),
    pytest.param(True, 1.0, True, id="bool to float"),
    pytest.param(1.0, 1, True, id="float to number"),
    pytest.param((1,), [1], True, id="tuple to list"),
    pytest.param(None, False, True, id="None to bool"),
    pytest.param(VECTOR, VECTOR, False, id="the same vector"),
    pytest.param(VECTOR, Vector(1, 2), True, id="another vector"),
    pytest.param(Vector(1), Vector(1), False, id="vector of one"),
    pytest.param(timedelta(hours=1), timedelta(minutes=60), False, id="timedelta"),
    pytest.param(
        datetime(2026, 10, 25, 2, 30, tzinfo=PARIS),
        datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=1),
        True,
        id="the other time of a fold",
    ),
]


@pytest.mark.parametrize(("old", "new", "changed"), VALUES)
def test_what_counts_as_a_change(old: Any, new: Any, changed: bool) -> None:
    """A3: an equal value of the same type is no change, and the old one stays."""
    row = Row(x=old)
    jobs = ObservableArray([row])
    commits: list[object] = []
    jobs.observe(commits.append)
    row["x"] = new
    assert len(commits) == changed
    assert row["x"] is (new if changed else old)


def test_values_are_not_observed_inside() -> None:
    """A6: what is done inside a value is not told, and the documentation says so."""
    row = Row(tags=["a"])
    jobs = ObservableArray([row])
    commits: list[object] = []
    jobs.observe(commits.append)
    row["tags"].append("b")
    assert commits == []
    row["tags"] = [*row["tags"], "c"]
    assert len(commits) == 1
    assert "not observed inside" in " ".join((Row.__doc__ or "").split())


def test_a_row_that_was_removed_is_told_no_more() -> None:
    """A3: the edits of a row reach the array that it sits in, and no other."""
    row = Row()
    first, second = ObservableArray([row]), ObservableArray()
    commits: list[object] = []
    first.observe(commits.append)
    second.append(first.pop())
    row["x"] = 1
    assert [change.kind for commit in commits for change in commit] == ["removed"]  # type: ignore[attr-defined]
