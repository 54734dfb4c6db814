"""Libraries that are installed on demand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weftjobs_controllers.errors import MissingExtraError


def required(module: str, *, extra: str) -> Any:
    """Import a module of a library that an extra brings along.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(module, extra) from error
