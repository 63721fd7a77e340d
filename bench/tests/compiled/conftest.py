"""Shared by the tests of compile suites."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the planted suites are found by name, in child processes too
