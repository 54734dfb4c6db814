"""Many threads at one array; threads switch far more often here than they do by default."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from weftjobs import Change, JobsError, ObservableArray, Row, atomic
from weftjobs.rows import MISSING, swap

WAIT = 20
"""How many seconds threads may take before they count as stuck."""


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], Any]) -> list[Any]:
    """Start all at once, each in a thread of its own, and return what they return."""
    barrier = Barrier(len(works))
    futures: list[Future[Any]] = [Future() for _ in works]

    def run(work: Callable[[], Any], future: Future[Any]) -> None:
        try:
            barrier.wait(WAIT)
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    for work, future in zip(works, futures, strict=True):
        Thread(target=run, args=(work, future), daemon=True).start()
    return [future.result(WAIT) for future in futures]


def until(done: Event, work: Callable[[], object]) -> Callable[[], int]:
    """Work again and again until it is done elsewhere; the result says how often."""

    def repeat() -> int:
        times = 0
        while not done.is_set() or not times:
            work()
            times += 1
        return times

    return repeat


def finally_set(done: Event, work: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        finally:
            done.set()

    return run


def test_each_row_is_popped_once() -> None:
    """A2, A5: `pop` is one step, from either end and from many threads."""
    jobs = ObservableArray(Row() for _ in range(2_000))
    rows = set(jobs)
    told: list[Row] = []
    jobs.observe(lambda commit: told.append(commit[0].row))

    def pop_all(index: int) -> list[Row]:
        popped = []
        while True:
            try:
                popped.append(jobs.pop(index))
            except IndexError:
                return popped

    popped = list(chain(*together(*(lambda index=index: pop_all(index) for index in (0, -1) * 3))))
    assert (len(popped), set(popped), len(told)) == (2_000, rows, 2_000)


def test_each_row_is_removed_once() -> None:
    """A2, A5: `remove` is one step: of several threads one removes the row."""
    jobs = ObservableArray(Row() for _ in range(500))
    rows = list(jobs)

    def remove_all() -> int:
        removed = 0
        for row in rows:
            try:
                jobs.remove(row)
                removed += 1
            except ValueError:
                pass
        return removed

    assert sum(together(*[remove_all] * 4)) == 500
    assert len(jobs) == 0


def test_no_addition_is_lost() -> None:
    """A2, A5: `append`, `insert`, and `extend` as a whole, are one step each."""
    jobs = ObservableArray()
    mirror: list[Row] = []
    sizes: list[int] = []

    def follow(commit: tuple[Change, ...]) -> None:
        sizes.append(len(commit))
        for change in commit:
            mirror.insert(change.index, change.row)

    jobs.observe(follow)

    def add(edit: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(200):
                edit()

        return run

    together(
        add(lambda: jobs.append(Row())),
        add(lambda: jobs.insert(0, Row())),
        add(lambda: jobs.insert(len(jobs) // 2, Row())),
        add(lambda: jobs.extend([Row(), Row(), Row()])),
        add(lambda: jobs.__iadd__([Row(), Row()])),
    )
    assert mirror == list(jobs)
    assert sorted(sizes) == [1] * 600 + [2] * 200 + [3] * 200


def test_a_row_goes_into_one_array() -> None:
    """A2, A5: of several arrays that take a row at the same time one gets it."""
    arrays = [ObservableArray() for _ in range(4)]
    rows = [Row() for _ in range(300)]

    def take(jobs: ObservableArray) -> None:
        for row in rows:
            try:
                jobs.append(row)
            except JobsError:
                pass

    together(*(lambda jobs=jobs: take(jobs) for jobs in arrays))
    assert sorted(map(id, chain(*arrays))) == sorted(map(id, rows))
    assert [row for jobs in arrays for row in jobs if jobs[jobs.index(row)] is not row] == []


def test_showing_waits_for_nobody() -> None:
    """A5: what is shown, in an error too, does not wait for a block that is open."""
    jobs, other = ObservableArray([Row(n=1)]), ObservableArray()
    row = jobs[0]

    def refused() -> str:
        with pytest.raises(JobsError) as caught:
            other.append(row)
        return str(caught.value)

    with atomic(jobs):
        shown = together(lambda: repr(jobs), lambda: repr(row), refused)
    assert shown == [
        "<ObservableArray of 1 rows>",
        "Row({'n': 1})",
        "row: Row({'n': 1}) already sits in an array",
    ]


def test_refusals_wait_for_nobody() -> None:
    """A2, A5: a refusal names a row of another array, and does not wait for that array."""
    jobs, other = ObservableArray([Row()]), ObservableArray([Row()])
    mine, theirs = jobs[0], other[0]

    def refuse(array: ObservableArray, row: Row) -> Callable[[], None]:
        def run() -> None:
            for _ in range(500):
                for edit in (array.append, array.remove, lambda row: array.extend([Row(), row])):
                    try:
                        edit(row)
                    except (JobsError, ValueError) as error:
                        assert repr(row) in str(error)  # noqa: PT017

        return run

    together(refuse(jobs, theirs), refuse(other, mine))
    assert (list(jobs), list(other)) == ([mine], [theirs])


def test_readers_see_whole_commits() -> None:
    """A5: a block is seen whole or not at all: rows, fields and length."""
    jobs = ObservableArray([Row(n=50), Row(n=50)])
    first, second = jobs
    done = Event()

    def transfer() -> None:
        for step in range(1_000):
            with atomic(jobs):
                first["n"] -= 1
                jobs.remove(second)
                second["n"] += 1
                jobs.append(second)
                if step % 2:
                    jobs.reverse()

    def read() -> None:
        assert len(jobs) == 2
        assert set(jobs) == {first, second}
        assert len(jobs[:]) == 2
        assert len(list(reversed(jobs))) == 2
        with atomic(jobs):
            assert first["n"] + second["n"] == 100

    together(finally_set(done, transfer), until(done, read), until(done, read))
    assert (first["n"], second["n"]) == (-950, 1_050)


def test_readers_see_nothing_of_a_block_that_is_rolled_back() -> None:
    """A3, A5: other threads never see what a block that raises has written."""
    jobs = ObservableArray([Row(n=0)])
    row = jobs[0]
    done = Event()

    def fail() -> None:
        for _ in range(1_000):
            try:
                with atomic(jobs):
                    row["n"] = 1
                    row["m"] = 1
                    jobs.append(Row())
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass

    def read() -> None:
        assert dict(row.items()) == {"n": 0}
        assert (row["n"], row.get("m"), "m" in row, len(row), list(row)) == (
            0,
            None,
            False,
            1,
            ["n"],
        )
        assert len(jobs) == 1

    together(finally_set(done, fail), until(done, read))


def test_fields_of_a_row_are_read_at_one_moment() -> None:
    """A1, A5: `items()`, and a copy, are of one moment; `update` is one step."""
    jobs = ObservableArray([Row(a=0, b=0)])
    row = jobs[0]
    done = Event()

    def write() -> None:
        for n in range(2_000):
            row.update(a=n, b=n)
            if n % 3 == 0:
                row.clear()
                row.update({"a": n}, b=n)

    def read() -> None:
        for copied in (dict(row.items()), dict(Row(row).items()), dict(list(row.items()))):
            assert copied.get("a") == copied.get("b")

    together(finally_set(done, write), until(done, read))


def test_no_increment_is_lost() -> None:
    """A5: reading and writing in one block, or swapping a value, is one step."""
    jobs = ObservableArray([Row(block=0, swapped=0)])
    row = jobs[0]

    def count_in_block() -> None:
        for _ in range(500):
            with atomic(jobs):
                row["block"] += 1

    def count_by_swap() -> None:
        for _ in range(500):
            old = row["swapped"]
            while not swap(jobs, row, "swapped", old, old + 1):
                old = row["swapped"]

    together(count_in_block, count_in_block, count_by_swap, count_by_swap)
    assert dict(row) == {"block": 1_000, "swapped": 1_000}


def test_a_field_is_taken_once() -> None:
    """A1, A5: `pop`, `popitem` and `setdefault` of a row are one step each."""
    for row in (Row(), ObservableArray([Row()])[0]):
        row.update({str(n): n for n in range(400)})

        def take(row: Row = row) -> list[int]:
            taken = []
            for n in range(400):
                value = row.pop(str(n), None)
                if value is not None:
                    taken.append(value)
            return taken

        def take_last(row: Row = row) -> list[int]:
            taken = []
            while True:
                try:
                    taken.append(row.popitem()[1])
                except KeyError:
                    return taken

        assert sorted(chain(*together(take, take, take_last))) == list(range(400))
        winners = together(*(lambda n=n, row=row: row.setdefault("owner", n) for n in range(8)))
        assert winners == [row["owner"]] * 8


def test_edits_follow_a_row_that_comes_and_goes() -> None:
    """A3, A5: each update is one commit or none, as the row is put in and taken out meanwhile.

    Nothing is lost, and nobody waits for ever.
    """
    row, jobs, other = Row(a=0, b=0), ObservableArray(), ObservableArray()
    commits: list[tuple[Change, ...]] = []
    jobs.observe(commits.append)
    done = Event()

    def come_and_go() -> None:
        for _ in range(1_500):
            jobs.append(row)
            jobs.insert(0, Row())
            other.append(jobs.pop(1))
            other.clear()
            jobs.clear()

    def update(start: int) -> Callable[[], object]:
        numbers = iter(range(start, 10**9))

        def run() -> None:
            n = next(numbers)
            row.update(a=n, b=n)
            row["c"] = n
            row.pop("c", None)

        return run

    together(finally_set(done, come_and_go), until(done, update(1)), until(done, update(10**6)))
    updates = [commit for commit in commits if commit[0].key in ("a", "b")]
    assert {len(commit) for commit in updates} <= {2}
    assert row["a"] == row["b"]


def test_observers_are_told_one_commit_at_a_time() -> None:
    """A4, A5: commits of many threads reach every observer whole, in one and the same order."""
    jobs = ObservableArray([Row(n=MISSING)])
    row = jobs[0]
    first: list[object] = []
    second: list[object] = []
    inside: list[int] = []

    def follow(seen: list[object]) -> Callable[[tuple[Change, ...]], None]:
        def observe(commit: tuple[Change, ...]) -> None:
            inside.append(1)
            assert len(inside) == 1
            assert row["n"] is commit[0].new
            seen.append(commit[0].new)
            inside.pop()

        return observe

    jobs.observe(follow(first))
    jobs.observe(follow(second))

    def write(start: int) -> None:
        for n in range(start, start + 300):
            row["n"] = n

    together(*(lambda start=start: write(start) for start in (0, 1_000, 2_000)))
    assert first == second
    assert sorted(map(str, first)) == sorted(
        str(start + n) for start in (0, 1_000, 2_000) for n in range(300)
    )


def test_observing_and_stopping_meanwhile() -> None:
    """A3, A5: observers come and go in any thread; none is lost, none stays."""
    jobs = ObservableArray([Row(n=0)])
    done = Event()
    steady: list[object] = []
    jobs.observe(lambda commit: steady.append(commit[0].new))

    def write() -> None:
        for n in range(1, 1_001):
            jobs[0]["n"] = n

    def come_and_go() -> None:
        seen: list[object] = []
        stop = jobs.observe(lambda commit: seen.append(commit[0].new))
        stop()
        told = len(seen)
        jobs[0].get("n")
        assert len(seen) == told

    together(finally_set(done, write), until(done, come_and_go), until(done, come_and_go))
    assert steady == list(range(1, 1_001))
