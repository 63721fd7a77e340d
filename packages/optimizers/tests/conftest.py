"""Settings of the package's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode puts no test folder there: `rules` lives here

hypothesis.settings.register_profile("bancada_optimizers", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("bancada_optimizers")
