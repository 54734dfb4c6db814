"""Scheduled methods on controllers, run by an application with components."""

from __future__ import annotations

from weftjobs_controllers.access import AccessControlRule
from weftjobs_controllers.actions import ActionInfo, ActionSpec, Exclusive, PlannedAction
from weftjobs_controllers.adapter import ScheduleAdapter, schedule_entrypoint
from weftjobs_controllers.application import Application
from weftjobs_controllers.context import ScheduleContext
from weftjobs_controllers.controller import Controller
from weftjobs_controllers.decorators import schedule
from weftjobs_controllers.entrypoint import Entrypoint, build_entrypoints
from weftjobs_controllers.errors import (
    AccessDeniedError,
    AlreadyRunningError,
    CannotRunHereError,
    ComponentCycleError,
    ComponentNotStartedError,
    DuplicateActionNameError,
    InvalidActionError,
    InvalidActionGroupError,
    InvalidArgumentError,
    JobExitError,
    LeaseLostError,
    MissingExtraError,
    MissingMutexError,
    MissingRuleError,
    MutexError,
    NotRunningError,
    RunAbortedError,
    RunTimeoutError,
    UnknownActionError,
    UnknownComponentError,
)
from weftjobs_controllers.middlewares import CallNext
from weftjobs_controllers.signals import AbortSignal

__all__ = [
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
]
