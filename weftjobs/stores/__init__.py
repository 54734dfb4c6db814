"""Arrays of rows that outlive the process."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qsl, unquote, urlsplit

from weftjobs.clock import Clock, SystemClock
from weftjobs.errors import JobsError, shown
from weftjobs.stores.protocol import Edit, Run, Store
from weftjobs.stores.sqlite import SQLiteStore

__all__ = ["Edit", "Run", "SQLiteStore", "Store", "open_store"]

_FIX = "Write 'sqlite:///jobs.db', or 'sqlite:////var/lib/app/jobs.db' for an absolute path."


def open_store(url: str, *, kept_runs: int = 1_000, clock: Clock | None = None) -> Store:
    """Return a store, to be entered with `async with`.

        async with open_store("sqlite:///jobs.db") as store:
            jobs = await store.open("jobs")
            async with Scheduler(jobs, run): ...

    Args:
        url: Where the rows are: `sqlite:///` and a path. `?synchronous=full` has every commit
            survive a loss of power too, which costs a write to the disk for each; without
            it a commit survives the end of the process, however sudden.
        kept_runs: How many runs of each row are remembered.
        clock: Where the times of edits come from; a test passes its `VirtualClock`.

    Raises:
        JobsError: `invalid`, when the URL or the number is none.
    """
    parts = urlsplit(_text(url))
    opener = _OPENERS.get(parts.scheme)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "normal")
    wrong = parts.netloc or len(parts.path) < 2 or parts.fragment or options
    if opener is None or wrong or "\0" in unquote(parts.path):
        raise _invalid("url", url)
    if synchronous not in ("normal", "full"):
        raise JobsError(
            f"url: synchronous={shown(synchronous)} is neither normal nor full",
            reason="invalid",
            fix="Leave it out, or write ?synchronous=full.",
        )
    if type(kept_runs) is not int or kept_runs < 1:
        raise JobsError(
            f"kept_runs: {shown(kept_runs)} is not a number of runs",
            reason="invalid",
            fix="Keep 1 at least.",
        )
    return opener(
        unquote(parts.path[1:]),
        full=synchronous == "full",
        kept_runs=kept_runs,
        clock=SystemClock() if clock is None else clock,
    )


_OPENERS: dict[str, Callable[..., Store]] = {"sqlite": SQLiteStore}


def _text(url: object) -> str:
    if isinstance(url, str):
        return url
    raise _invalid("url", url)


def _invalid(name: str, value: object) -> JobsError:
    return JobsError(
        f"{name}: {shown(value)} is not the URL of a store", reason="invalid", fix=_FIX
    )
