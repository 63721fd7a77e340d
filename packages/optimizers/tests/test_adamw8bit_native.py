"""The loop in C++ beside the tables: same codes, scales and parameters, whatever the numbers, dtype and threads."""

from __future__ import annotations

import math

import pytest
import torch
from rules import WITHOUT_COMPILER

from bancada_optimizers import AdamW8bit, dynamic_map
from bancada_optimizers.adamw8bit import native
from bancada_optimizers.adamw8bit.blockwise import tables

pytestmark = pytest.mark.skipif(WITHOUT_COMPILER is not None, reason=str(WITHOUT_COMPILER))
BLOCKS = native.LEAST_BLOCKS + 1


def pair(start: torch.Tensor) -> tuple[list[torch.nn.Parameter], list[AdamW8bit]]:
    params = [torch.nn.Parameter(start.clone()) for _ in range(2)]
    options = {"lr": 0.01, "weight_decay": 0.1, "min_8bit_size": 0}
    return params, [AdamW8bit([p], backend=b, **options) for p, b in zip(params, ("table", "native"), strict=True)]  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_steps_are_those_of_the_tables(dtype: torch.dtype, threads: int) -> None:
    """From the same state, gradients over eight decades: fp32's rounding apart, and three codes in ten thousand."""
    generator = torch.Generator().manual_seed(4)
    size = BLOCKS * 256 + 77
    params, optimizers = pair(torch.randn(size, generator=generator).to(dtype))
    flips, before = 0, torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in range(4):
            g = torch.randn(size, generator=generator) * 10 ** (torch.rand(size, generator=generator) * -8)
            g[:256] = 0
            start = params[0].detach().clone()
            for p in params:
                p.grad = g.to(dtype)
            for optimizer in optimizers:
                optimizer.step()
            table, other = (optimizer.state[p] for optimizer, p in zip(optimizers, params, strict=True))
            for name in ("exp_avg", "exp_avg_sq"):
                torch.testing.assert_close(other[f"{name}_scale"], table[f"{name}_scale"], rtol=2e-6, atol=0)
                off = (other[name].int() - table[name].int()).abs()
                assert int(off.max()) <= 1
                flips += int(off.sum())
            new = params[0].detach()
            rounding = 2 * torch.finfo(dtype).eps * new.abs() + 4e-6 * (new - start).abs()
            assert bool(((params[1].detach() - new).abs() <= rounding).all())
            params[1].detach().copy_(params[0].detach())
            for name, value in table.items():
                other[name].copy_(value)
    finally:
        torch.set_num_threads(before)
    assert flips <= 8 * size * 3e-4


@pytest.mark.parametrize("signed", [True, False])
def test_every_code_stands_for_its_number_and_is_found_again(signed: bool) -> None:
    """Moments that are the map's values get its codes, and what these stand for, times 0.9, gets them again."""
    p = torch.nn.Parameter(torch.zeros(512))
    optimizer = AdamW8bit([p], lr=1.0, betas=(0.0, 0.0), weight_decay=0.0, min_8bit_size=0, backend="native")
    values = dynamic_map(signed).float()
    p.grad = torch.cat([values, values.flip(0)])
    if not signed:  # v = g^2 with b2 = 0
        p.grad = p.grad.sqrt()
    optimizer.step()
    codes = optimizer.state[p]["exp_avg" if signed else "exp_avg_sq"]
    expected = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(codes, torch.cat([expected, expected.flip(0)]))
    p.grad = torch.zeros(512)
    group = optimizer.param_groups[0]
    group["betas"] = (0.9, 0.9)
    optimizer.step()
    assert torch.equal(optimizer.state[p]["exp_avg" if signed else "exp_avg_sq"], codes)
    assert float(optimizer.state[p]["exp_avg_scale" if signed else "exp_avg_sq_scale"][0]) == pytest.approx(0.9)


def test_borders_are_half_way_between_two_codes() -> None:
    """A hair to either side of every border of both maps falls to its own side."""
    for signed in (True, False):
        borders = tables(signed, torch.device("cpu")).borders[:-1]
        for side in (-1, 1):
            x = borders + side * borders.abs() * 2e-5
            if not signed:
                x = x.sqrt()
            g = torch.cat([x, torch.ones(1)])  # the scale is 1
            p = torch.nn.Parameter(torch.zeros(256))
            p.grad = g
            optimizer = AdamW8bit([p], betas=(0.0, 0.0), min_8bit_size=0, backend="native")
            optimizer.step()
            codes = optimizer.state[p]["exp_avg" if signed else "exp_avg_sq"][:255].int()
            expected = torch.arange(255) + (side > 0)
            assert torch.equal(codes, expected.int())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_element_loses_its_block_and_no_other(bad: float) -> None:
    params, optimizers = pair(torch.zeros(768))
    for t in range(2):
        for p, optimizer in zip(params, optimizers, strict=True):
            p.grad = torch.ones(768)
            if t == 0:
                p.grad[300] = bad
            optimizer.step()
            lost = ~torch.isfinite(p.detach())
            assert not lost[:256].any() and not lost[512:].any() and bool(lost[300])
    assert all(int((~torch.isfinite(p.detach())).sum()) == 256 for p in params)


def test_what_it_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    p = torch.nn.Parameter(torch.zeros(300, device="meta"))
    with pytest.raises(ValueError, match="backend='native': a parameter is not on a CPU; allowed there are auto"):
        AdamW8bit([p], backend="native")
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"backend='native': needs a C\+\+ compiler: .*; allowed here are auto, table"):
        AdamW8bit([torch.nn.Parameter(torch.zeros(3))], backend="native")
