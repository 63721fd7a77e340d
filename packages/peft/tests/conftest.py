"""Checks every annotated shape of the package while its tests run."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode puts no test folder there: `peft_models` lives here
CHECKED = (
    "bancada_peft.bottleneck.reference",
    "bancada_peft.dora.norm",
    "bancada_peft.dora.reference",
    "bancada_peft.ia3.reference",
    "bancada_peft.lora.low_rank",
    "bancada_peft.lora.reference",
    "bancada_peft.prompt.reference",
)
install_import_hook(CHECKED, "beartype.beartype")

hypothesis.settings.register_profile("bancada_peft", deadline=None, derandomize=True, database=None)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
