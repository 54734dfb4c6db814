"""The command line: arguments to calls of public functions, and answers to text."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import anyio
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from weftjobs.cron import Cron
from weftjobs.errors import InvalidScheduleError, JobsError
from weftjobs.explaining import ClockChange, clock_changes, explain
from weftjobs.rendering import heat_map, svg
from weftjobs.simulation import Simulated, Timeline, simulate, taking
from weftjobs.stores import Run, open_store
from weftjobs.units import format_duration, to_datetime, to_instant
from weftjobs.zones import find_zone

UsageError: Any = typer.BadParameter.__mro__[1]
"""What all wrong arguments raise; typer does not export it."""

app = typer.Typer(
    name="weftjobs",
    help="Look at schedules: when they run, what they mean, what is stored.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(highlight=False, soft_wrap=True)

_TWO_YEARS = timedelta(days=731)

Expression = Annotated[str, typer.Argument(help="A cron expression, such as '30 2 * * *'.")]
Zone = Annotated[str | None, typer.Option(help="An IANA zone; default: that of this machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
Place = Annotated[
    str, typer.Argument(metavar="MODULE:APPLICATION", help="Where the application is.")
]
File = Annotated[Path, typer.Argument(help="The file of the store.", metavar="FILE")]


def main(arguments: list[str] | None = None) -> None:
    """Run a command, and exit: 0, 1 for what was checked and is wrong, 2 for wrong usage."""
    try:
        code = app(arguments, standalone_mode=False)
    except (UsageError, JobsError) as error:
        code = _fail(_sentence(error))
    except typer.Abort:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    print(f"weftjobs: {message}", file=sys.stderr)
    return 2


def _sentence(error: Exception) -> str:
    """Return an error in one line, with its fix."""
    fix = f". {error.fix}" if isinstance(error, JobsError) else ""
    told = error.format_message() if isinstance(error, UsageError) else str(error)
    return " ".join(f"{told}{fix}".split())


@app.command("next")
def show_next(
    expression: Expression,
    tz: Zone = None,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many times.")] = 10,
    after: Annotated[
        str | None, typer.Option(help="ISO time with an offset; default: now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the next times of a cron expression, in its zone and in UTC.

    Example: weftjobs next '30 2 * * *' --tz Europe/Berlin -n 3
    """
    cron = Cron(expression, tz)
    since = _instant(after)
    times = cron.upcoming(since, n)
    until = times[-1] + timedelta(days=1) if times else since
    changes = list(clock_changes(cron, since, until))
    if as_json:
        _print_json(
            {
                "expression": expression,
                "timezone": cron.timezone.key,
                "times": [{"at": at.isoformat(), "utc": _utc(at)} for at in times],
                "changes": [_change(change) for change in changes],
            }
        )
        return
    for line in _times(times, changes):
        out.print(line, markup=False)


def _times(times: list[datetime], changes: list[ClockChange]) -> Iterator[str]:
    waiting = list(changes)
    for at in times:
        while waiting and waiting[0].at.timestamp() <= at.timestamp():
            yield from _told(waiting.pop(0))
        yield f"{at:%a %Y-%m-%d %H:%M:%S %z}   {_utc(at)}"
    for change in waiting:
        if change.skipped or change.doubled:
            yield from _told(change)


def _told(change: ClockChange) -> Iterator[str]:
    yield (
        f"  -- {change.at:%Y-%m-%d}: the clocks change from UTC{_offset(change.before)} "
        f"to UTC{_offset(change.after)}"
    )
    if change.skipped:
        yield f"     does not run at {_walls(change.skipped)}: the clocks skip it"
    if change.doubled:
        yield f"     {_walls(change.doubled)} comes twice: once in a controller, twice in a row"


@app.command("explain")
def show_explanation(expression: Expression, tz: Zone = None, as_json: AsJson = False) -> None:
    """Say in words what a cron expression means, and what the clocks do to it.

    Example: weftjobs explain '*/7 9-17 * * mon-fri' --tz Europe/Berlin
    """
    cron = Cron(expression, tz)
    since = _instant(None)
    explained = explain(cron, since, since + _TWO_YEARS)
    words = _words(expression)
    if as_json:
        _print_json(
            {
                "expression": expression,
                "timezone": explained.timezone,
                "words": words,
                "notes": list(explained.notes),
                "changes": [_change(change) for change in explained.changes],
                "next": [at.isoformat() for at in cron.upcoming(since, 3)],
            }
        )
        return
    out.print(f"{words}, in {explained.timezone}.", markup=False)
    for note in explained.notes:
        out.print(f"Note: {note}", markup=False)
    for line in _explained_changes(explained.changes):
        out.print(line, markup=False)
    for at in cron.upcoming(since, 3):
        out.print(f"Next: {at:%a %Y-%m-%d %H:%M:%S %z}   {_utc(at)}", markup=False)


