"""Locks that several instances of an application share, so that one of them runs a job."""

from __future__ import annotations

from weftjobs_controllers.mutexes.file import FileMutex
from weftjobs_controllers.mutexes.memory import MemoryMutex
from weftjobs_controllers.mutexes.postgres import PostgresMutex
from weftjobs_controllers.mutexes.protocol import Lease, Mutex
from weftjobs_controllers.mutexes.redis import RedisMutex

__all__ = ["FileMutex", "Lease", "MemoryMutex", "Mutex", "PostgresMutex", "RedisMutex"]
