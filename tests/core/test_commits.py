from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from weftjobs import Change, JobsError, ObservableArray, Row, atomic

Commit = tuple[Change, ...]


class BoomError(Exception):
    pass


@contextmanager
def failing_block(*arrays: ObservableArray) -> Iterator[None]:
    """A block around each of the arrays, which raises at its end."""
    try:
        with ExitStack() as blocks:
            for array in arrays:
                blocks.enter_context(atomic(array))
            yield
            raise BoomError
    except BoomError:
        return
    pytest.fail("the error was swallowed")


def named(names: str) -> ObservableArray:
    return ObservableArray(Row(name=name) for name in names)


def names_of(jobs: ObservableArray) -> str:
    return "".join(row["name"] for row in jobs)


def commits_of(jobs: ObservableArray) -> list[Commit]:
    commits: list[Commit] = []
    jobs.observe(commits.append)
    return commits


def told(commits: list[Commit]) -> list[list[tuple[str, int]]]:
    return [[(change.kind, change.index) for change in commit] for commit in commits]


def state(jobs: ObservableArray) -> list[tuple[Row, list[tuple[str, object]]]]:
    return [(row, list(row.items())) for row in jobs]


def test_change_is_frozen() -> None:
    """A3: nobody can change what another observer is told."""
    change = Change("inserted", Row(), 0)
    with pytest.raises(AttributeError):
        change.index = 1  # type: ignore[misc]
    assert (change.key, change.old, change.new) == (None, None, None)


def test_block_is_one_commit() -> None:
    """A3: a block is told once, at its end, with the changes as they happened, not netted."""
    jobs = named("ab")
    a, b = jobs
    commits = commits_of(jobs)
    with atomic(jobs):
        jobs.append(Row(name="c"))
        jobs[0]["x"] = 1
        jobs[0]["x"] = 2
        del jobs[1]
        jobs.move(jobs[1], 0)
        del a["x"]
        assert commits == []
        assert names_of(jobs) == "ca"
    assert commits == [
        (
            Change("inserted", jobs[0], 2),
            Change("set", a, 0, "x", None, 1),
            Change("set", a, 0, "x", 1, 2),
            Change("removed", b, 1),
            Change("moved", jobs[0], 0, None, 1, 0),
            Change("deleted", a, 1, "x", 2, None),
        )
    ]


def test_blocks_nest() -> None:
    """A3: an inner block belongs to the outermost one, and one object may be entered again."""
    jobs = named("a")
    commits = commits_of(jobs)
    block = atomic(jobs)
    with block:
        jobs[0]["x"] = 1
        with atomic(jobs), block:
            jobs[0]["x"] = 2
        jobs[0].update(x=3, y=4)
        jobs.extend([Row(), Row()])
        assert commits == []
    with block:
        jobs.pop()
    assert [len(commit) for commit in commits] == [6, 1]


def test_empty_block_is_not_told() -> None:
    """A3: a block in which nothing changed delivers nothing."""
    jobs = named("a")
    commits = commits_of(jobs)
    with atomic(jobs):
        pass
    with atomic(jobs), atomic(jobs):
        jobs[0]["name"] = "a"
    assert commits == []


def loose_edit(jobs: ObservableArray) -> None:
    row = jobs.pop(0)
    row["x"] = 9
    row.pop("name")


def loose_edit_in_slice(jobs: ObservableArray) -> None:
    row = jobs[1]
    jobs[0:3] = [Row(), jobs[2]]
    row["x"] = 9


def back_again(jobs: ObservableArray) -> None:
    row = jobs.pop(1)
    row["x"] = 1
    jobs.append(row)
    row["x"] = 2
    jobs.remove(row)
    row["x"] = 3


ROLLED_BACK: dict[str, Callable[[ObservableArray], object]] = {
    "append": lambda jobs: jobs.append(Row()),
    "insert": lambda jobs: jobs.insert(1, Row()),
    "extend": lambda jobs: jobs.extend([Row(), Row()]),
    "pop": lambda jobs: jobs.pop(1),
    "clear": lambda jobs: jobs.clear(),
    "move": lambda jobs: jobs.move(jobs[0], 2),
    "reverse": lambda jobs: jobs.reverse(),
    "slice": lambda jobs: jobs.__setitem__(slice(1, 3), [jobs[2], Row(), jobs[1]]),
    "step": lambda jobs: jobs.__setitem__(slice(None, None, -2), [Row(), Row()]),
    "new field": lambda jobs: jobs[0].__setitem__("new", 1),
    "field": lambda jobs: jobs[0].__setitem__("k", 1),
    "order of fields": lambda jobs: jobs[0].__setitem__("name", jobs[0].pop("name")),
    "no fields": lambda jobs: jobs[2].clear(),
    "update": lambda jobs: jobs[2].update(a=1, k=2, b=3),
    "edit of a removed row": loose_edit,
    "edit of a replaced row": loose_edit_in_slice,
    "removed and put back": back_again,
}


