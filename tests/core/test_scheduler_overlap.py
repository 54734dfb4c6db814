"""A row never runs concurrently with itself, unless a run lets it."""

from __future__ import annotations

import logging
from typing import Any

import anyio.from_thread
import pytest

from tests.core.scheduling import HOUR, MINUTE, START, Journal
from weftjobs import ObservableArray, Row, RunContext, Scheduler


def one(**fields: Any) -> tuple[Row, ObservableArray]:
    row = Row(fields, name="a")
    return row, ObservableArray([row])


async def test_slot_that_comes_while_the_row_runs_is_skipped() -> None:
    """S6: each such slot is reported, and the slot after is found from now."""
    journal = Journal()
    _, jobs = one(every="1h", takes="150m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("3h")
        assert journal.skips == [("a", 2 * HOUR), ("a", 3 * HOUR)]
        await journal.clock.advance("210m")
    assert journal.slots == [HOUR, 4 * HOUR]
    assert journal.skips == [("a", n * HOUR) for n in (2, 3, 5, 6)]


async def test_skipped_slot_of_a_cron() -> None:
    """S6: a cron skips its slots just so."""
    journal = Journal()
    _, jobs = one(cron="0 * * * *", tz="UTC", takes="90m")
    async with journal.scheduler(jobs):
        await journal.clock.advance("270m")
    assert journal.slots == [HOUR, 3 * HOUR]
    assert journal.skips == [("a", 2 * HOUR), ("a", 4 * HOUR)]


@pytest.mark.parametrize("release", [False, True], ids=["end", "release"])
async def test_slot_that_passes_while_a_run_holds_up_the_event_loop(release: bool) -> None:
    """S6: it came while the row ran, though nobody could look before the run ended."""
    journal = Journal()
    _, jobs = one(every="1h")

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        if len(journal.ran) == 1:
            journal.clock.jump("90m")
            if release:
                context.release()

    async with Scheduler(jobs, run, clock=journal.clock, skipped=journal.skipped):
        await journal.clock.advance("1h")
        await journal.clock.advance("30m")
    assert journal.slots == [HOUR, 3 * HOUR]
    assert journal.skips == [("a", 2 * HOUR)]


async def test_other_rows_run_meanwhile() -> None:
    """S6: a long run holds up no row but its own."""
    journal = Journal()
    jobs = ObservableArray([Row(name="long", every="1h", takes="1d"), Row(name="b", every="1h")])
    async with journal.scheduler(jobs):
        await journal.clock.advance("4h")
        assert [name for name, _ in journal.ran] == ["long", "b", "b", "b", "b"]
        await journal.clock.advance("1d")
        del jobs[:]
        await journal.clock.advance("2d")


async def test_skipped_handler_may_be_async_and_may_edit() -> None:
    """Z4: `skipped` may await, and may edit the array."""
    journal = Journal()
    row, jobs = one(every="1h", takes="90m")

    async def skipped(job: Row, due: int) -> None:
        await journal.clock.sleep("5m")
        journal.skipped(job, due)
        job["every"] = "3h"

    async with journal.scheduler(jobs, skipped=skipped) as scheduler:
        await journal.clock.advance("3h")
        assert scheduler.next_due(row) == START + 2 * HOUR + 5 * MINUTE + 3 * HOUR
    assert journal.skips == [("a", 2 * HOUR)]
    assert journal.slots == [HOUR]


async def test_skip_without_a_handler_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """S6: without `skipped` a skip is an INFO of the logger weftjobs, and no error."""
    journal = Journal()
    _, jobs = one(every="1h", takes="90m")
    with caplog.at_level(logging.INFO, "weftjobs"):
        async with journal.scheduler(jobs, skipped=None):
            await journal.clock.advance("160m")
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert str(START + 2 * HOUR) in record.getMessage()


async def test_skipped_handler_that_raises() -> None:
    """S7: a handler that raises ends the scheduler, and its error comes out."""
    journal = Journal()
    _, jobs = one(every="1h", takes="90m")

    def skipped(job: Row, due: int) -> None:
        raise ZeroDivisionError("the handler")

    with pytest.raises(ExceptionGroup) as raised:
        async with journal.scheduler(jobs, skipped=skipped):
            await journal.clock.advance("3h")
            await anyio.sleep_forever()
    assert raised.group_contains(ZeroDivisionError, match="the handler")


async def run_released(job: Row, context: RunContext, journal: Journal) -> None:
    journal.note(job, context)
    await journal.clock.sleep(10 * MINUTE)
    context.release()
    await journal.clock.sleep(job["takes"])
    journal.ended.append((job["name"], journal.clock.now() - START))


async def test_released_row_fires_again() -> None:
    """S6: from `release()` on the row may fire although the run goes on."""
    journal = Journal()
    row, jobs = one(every="1h", takes="110m")

    async def run(job: Row, context: RunContext) -> None:
        await run_released(job, context, journal)

    async with Scheduler(jobs, run, clock=journal.clock, skipped=journal.skipped) as scheduler:
        await journal.clock.advance("125m")
        assert scheduler.running(row) == 2
        await journal.clock.advance("1h")
        assert scheduler.running(row) == 2
        row["every"] = "1d"
        await journal.clock.advance("3h")
        assert scheduler.running(row) == 0
    assert journal.slots == [HOUR, 2 * HOUR, 3 * HOUR]
    assert journal.ended == [("a", 3 * HOUR), ("a", 4 * HOUR), ("a", 5 * HOUR)]
    assert journal.skips == []


async def test_slot_before_the_release_is_skipped() -> None:
    """S6: what came before `release()` came while the row was running."""
    journal = Journal()
    _, jobs = one(every="8m", takes="1m")

    async def run(job: Row, context: RunContext) -> None:
        await run_released(job, context, journal)

    async with Scheduler(jobs, run, clock=journal.clock, skipped=journal.skipped):
        await journal.clock.advance("20m")
    assert journal.slots == [8 * MINUTE]
    assert journal.skips == [("a", 16 * MINUTE)]


async def test_last_belongs_to_the_most_recent_run() -> None:
    """S6: a released run that ends after a later one began does not overwrite its record."""
    journal = Journal()
    row, jobs = one(every="1h", takes="55m")

    async def run(job: Row, context: RunContext) -> None:
        await run_released(job, context, journal)

    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("2h")
        second = row["last"]
        assert second == {"started": START + 2 * HOUR, "status": "running"}
        row["every"] = "1d"
        await journal.clock.advance("10m")
        assert journal.ended == [("a", 125 * MINUTE)]
        assert row["last"] is second
        await journal.clock.advance("1h")
    assert row["last"] == {
        "started": START + 2 * HOUR,
        "ended": START + 185 * MINUTE,
        "status": "ok",
    }


async def test_released_run_with_none_after_it_writes_its_end() -> None:
    """S6: while no later run began, `last` is the released run's own."""
    journal = Journal()
    row, jobs = one(at=START, takes="1h")

    async def run(job: Row, context: RunContext) -> None:
        await run_released(job, context, journal)

    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("2h")
    assert row["last"] == {"started": START, "ended": START + 70 * MINUTE, "status": "ok"}


async def test_failure_of_a_released_run_is_told() -> None:
    """S7: it reaches the handler although `last` is another run's by now."""
    journal = Journal()
    row, jobs = one(every="1h")

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        if context.due == START + HOUR:
            context.release()
            await journal.clock.sleep("90m")
            raise ValueError("no rows")

    async with Scheduler(jobs, run, clock=journal.clock, failed=journal.failed):
        await journal.clock.advance("170m")
    assert [str(error) for _, error in journal.failures] == ["no rows"]
    assert row["last"] == {"started": START + 2 * HOUR, "ended": START + 2 * HOUR, "status": "ok"}


async def test_release_from_a_worker_thread() -> None:
    """S6: a plain run releases its row as well."""
    journal = Journal()
    row, jobs = one(every="1h")

    def run(job: Row, context: RunContext) -> None:
        context.release()
        anyio.from_thread.run(journal.clock.sleep, "90m")
        journal.note(job, context)

    async with Scheduler(
        jobs, run, clock=journal.clock, skipped=journal.skipped, failed=journal.failed
    ) as scheduler:
        await journal.clock.advance("2h")
        assert scheduler.running(row) == 2
        jobs.clear()
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR, 2 * HOUR]
    assert journal.skips == []
    assert journal.failures == []


