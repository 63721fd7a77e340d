"""Limits on a child process: it must not take the whole machine's memory, nor outlive its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from bancada.machine import available_bytes
from bancada.suite import Device

SHARE = 0.9
PARENT = "BANCADA_PARENT"  # the environment variable in which a parent leaves its process id
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def apply(device: Device, processes: int = 1) -> None:
    """Limits this process's private memory to most of what is free now, or to its share where several share it.

    CPU only: CUDA maps far more than it uses.
    """
    if device.type != "cpu":
        return
    try:
        import resource
    except ImportError:  # Windows: the system's own limit has to do
        return
    if free := available_bytes():
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = int(free * SHARE / processes)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def die_with_parent() -> None:
    """Asks Linux to kill this process when its parent is gone: a sweep that is killed leaves nothing behind."""
    parent = os.environ.get(PARENT)
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(parent):  # it was gone before Linux could be asked
        os._exit(1)
