"""Configurations of the Triton kernels as suites: work and loads by definition, the tile that reaches the kernel."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import pytest

from bancada.compiled import CompileSuite, Launch
from bancada.suite import Case, Device
from bancada_attention._suites import compiled, problem
from bancada_attention.flash import triton_kernel

COMPILED, TIMED = compiled.compile_suite(), compiled.configurations_suite()
CPU = Device("cpu", "a CPU", 16 << 30)
H200 = Device("cuda", "a GPU", 140 << 30, capability=(9, 0))
SHAPES: list[dict[str, Any]] = [
    {"seq_len": 100},
    {"seq_len": 64, "kv_len": 130},
    {"seq_len": 33, "heads": 4, "kv_heads": 2, "head_dim": 40, "dtype": "fp32"},
    {"seq_len": 100, "kv_len": 50, "causal": False},
]
TILES = [{"block_m": 16, "block_n": 32}, {"block_m": 64, "block_n": 16}]


def blocks(length: int, size: int) -> list[range]:
    return [range(first, min(first + size, length)) for first in range(0, length, size)]


def loaded_by_definition(case: Case) -> float:
    """Every block loads its own rows once, and each tile that holds a pair which its rows may see."""
    shape, kernel = problem.Shape.of(case), case.word("kernel")
    rows, keys = blocks(shape.queries, case.number("block_m")), blocks(shape.keys, case.number("block_n"))

    def meet(row: range, key: range) -> bool:
        return not shape.causal or key[0] <= row[-1] + shape.offset

    pairs = sum(meet(row, key) for row, key in itertools.product(rows, keys))
    size = shape.dim * shape.dtype.itemsize
    if kernel == "backward_keys":  # K and V of a block, Q and dO of each tile
        own, tiles = 2 * shape.keys * shape.kv_heads, 2 * pairs * case.number("block_m") * shape.heads
    else:  # Q, in the backward dO too; K and V of each tile
        own = (1 if kernel == "forward" else 2) * shape.queries * shape.heads
        tiles = 2 * pairs * case.number("block_n") * shape.heads
    return float(shape.batch * (own + tiles) * size)


@pytest.mark.parametrize("kernel", compiled.PRODUCTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_loaded_bytes_are_those_of_every_block(kernel: str, shape: dict[str, Any], tile: dict[str, Any]) -> None:
    case = COMPILED.case(kernel=kernel, **shape, **tile)
    assert COMPILED.loaded(case) == loaded_by_definition(case)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_work_is_the_forwards_for_its_products(shape: dict[str, Any]) -> None:
    """S and O; S, dV, dP and dK; S, dP and dQ: each 2 d operations a pair. Bytes: what a kernel reads and writes."""
    sizes = problem.Shape.of(COMPILED.case(**shape))
    queries, keys = sizes.batch * sizes.heads * sizes.queries, sizes.batch * sizes.kv_heads * sizes.keys
    for kernel, products, numbers in (
        ("forward", 2, 2 * queries + 2 * keys),
        ("backward_keys", 4, 2 * queries + 4 * keys),
        ("backward_queries", 3, 3 * queries + 2 * keys),
    ):
        work = COMPILED.work(COMPILED.case(kernel=kernel, **shape))
        assert work.flops == products * 2.0 * sizes.dim * sizes.batch * sizes.heads * sizes.pairs
        assert work.bytes == numbers * sizes.dim * sizes.dtype.itemsize


def test_a_launch_says_what_the_case_says() -> None:
    if triton_kernel.MISSING is not None:
        pytest.skip(triton_kernel.MISSING)
    tile = {"block_m": 32, "block_n": 64, "num_warps": 2, "num_stages": 4}
    (ours,) = COMPILED.contenders
    case = COMPILED.case(kernel="backward_keys", heads=8, kv_heads=2, seq_len=4100, head_dim=72, dtype="fp16", **tile)
    launch = ours.build(case)
    assert isinstance(launch, Launch) and isinstance(COMPILED, CompileSuite)
    assert (launch.num_warps, launch.num_stages) == (2, 4)
    told = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_D": 128, "HEAD_DIM": 72, "CAUSAL": True, "GROUPED": True,
            "EVEN_ROWS": False, "UNIT": 8}  # fmt: skip
    assert launch.constants.items() >= told.items()
    assert launch.signature["q"] == "*fp16" and launch.signature["lse2"] == "*fp32"
    assert "q" in launch.aligned and "stride_qm" not in launch.aligned, "72 is no multiple of 16"


def test_the_tile_of_a_case_reaches_the_kernel() -> None:
    """The GPU's contender launches the forward kernel as the case says, and not as `triton_config` would."""
    launched: list[tuple[tuple[int, ...], dict[str, Any]]] = []

    class Spy:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *args, **options: launched.append((grid, options))

    case = TIMED.case(batch=1, heads=2, seq_len=100, head_dim=16, block_m=64, block_n=16, num_warps=2, num_stages=1)
    run = TIMED.contender("flash-triton").build(case, TIMED.inputs(case, "cpu", 0))
    with mock.patch.object(triton_kernel._forward, "forward_kernel", Spy()):
        run()
    ((grid, options),) = launched
    assert grid == (2 * 2,)
    assert (options["BLOCK_M"], options["BLOCK_N"], options["num_warps"], options["num_stages"]) == (64, 16, 2, 1)
    assert options["CAUSAL"] is True


def test_both_suites_say_where_they_cannot_run() -> None:
    """Compiling needs no GPU, timing does; neither takes float64 or a head_dim beyond 256."""
    (asked,), timed = COMPILED.contenders, TIMED.contender("flash-triton")
    assert asked.supports(COMPILED.case(), CPU) is None
    assert "needs a CUDA GPU" in str(timed.supports(TIMED.case(), CPU))
    assert timed.supports(TIMED.case(), H200) is None
    for more, word in (({"dtype": "fp64"}, "fp64"), ({"head_dim": 257}, "head_dim=257")):
        assert word in str(asked.supports(COMPILED.case(**more), CPU))
        assert word in str(timed.supports(TIMED.case(**more), H200))


def test_the_same_configurations_are_compiled_and_raced() -> None:
    given = COMPILED.stands_for[TIMED.id]
    shared = {axis.name for axis in TIMED.axes}
    assert {axis.name for axis in COMPILED.axes} - shared == {"target", *given}
    assert set(COMPILED.configuration) <= shared and TIMED.contender("torch-sdpa").reference