async def test_release_is_harmless_twice_and_after_the_end() -> None:
    """S6: only the first release of a run that is in progress does anything."""
    journal = Journal()
    row, jobs = one(every="1h")
    contexts: list[RunContext] = []

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        contexts.append(context)
        if len(contexts) == 1:
            context.release()
            context.release()
        else:
            contexts[0].release()
        await journal.clock.sleep("90m")

    async with Scheduler(
        jobs, run, clock=journal.clock, skipped=journal.skipped, failed=journal.failed
    ) as scheduler:
        await journal.clock.advance("2h")
        assert scheduler.running(row) == 2
        # The second run has not been released, and the first has ended by now.
        await journal.clock.advance("1h")
        contexts[0].release()
        assert scheduler.running(row) == 1
        await journal.clock.advance("40m")
    assert journal.slots == [HOUR, 2 * HOUR]
    assert journal.skips == [("a", 3 * HOUR)]
    assert journal.failures == []


@pytest.mark.parametrize("released", [True, False], ids=["again", "after the end"])
async def test_late_release_of_an_older_run_frees_nothing(released: bool) -> None:
    """S6: what a run releases is itself, once; a later run of the row still keeps it busy."""
    journal = Journal()
    row, jobs = one(at=START)
    contexts: list[RunContext] = []

    async def run(job: Row, context: RunContext) -> None:
        journal.note(job, context)
        contexts.append(context)
        if len(contexts) > 1 or released:
            if len(contexts) == 1:
                context.release()
            await journal.clock.sleep("3h")

    async with Scheduler(jobs, run, clock=journal.clock) as scheduler:
        await journal.clock.advance("5m")
        row["at"] = START + 10 * MINUTE
        await journal.clock.advance("10m")
        row["at"] = START + 20 * MINUTE
        await journal.clock.advance("10m")
        contexts[0].release()
        await journal.clock.advance("5m")
        assert journal.slots == [0, 10 * MINUTE]
        assert scheduler.next_due(row) == START + 20 * MINUTE
        await journal.clock.advance("6h")
    assert journal.times == [0, 10 * MINUTE, 190 * MINUTE]


