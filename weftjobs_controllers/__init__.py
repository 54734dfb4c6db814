"""Scheduled methods on controllers, run by an application with components."""

from __future__ import annotations

from weftjobs_controllers.actions import ActionInfo, ActionSpec
from weftjobs_controllers.adapter import ScheduleAdapter, schedule_entrypoint
from weftjobs_controllers.application import Application
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.controller import Controller
from weftjobs_controllers.decorators import schedule
from weftjobs_controllers.entrypoint import Entrypoint, build_entrypoints
from weftjobs_controllers.errors import (
    AlreadyRunningError,
    CannotRunHereError,
    ComponentNotStartedError,
    DuplicateActionNameError,
    InvalidActionError,
    InvalidArgumentError,
    NotRunningError,
    UnknownActionError,
    UnknownComponentError,
)

__all__ = [
    "ActionInfo",
    "ActionSpec",
    "AlreadyRunningError",
    "Application",
    "CannotRunHereError",
    "ComponentNotStartedError",
    "Controller",
    "DuplicateActionNameError",
    "Entrypoint",
    "InvalidActionError",
    "InvalidArgumentError",
    "NotRunningError",
    "ScheduleAdapter",
    "ScheduleContext",
    "UnknownActionError",
    "UnknownComponentError",
    "build_entrypoints",
    "schedule",
    "schedule_entrypoint",
]