def _explained_changes(changes: Iterable[ClockChange]) -> Iterator[str]:
    changes = list(changes)
    skipping = next((each for each in changes if each.skipped), None)
    doubling = next((each for each in changes if each.doubled), None)
    if skipping is not None:
        yield f"On {skipping.at:%Y-%m-%d} it does not run at {_walls(skipping.skipped)}."
    if doubling is not None:
        yield (
            f"On {doubling.at:%Y-%m-%d} {_walls(doubling.doubled)} comes twice: "
            "it runs once in a controller, twice in a row."
        )
    if not changes:
        yield "No change of the clocks in the next two years skips it or doubles it."


def _words(expression: str) -> str:
    from cron_descriptor import Options, get_description

    from weftjobs._cron_fields import fields_of

    second, *others = fields_of(expression)
    written = others if second == "0" else [second, *others]
    options = Options()
    # Else these depend on the locale.
    options.locale_code, options.use_24hour_time_format = "en_US", True
    try:
        return str(get_description(" ".join(written), options))
    except Exception:
        # It knows less than the parser; the expression is right all the same.
        return expression


@app.command("check")
def check_application(place: Place, as_json: AsJson = False) -> None:
    """Check every schedule of an application, for CI: exit code 1 when one is wrong.

    Example: weftjobs check jobs:application
    """
    try:
        actions = _application(place).plan()
    except (InvalidScheduleError, UsageError) as error:
        if as_json:
            _print_json({"error": _sentence(error), "actions": [], "warnings": []})
        else:
            _fail(_sentence(error))
        raise typer.Exit(1) from None
    now = _instant(None)
    listed = [_checked(action, now) for action in actions]
    warnings = [warning for action in actions for warning in _warnings(action, now)]
    if as_json:
        _print_json({"error": None, "actions": listed, "warnings": warnings})
        return
    table = Table("action", "schedule", "next", box=None, pad_edge=False)
    for each in listed:
        table.add_row(each["name"], escape(each["schedule"]), each["next"] or "never")
    out.print(table)
    for warning in warnings:
        out.print(f"Warning: {warning}", markup=False)


def _checked(action: Any, now: datetime) -> dict[str, Any]:
    due = None if action.idle else action.trigger.first(to_instant(now, "now"))
    zone = getattr(action.trigger, "timezone", None)
    shown_in = zone if isinstance(zone, ZoneInfo) else find_zone("UTC")
    at = None if due is None else to_datetime(due, shown_in)
    return {
        "name": action.name,
        "schedule": action.schedule,
        "next": None if at is None else at.isoformat(),
    }


def _warnings(action: Any, now: datetime) -> Iterator[str]:
    if action.idle:
        yield f"{action.name} never runs, because {action.idle}"
    if not isinstance(action.trigger, Cron):
        return
    changes = clock_changes(action.trigger, now, now + _TWO_YEARS)
    touching = next((each for each in changes if each.skipped or each.doubled), None)
    if touching is not None and touching.skipped:
        yield (
            f"{action.name} does not run on {touching.at:%Y-%m-%d}: the clocks skip "
            f"{_walls(touching.skipped)}"
        )
    yield from _zone_warning(action.trigger.timezone)


def _zone_warning(zone: ZoneInfo) -> Iterator[str]:
    """Tell when this machine's data of a zone and the package's disagree on the next year."""
    from importlib.resources import files

    resource = files("tzdata").joinpath("zoneinfo", *zone.key.split("/"))
    try:
        with resource.open("rb") as data:
            packaged = ZoneInfo.from_file(data, key=zone.key)
    except OSError:
        return
    now = _instant(None)
    for week in range(105):
        at = now + timedelta(weeks=week)
        if at.astimezone(zone).utcoffset() != at.astimezone(packaged).utcoffset():
            yield (
                f"the time-zone data of this machine and of the package tzdata disagree on "
                f"{zone.key} at {at:%Y-%m-%d}"
            )
            return


