"""One thread for many small operations, and hypothesis without a clock or a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode puts no test folder there: `formats` lives here

hypothesis.settings.register_profile("bancada_compression", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("bancada_compression")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small operations: where others use the cores, OpenMP's barriers make these tests slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