@pytest.mark.parametrize("name", ROLLED_BACK)
def test_block_that_raises_is_rolled_back(name: str) -> None:
    """A3: rows, their order, their fields and the order of these are as before; none is told."""
    jobs = ObservableArray(Row(name=name, k=0, last=None) for name in "abcd")
    commits = commits_of(jobs)
    before = state(jobs)
    with failing_block(jobs):
        ROLLED_BACK[name](jobs)
    assert (state(jobs), commits) == (before, [])
    with failing_block(jobs):
        for edit in ROLLED_BACK.values():
            if len(jobs) > 3 and "name" in jobs[0]:
                edit(jobs)
    assert (state(jobs), commits) == (before, [])
    assert [jobs.index(row) for row in jobs] == [0, 1, 2, 3]
    jobs[3]["k"] = 1
    assert told(commits) == [[("set", 3)]]


def test_rolled_back_rows_are_free() -> None:
    """A3: a row that a block added, and that was rolled back, may go elsewhere."""
    jobs, other = named("a"), ObservableArray()
    row, several = Row(x=1), [Row(), Row()]
    with failing_block(jobs):
        jobs.append(row)
        row["x"] = 2
        jobs.extend(several)
    assert dict(row) == {"x": 1}
    other.extend([row, *several])
    assert (len(jobs), len(other)) == (1, 3)


def test_rolled_back_rows_that_went_elsewhere_stay_there() -> None:
    """A3: a row that came and went inside a block is where it went to."""
    jobs, other = named("a"), ObservableArray()
    commits = commits_of(other)
    row = Row(x=1)
    with failing_block(jobs):
        jobs.append(row)
        other.append(jobs.pop())
    assert (list(other), row in other, row in jobs) == ([row], True, False)
    row["x"] = 2
    assert told(commits) == [[("inserted", 0)], [("set", 0)]]


def test_inner_block_that_is_caught() -> None:
    """A3: an inner block that raises, and is caught, rolls back itself alone."""
    jobs = named("ab")
    commits = commits_of(jobs)
    with atomic(jobs):
        jobs[0]["x"] = 1
        with failing_block(jobs):
            jobs[0]["x"] = 2
            jobs.pop(0)
            with atomic(jobs):
                jobs.clear()
        assert (names_of(jobs), jobs[0]["x"]) == ("ab", 1)
        jobs[1]["y"] = 3
    assert told(commits) == [[("set", 0), ("set", 1)]]


def test_inner_block_that_succeeded_goes_with_the_outer() -> None:
    """A3: what an inner block did is rolled back with the outer one."""
    jobs = named("ab")
    commits = commits_of(jobs)
    before = state(jobs)
    with failing_block(jobs), atomic(jobs):
        jobs.reverse()
    assert (state(jobs), commits) == (before, [])


def test_interrupted_block() -> None:
    """A3: a block that is interrupted is rolled back like any other."""
    jobs = named("ab")
    commits = commits_of(jobs)

    def edit() -> None:
        with atomic(jobs):
            jobs.clear()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        edit()
    assert (names_of(jobs), commits) == ("ab", [])


def test_refused_edit_inside_a_block() -> None:
    """A2, A3: an edit that is refused, and caught, leaves the rest of the block alone."""
    jobs = named("ab")
    commits = commits_of(jobs)
    with atomic(jobs):
        jobs.append(Row(name="c"))
        with pytest.raises(JobsError):
            jobs.extend([Row(), jobs[0]])
        with pytest.raises(JobsError):
            jobs[0].update({"x": 1, 2: 3})
    assert (names_of(jobs), told(commits)) == ("abc", [[("inserted", 2)]])


def test_row_that_moved_to_another_array_comes_back() -> None:
    """A3: a block that is rolled back takes its rows back, from another array too."""
    jobs, archive = named("abc"), named("x")
    row = jobs[1]
    commits, archived = commits_of(jobs), commits_of(archive)
    before = state(jobs)
    with failing_block(jobs):
        archive.append(jobs.pop(1))
        row["done"] = True
        jobs.append(Row())
    assert (state(jobs), commits) == (before, [])
    assert told(archived) == [[("inserted", 1)], [("set", 1)], [("removed", 1)]]
    assert names_of(archive) == "x"
    row["x"] = 1
    assert told(commits) == [[("set", 1)]]


