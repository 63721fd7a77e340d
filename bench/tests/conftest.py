"""Shared by the harness's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the planted suites are found by name, here and in child processes

from bancada.suite import Device


@pytest.fixture
def cpu() -> Device:
    return Device("cpu", "test CPU", 8 * 2**30, threads=1)
