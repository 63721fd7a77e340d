"""Checks every annotated shape of the package while its tests run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode puts no test folder there: `attention_rule` lives here

# Not the whole package: the hook wraps functions, and Triton reads the source of the functions it is given.
CHECKED = (
    "bancada_attention.exact",
    "bancada_attention.flash.api",
    "bancada_attention.flash.reference",
    "bancada_attention.flash.tiled",
)
install_import_hook(CHECKED, "beartype.beartype")

hypothesis.settings.register_profile("bancada_attention", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("bancada_attention")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small operations: where others use the cores, OpenMP's barriers made these tests 10 times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
