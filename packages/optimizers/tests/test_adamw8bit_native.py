"""The loop in C++ beside the tables: same codes, scales and parameters, whatever the numbers, dtype and threads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rules import WITHOUT_COMPILER

from bancada_optimizers import AdamW8bit, dynamic_map
from bancada_optimizers.adamw8bit import api, native
from bancada_optimizers.adamw8bit.blockwise import tables
from bancada_optimizers.adamw8bit.reference import adamw8bit_step

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
            expected = (torch.arange(255) + (side > 0)).clamp(min=0 if signed else 1)  # a square above 0 is not 0
            assert torch.equal(codes, expected.int())


@pytest.mark.parametrize("backend", ["table", "native"])
def test_single_steps_from_copied_state_are_the_references(backend: str) -> None:
    """In float64, through all 256 codes: parameters within 1e-6 (of steps of 0.01), codes but for those on a border."""
    generator = torch.Generator().manual_seed(5)
    p = torch.nn.Parameter(torch.randn(700, generator=generator))
    options = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
    optimizer = AdamW8bit([p], min_8bit_size=0, backend=backend, **options)  # type: ignore[arg-type]
    names = ("exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale")
    flips = 0
    for t in range(1, 6):
        p.grad = torch.randn(700, generator=generator) * 10 ** (torch.rand(700, generator=generator) * -3)
        if t == 1:  # one step of each, from nothing
            optimizer.step()
            continue
        state = optimizer.state[p]
        before = tuple(state[name].clone() if state[name].dtype == torch.uint8 else state[name].double()
                       for name in names)  # fmt: skip
        start = p.detach().double()
        new, after = adamw8bit_step(start, p.grad.double(), before, t, **options)  # type: ignore[arg-type]
        optimizer.step()
        assert float((p.detach() - new).abs().max()) <= 1e-6
        for name, right in zip(names, after, strict=True):
            if right.dtype == torch.uint8:
                flips += int((state[name] != right).sum())
            else:
                torch.testing.assert_close(state[name].double(), right, rtol=2e-6, atol=0)
    assert flips <= 3


@pytest.mark.parametrize("backend", ["table", "native"])
def test_gradients_six_decades_apart_in_a_block_train(backend: str) -> None:
    """Second moments of 1e-12 of the block's largest, rounded to 0, made steps of a hundred thousand times the rate."""
    generator = torch.Generator().manual_seed(6)
    start = torch.randn(64, 64, generator=generator)
    p, q = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = (AdamW8bit([p], lr=0.01, min_8bit_size=0, backend=backend), torch.optim.AdamW([q], lr=0.01))
    for _ in range(8):
        g = torch.randn(64, 64, generator=generator) * 10 ** (torch.rand(64, 64, generator=generator) * -6)
        g[torch.rand(64, generator=generator) < 0.5] = 0  # rows of an embedding that no token asked for
        for one, optimizer in zip((p, q), optimizers, strict=True):
            one.grad = g.clone()
            optimizer.step()
    off, way = (p - q).detach(), (q.detach() - start)
    assert float(off.abs().max()) <= 8 * 0.01 * 2
    assert float(off.norm()) <= 0.4 * float(way.norm())


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
    with pytest.raises(ValueError, match="backend='native': a parameter is a Named; allowed there are auto, table"):
        AdamW8bit([Named(torch.zeros(300))], backend="native")
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"backend='native': needs a C\+\+ compiler: .*; allowed here are auto, table"):
        AdamW8bit([torch.nn.Parameter(torch.zeros(3))], backend="native")


class Named(torch.nn.Parameter):
    """A parameter of a class of its own, as DTensor is: its memory may not be what it stands for."""


def test_the_default_is_the_loop_where_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[type] = []
    loop = native.native_adamw8bit
    monkeypatch.setattr(api, "native_adamw8bit", lambda p, *rest: (called.append(type(p)), loop(p, *rest)))
    for p in (torch.nn.Parameter(torch.zeros(512)), Named(torch.zeros(512))):
        p.grad = torch.ones(512)
        AdamW8bit([p], lr=0.5, weight_decay=0.0, min_8bit_size=0).step()
        torch.testing.assert_close(p.detach(), torch.full((512,), -0.5))
    assert len(called) == 1


def test_a_compiler_that_fails_is_warned_of_once_and_the_tables_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_compiler: None
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no headers here >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    p, q = (torch.nn.Parameter(torch.ones(512)) for _ in range(2))
    optimizers = (AdamW8bit([p], min_8bit_size=0), AdamW8bit([q], min_8bit_size=0, backend="table"))
    with pytest.warns(RuntimeWarning, match=r"(?s)goes by its tables.*no headers here") as warned:
        for _ in range(2):
            for one, optimizer in zip((p, q), optimizers, strict=True):
                one.grad = torch.linspace(-1, 1, 512)
                optimizer.step()
    assert len(warned) == 1
    assert torch.equal(p, q)
    with pytest.raises(RuntimeError, match=r"(?s)backend='native': .*no headers here"):
        p.grad = torch.ones(512)
        AdamW8bit([p], min_8bit_size=0, backend="native").step()


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Nothing compiled or refused so far is remembered, in the test or after it."""
    for cached in (native._function, native.ready):
        cached.cache_clear()
    yield
    for cached in (native._function, native.ready):
        cached.cache_clear()