@app.command("run")
def run_application(
    place: Place,
    backend: Annotated[str, typer.Option(help="asyncio or trio.")] = "asyncio",
) -> None:
    """Run an application until SIGINT or SIGTERM.

    Example: weftjobs run jobs:application --backend trio
    """
    _application(place).run(backend)


@app.command("simulate")
def simulate_application(
    place: Place,
    since: Annotated[str | None, typer.Option("--from", help="ISO time; default: now.")] = None,
    until: Annotated[str | None, typer.Option(help="ISO time; default: a week later.")] = None,
    takes: Annotated[
        list[str] | None, typer.Option(help="How long a run takes: Action=5m; may be repeated.")
    ] = None,
    tz: Annotated[str, typer.Option(help="The zone whose hours are counted.")] = "UTC",
    picture: Annotated[Path | None, typer.Option("--svg", help="Write a picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what an application would run between two instants. No method is called.

    Example: weftjobs simulate jobs:application --until 2027-01-01T00:00:00Z --takes Jobs.sync=5m
    """
    begin = _instant(since)
    end = begin + timedelta(weeks=1) if until is None else _instant(until)
    if end <= begin:
        raise UsageError(f"--until {until} is not later than the beginning. Swap the two.")
    jobs = _simulated(_application(place), takes or [])
    shown = track(jobs, "Playing", console=Console(stderr=True), transient=True)
    timeline = simulate(shown if sys.stderr.isatty() else jobs, begin, end, timezone=tz)
    if picture is not None:
        picture.write_text(svg(timeline, f"What {place} runs"))
    if as_json:
        _print_json(_timeline(timeline))
        return
    for line in _told_timeline(timeline, out.width if out.is_terminal else 100):
        out.print(line, markup=False)


def _simulated(application: Any, takes: list[str]) -> list[Simulated]:
    actions = [action for action in application.plan() if action.idle is None]
    durations = taking(dict(_pair(each) for each in takes))
    unknown = sorted(durations.keys() - {action.name for action in actions})
    if unknown:
        names = ", ".join(action.name for action in actions) or "there are none"
        raise UsageError(f"--takes {unknown[0]}: no such action. Name one of: {names}.")
    return [
        Simulated(action.name, action.trigger, action.overlap, durations.get(action.name, 0))
        for action in actions
    ]


def _told_timeline(timeline: Timeline, width: int) -> Iterator[str]:
    yield from heat_map(timeline, width)
    for minute, count in timeline.busiest:
        if count > 1:
            yield f"{count} runs start at {minute:%Y-%m-%d %H:%M %z}"
    for job in timeline.jobs:
        if job.skipped:
            yield f"{job.name}: {job.skipped:,} slots come while it runs"
        if job.overlapping:
            yield f"{job.name}: {job.overlapping:,} runs overlap"


def _timeline(timeline: Any) -> dict[str, Any]:
    return {
        "since": timeline.since.isoformat(),
        "until": timeline.until.isoformat(),
        "actions": [
            {
                "name": job.name,
                "runs": job.count,
                "skipped": job.skipped,
                "overlapping": job.overlapping,
                "hours": job.hours,
                "first": None if job.first is None else job.first.isoformat(),
                "last": None if job.last is None else job.last.isoformat(),
            }
            for job in timeline.jobs
        ],
        "busiest": [
            {"minute": minute.isoformat(), "runs": count} for minute, count in timeline.busiest
        ],
    }


def _pair(text: str) -> tuple[str, str]:
    name, found, duration = text.partition("=")
    if not found or not name:
        raise UsageError(f"--takes {text}: is not Action=duration. Write --takes Jobs.sync=5m.")
    return name, duration


@app.command("rows")
def show_rows(
    file: File,
    array: Annotated[str | None, typer.Argument(help="The array; default: list them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the rows of a stored array, also while a scheduler works with it.

    Example: weftjobs rows jobs.db jobs
    """
    if array is None:
        names = anyio.run(_names, file)
        if as_json:
            _print_json({"arrays": names})
        else:
            for name in names:
                out.print(name, markup=False)
        return
    rows = anyio.run(_rows, file, array)
    if as_json:
        _print_json({"array": array, "rows": rows})
        return
    for number, fields in enumerate(rows):
        last = fields.pop("last", None)
        text = ", ".join(f"{key}={value!r}" for key, value in fields.items() if key != "declared")
        out.print(f"{number:>4}  {text}{_last(last)}", markup=False)


def _last(last: Any) -> str:
    if not isinstance(last, dict) or "started" not in last:
        return ""
    at = to_datetime(last["started"])
    return f"  [{last.get('status')} {at:%Y-%m-%d %H:%M:%S}Z]"


async def _names(file: Path) -> list[str]:
    async with open_store(_url(file)) as store:
        return await store.names()


async def _rows(file: Path, array: str) -> list[dict[str, Any]]:
    async with open_store(_url(file)) as store:
        return [dict(row) for row in await store.open(array, read_only=True)]


@app.command("history")
def show_history(
    file: File,
    array: Annotated[str, typer.Argument(help="The array.")],
    row: Annotated[int | None, typer.Argument(help="The number of a row, as printed.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many entries.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print the latest runs and edits of a stored array, also while a scheduler works with it.

    Example: weftjobs history jobs.db jobs -n 50
    """
    entries = anyio.run(_history, file, array, row, n)
    if as_json:
        _print_json({"array": array, "entries": entries})
        return
    for entry in entries:
        out.print(_entry(entry), markup=False)


async def _history(file: Path, array: str, row: int | None, limit: int) -> list[dict[str, Any]]:
    async with open_store(_url(file)) as store:
        await store.open(array, read_only=True)
        return [
            {
                "kind": "run" if isinstance(entry, Run) else entry.kind,
                **{name: getattr(entry, name) for name in entry.__slots__ if name != "kind"},
            }
            async for entry in store.history(array, row, limit=limit)
        ]


def _entry(entry: dict[str, Any]) -> str:
    at = f"{to_datetime(entry['at']):%Y-%m-%d %H:%M:%S}Z  row {entry['row']}"
    if entry["kind"] != "run":
        changes = ", ".join(
            f"{key}: {old!r} to {new!r}" for key, (old, new) in entry["changes"].items()
        )
        return f"{at}  {entry['kind']}  {changes}".rstrip()
    took = "" if entry["ended"] is None else f" in {_span(entry['ended'] - entry['at'])}"
    error = f"  {entry['error']['message']}" if entry["error"] else ""
    return f"{at}  {entry['status']}{took}{error}"


def _span(milliseconds: int) -> str:
    return format_duration(milliseconds) if milliseconds > 0 else "0ms"


# What the commands share


def _application(place: str) -> Any:
    module, found, name = place.partition(":")
    if not found or not module or not name:
        raise UsageError(f"{place}: is not MODULE:APPLICATION. Write it as jobs:application.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        application = getattr(import_module(module), name, None)
    except JobsError:
        raise
    except Exception as error:
        what = f"{module}: {type(error).__name__}: {error}"
        raise UsageError(f"{what}. See that it can be imported from here.") from None
    if not callable(getattr(application, "plan", None)):
        raise UsageError(f"{place}: {name} is not an Application of {module}.")
    return application


def _instant(text: str | None) -> datetime:
    milliseconds = time.time_ns() // 1_000_000 if text is None else to_instant(text, "time")
    return to_datetime(milliseconds, find_zone("UTC"))


def _url(file: Path) -> str:
    if not file.exists():
        raise UsageError(f"{file}: there is no such file.")
    return f"sqlite:///{file.absolute()}"


def _change(change: ClockChange) -> dict[str, Any]:
    return {
        "at": change.at.isoformat(),
        "before": _offset(change.before),
        "after": _offset(change.after),
        "skipped": [wall.isoformat() for wall in change.skipped],
        "doubled": [wall.isoformat() for wall in change.doubled],
    }


def _offset(offset: timedelta) -> str:
    seconds = int(offset.total_seconds())
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3600)
    return f"{sign}{hours:02}:{rest // 60:02}"


def _walls(walls: tuple[datetime, ...]) -> str:
    shown = ", ".join(f"{wall:%H:%M:%S}".removesuffix(":00") for wall in walls[:4])
    return shown if len(walls) <= 4 else f"{shown} and {len(walls) - 4} more times"


def _utc(at: datetime) -> str:
    return f"{at.astimezone(find_zone('UTC')):%Y-%m-%dT%H:%M:%SZ}"


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
