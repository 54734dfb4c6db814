"""The public door: what each package exports, and what importing it brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import weftjobs
import weftjobs_controllers

ROOT = Path(__file__).parents[1]

EXPORTS = {
    weftjobs: [
        "At",
        "Change",
        "Clock",
        "Cron",
        "Croniter",
        "Every",
        "InvalidScheduleError",
        "JobsError",
        "ObservableArray",
        "Recurrence",
        "Row",
        "RunContext",
        "Scheduler",
        "SystemClock",
        "Trigger",
        "UnknownTimeZoneError",
        "atomic",
        "format_duration",
        "parse_duration",
        "pausable",
        "plan_row",
        "to_duration",
    ],
    weftjobs_controllers: [
        "AbortSignal",
        "AccessControlRule",
        "AccessDeniedError",
        "ActionInfo",
        "ActionSpec",
        "AlreadyRunningError",
        "Application",
        "CallNext",
        "CannotRunHereError",
        "ComponentCycleError",
        "ComponentNotStartedError",
        "Controller",
        "DuplicateActionNameError",
        "Entrypoint",
        "Exclusive",
        "InvalidActionError",
        "InvalidActionGroupError",
        "InvalidArgumentError",
        "JobExitError",
        "LeaseLostError",
        "MissingExtraError",
        "MissingMutexError",
        "MissingRuleError",
        "MutexError",
        "NotRunningError",
        "PlannedAction",
        "RunAbortedError",
        "RunTimeoutError",
        "ScheduleAdapter",
        "ScheduleContext",
        "UnknownActionError",
        "UnknownComponentError",
        "build_entrypoints",
        "schedule",
        "schedule_entrypoint",
    ],
}

ANYIO = {"anyio", "idna", "sniffio", "typing_extensions"}

LOADED_BY_IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from {package} import *
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""

each_package = pytest.mark.parametrize("package", EXPORTS, ids=[p.__name__ for p in EXPORTS])


@each_package
def test_exports_are_exactly_the_promised_names(package: ModuleType) -> None:
    """Z5: `__all__` is sorted and complete, and every name in it is there."""
    assert package.__all__ == EXPORTS[package]
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@each_package
def test_nothing_else_is_public(package: ModuleType) -> None:
    """Z5: beside its modules a package shows no name that `__all__` lacks."""
    shown = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    from_future = {"annotations"}
    assert shown - from_future == set(package.__all__)


@each_package
def test_every_export_has_a_docstring(package: ModuleType) -> None:
    """Z5: every public name has a docstring that somebody wrote."""
    docs = {name: getattr(package, name).__doc__ or "" for name in package.__all__}
    # A dataclass without a docstring gets its signature for one.
    assert [name for name, doc in docs.items() if not doc or doc.startswith(f"{name}(")] == []


@each_package
def test_types_are_shipped(package: ModuleType) -> None:
    """Z5: type checkers find the marker of a typed package."""
    assert package.__file__ is not None
    assert Path(package.__file__).with_name("py.typed").is_file()


@each_package
def test_importing_loads_only_what_is_required(package: ModuleType) -> None:
    """Z5: the import needs the base install alone, and loads no optional or slow library."""
    script = LOADED_BY_IMPORT.format(package=package.__name__)
    result = subprocess.run(
        [sys.executable, "-Ic", script, str(ROOT)], capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    loaded = {name for name in result.stdout.split() if not name.startswith("_")}
    assert loaded - sys.stdlib_module_names - ANYIO == {package.__name__, "weftjobs"}