@pytest.mark.parametrize("inner", ["from", "to"])
def test_move_between_arrays_is_rolled_back_in_both(inner: str) -> None:
    """A3: with a block around either array, in either order, both are as before."""
    jobs, archive = named("abc"), named("xyz")
    commits, archived = commits_of(jobs), commits_of(archive)
    before = state(jobs), state(archive)
    first, second = (archive, jobs) if inner == "from" else (jobs, archive)
    with failing_block(first, second):
        archive.insert(1, jobs.pop(1))
        archive[1]["done"] = True
        archive.reverse()
        jobs.reverse()
    assert (state(jobs), state(archive)) == before
    assert (commits, archived) == ([], [])
    archive.append(jobs.pop(1))
    assert (names_of(jobs), names_of(archive)) == ("ac", "xyzb")


def test_observer_that_raises_while_a_row_is_taken_back() -> None:
    """A3, A4: what another array's observer raises then is told, and all is rolled back."""
    jobs, archive = named("ab"), ObservableArray()
    before = state(jobs)

    def refuse_removal(commit: Commit) -> None:
        if commit[0].kind == "removed":
            raise KeyError(commit[0].row["name"])

    archive.observe(refuse_removal)

    def move_and_fail() -> None:
        with atomic(jobs):
            archive.append(jobs.pop(0))
            raise BoomError

    with pytest.raises(KeyError) as caught:
        move_and_fail()
    assert isinstance(caught.value.__context__, BoomError)
    assert (state(jobs), len(archive)) == (before, 0)
    assert [row in jobs for row in jobs] == [True, True]


def test_observer_is_called_after_the_change() -> None:
    """A3: the array already shows the change, the whole block, to whoever is told of it."""
    jobs = named("a")
    seen: list[tuple[int, object]] = []
    jobs.observe(lambda commit: seen.append((len(jobs), jobs[0].get("x"))))
    with atomic(jobs):
        jobs.append(Row(name="b"))
        jobs[0]["x"] = 1
    assert seen == [(2, 1)]


def test_stopping_an_observer() -> None:
    """A3: an observer that was stopped is told no more; stopping twice is harmless."""
    jobs = named("a")
    commits: list[Commit] = []
    stop, stop_other = jobs.observe(commits.append), jobs.observe(commits.append)
    jobs[0]["x"] = 1
    stop()
    stop()
    jobs[0]["x"] = 2
    stop_other()
    jobs[0]["x"] = 3
    assert [commit[0].new for commit in commits] == [1, 1, 2]


@pytest.mark.parametrize("callback", [None, 5, "print"])
def test_refuses_an_observer_that_cannot_be_called(callback: object) -> None:
    """A3, Z3: an observer is a function of the commit."""
    with pytest.raises(JobsError) as caught:
        ObservableArray().observe(callback)  # type: ignore[arg-type]
    assert caught.value.reason == "invalid"


def test_observers_are_told_in_order() -> None:
    """A3: everybody is told of a commit, in the order in which they came, before the next."""
    jobs = named("a")
    seen: list[str] = []

    def edit(commit: Commit) -> None:
        seen.append(f"first {commit[0].new}")
        if commit[0].new == 1:
            jobs[0]["x"] = 2
            jobs[0]["x"] = 3

    jobs.observe(edit)
    jobs.observe(lambda commit: seen.append(f"second {commit[0].new}"))
    jobs[0]["x"] = 1
    assert seen == [f"{who} {x}" for x in (1, 2, 3) for who in ("first", "second")]


def test_observer_may_edit_in_a_block() -> None:
    """A4: an observer's block is a commit of its own, and is rolled back on its own."""
    jobs = named("ab")
    commits = commits_of(jobs)

    def edit(commit: Commit) -> None:
        if commit[0].key == "x":
            with atomic(jobs):
                jobs[1]["y"] = 1
                jobs.reverse()
            with failing_block(jobs):
                jobs.clear()

    jobs.observe(edit)
    with atomic(jobs):
        jobs[0]["x"] = 1
    assert told(commits) == [[("set", 0)], [("set", 1), ("moved", 0)]]
    assert names_of(jobs) == "ba"