async def test_waiting_one_off_fires_at_the_release() -> None:
    """S5: an instant that waits for the run to end has waited enough when it is released."""
    journal = Journal()
    row, jobs = one(at=START + HOUR, takes="1h")

    async def run(job: Row, context: RunContext) -> None:
        await run_released(job, context, journal)

    async with Scheduler(jobs, run, clock=journal.clock):
        await journal.clock.advance("65m")
        row["at"] = START + 66 * MINUTE
        await journal.clock.advance("3h")
    assert journal.slots == [HOUR, 66 * MINUTE]
    assert journal.times == [HOUR, 70 * MINUTE]


async def test_rule_follows_the_row_through_removal() -> None:
    """S6: removed and put back while it runs, it still does not run twice at once."""
    journal = Journal()
    row, jobs = one(every="1h", takes="150m")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("65m")
        jobs.remove(row)
        await journal.clock.advance("5m")
        jobs.append(row)
        assert scheduler.running(row) == 1
        await journal.clock.advance("1h")
        assert journal.slots == [HOUR]
        assert journal.skips == [("a", 130 * MINUTE)]
        await journal.clock.advance("4h")
        jobs.clear()
        await journal.clock.advance("3h")
    assert journal.ran[1] == ("a", 250 * MINUTE)


async def test_one_off_put_back_while_it_runs() -> None:
    """S5: a one-off that is put back without `last` runs once more when its run ends."""
    journal = Journal()
    row, jobs = one(at=START + HOUR, takes="30m")
    async with journal.scheduler(jobs) as scheduler:
        await journal.clock.advance("65m")
        jobs.remove(row)
        del row["last"]
        jobs.append(row)
        await journal.clock.advance("5m")
        assert scheduler.running(row) == 1
        await journal.clock.advance("2h")
    assert journal.slots == [HOUR, HOUR]
    assert journal.times == [HOUR, 90 * MINUTE]


@pytest.mark.parametrize("takes", [HOUR, HOUR - 1, HOUR + 1])
async def test_run_that_ends_as_its_next_slot_comes(takes: int) -> None:
    """S6: run by run, never two at once, whatever the order within that millisecond."""
    journal = Journal()
    row, jobs = one(every="1h", takes=takes)
    async with journal.scheduler(jobs) as scheduler:
        for _ in range(20):
            await journal.clock.advance("30m")
            assert scheduler.running(row) <= 1
        jobs.clear()
        await journal.clock.advance("2h")
    slots = sorted(journal.slots + [due for _, due in journal.skips])
    assert slots == [n * HOUR for n in range(1, 11)]


async def test_release_of_a_run_that_has_ended_is_too_late_to_skip_anything() -> None:
    """S6: once a run has ended its row is free, whatever its handler does with the context."""

    class Still:
        """A clock that is moved by hand, beginning at the first slot."""

        time = START

        def now(self) -> int:
            return self.time

        async def sleep_until(self, milliseconds: int, /) -> None:
            self.time = max(self.time, START + MINUTE)
            while self.time < milliseconds:
                await anyio.lowlevel.checkpoint()

    clock = Still()
    fired: list[int] = []
    skipped: list[int] = []
    contexts: list[RunContext] = []

    async def run(job: Row, context: RunContext) -> None:
        fired.append(context.due - START)
        contexts.append(context)
        if len(fired) == 2:
            await scheduler.stop()
        raise ValueError("no rows")

    def failed(job: Row, error: Exception) -> None:
        clock.time += MINUTE
        contexts[0].release()

    scheduler = Scheduler(
        ObservableArray([Row(every="1m")]),
        run,
        clock=clock,
        failed=failed,
        skipped=lambda job, due: skipped.append(due - START),
    )
    with anyio.fail_after(20):
        await scheduler.serve()
    assert fired == [MINUTE, 2 * MINUTE]
    assert skipped == []
