"""Reasons why a contender cannot run that suites of several packages share."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path

from bancada.suite import Case, Device


def compiler(case: Case, device: Device) -> str | None:
    """Why torch.compile cannot work on a device here, or None."""
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "c++", "clang++", "cl")):
        return "torch.compile needs a C++ compiler for a CPU"
    if device.type == "cpu" and not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "torch.compile needs Python's C headers for a CPU (on Debian the package python3-dev)"
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return "torch.compile needs triton for a GPU"
    return None