def test_observer_stopped_during_delivery() -> None:
    """A3: an observer that another one stops is not told of the commit at hand any more."""
    jobs = named("a")
    seen: list[str] = []

    def first(commit: Commit) -> None:
        seen.append("first")
        stop_first()
        stop_second()

    stop_first = jobs.observe(first)
    stop_second = jobs.observe(lambda commit: seen.append("second"))
    jobs.observe(lambda commit: seen.append("third"))
    jobs[0]["x"] = 1
    jobs[0]["x"] = 2
    assert seen == ["first", "third", "third"]


def test_observer_added_during_delivery() -> None:
    """A3: an observer is told of the commits after it came, one made during delivery too."""
    jobs = named("a")
    late: list[Commit] = []

    def add(commit: Commit) -> None:
        if commit[0].new == 1:
            jobs[0]["x"] = 2
            jobs.observe(late.append)
            jobs[0]["x"] = 3

    jobs.observe(add)
    jobs[0]["x"] = 1
    jobs[0]["x"] = 4
    assert [commit[0].new for commit in late] == [3, 4]


def test_observer_that_raises() -> None:
    """A4: the change stays, the others are told, and the error goes to who made the change."""
    jobs = named("a")

    def fail(commit: Commit) -> None:
        raise BoomError

    jobs.observe(fail)
    commits = commits_of(jobs)
    with pytest.raises(BoomError):
        jobs[0]["x"] = 1
    with pytest.raises(BoomError), atomic(jobs):
        jobs.append(Row(name="b"))
    assert (names_of(jobs), jobs[0]["x"], told(commits)) == (
        "ab",
        1,
        [[("set", 0)], [("inserted", 1)]],
    )


def test_observers_edit_after_one_that_raised() -> None:
    """A4: an edit by an observer is delivered even when another observer raised."""
    jobs = named("a")

    def fail(commit: Commit) -> None:
        if commit[0].new == 1:
            jobs[0]["x"] = 2
            raise BoomError

    jobs.observe(fail)
    commits = commits_of(jobs)
    with pytest.raises(BoomError):
        jobs[0]["x"] = 1
    jobs[0]["x"] = 3
    assert [commit[0].new for commit in commits] == [1, 2, 3]


def fail_with(error: BaseException) -> Callable[[Commit], None]:
    def fail(commit: Commit) -> None:
        raise error

    return fail


def test_several_observers_that_raise() -> None:
    """A4: the errors of several observers come as a group, in order."""
    jobs = named("a")
    errors = [BoomError("first"), KeyError("second")]
    jobs.observe(fail_with(errors[0]))
    commits = commits_of(jobs)
    jobs.observe(fail_with(errors[1]))
    with pytest.raises(ExceptionGroup) as caught:
        jobs[0]["x"] = 1
    assert caught.value.message == "several observers of the array raised"
    assert list(caught.value.exceptions) == errors
    assert repr(errors[0]) in repr(caught.value)
    assert len(pickle.loads(pickle.dumps(caught.value)).exceptions) == 2
    assert len(commits) == 1


def test_interrupted_observer() -> None:
    """A4: an observer that is interrupted starves nobody either, and is not swallowed."""
    jobs = named("a")
    interrupt = KeyboardInterrupt()
    stop = jobs.observe(fail_with(interrupt))
    commits = commits_of(jobs)
    with pytest.raises(KeyboardInterrupt):
        jobs[0]["x"] = 1
    jobs.observe(fail_with(boom := BoomError()))
    with pytest.raises(BaseExceptionGroup) as caught:
        jobs[0]["x"] = 2
    assert caught.value.exceptions == (interrupt, boom)
    stop()
    with pytest.raises(BoomError):
        jobs[0]["x"] = 3
    assert [commit[0].new for commit in commits] == [1, 2, 3]


def test_errors_of_observers_do_not_linger() -> None:
    """A4: an error that was raised and handled keeps nothing alive."""
    jobs = named("a")

    class HeldError(Exception):
        pass

    def fail(commit: Commit) -> None:
        raise HeldError

    jobs.observe(fail)
    held: list[weakref.ref[HeldError]] = []
    gc.disable()
    try:
        try:
            jobs[0]["x"] = 1
        except HeldError as error:
            held.append(weakref.ref(error))
        assert [error() for error in held] == [None]
    finally:
        gc.enable()


def test_observer_that_answers_every_commit() -> None:
    """A4: an observer that answers each commit with another one is served in turn."""
    jobs = named("a")
    commits = commits_of(jobs)

    def count_down(commit: Commit) -> None:
        if jobs[0]["n"]:
            jobs[0]["n"] -= 1

    jobs.observe(count_down)
    jobs[0]["n"] = 5_000
    assert [commit[0].new for commit in commits] == list(range(5_000, -1, -1))
