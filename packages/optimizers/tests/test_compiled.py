"""AdamW through torch.compile: nothing is compiled after the first step (which takes a C++ compiler and seconds)."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest
import torch

from bancada_optimizers import AdamW, adamw_step

NEEDS = shutil.which("g++") is None or not Path(sysconfig.get_path("include"), "Python.h").is_file()


@pytest.mark.skipif(NEEDS, reason="torch.compile needs g++ and Python's C headers")
@pytest.mark.filterwarnings("default")
def test_compiled_steps_are_the_references_and_a_new_rate_compiles_nothing() -> None:
    torch.manual_seed(0)
    shapes = [(700,), (33, 65), (), (0,)]
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    optimizer = AdamW(params, weight_decay=0.1, backend="compiled")
    torch._dynamo.utils.counters.clear()
    graphs = 0
    for t in range(1, 4):
        optimizer.param_groups[0]["lr"] = rate = 0.01 / t
        expected = []
        for p in params:
            p.grad = torch.randn_like(p)
            state = optimizer.state[p]
            m, v = (
                state[name].double() if state else torch.zeros_like(p).double() for name in ("exp_avg", "exp_avg_sq")
            )
            new, _, _ = adamw_step(p.detach().double(), p.grad.double(), m, v, t, lr=rate, weight_decay=0.1)
            expected.append(new)
        optimizer.step()
        for p, new in zip(params, expected, strict=True):
            assert p.numel() == 0 or float((p.detach().double() - new).abs().max()) <= 1e-6
        graphs = graphs or torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs > 0
