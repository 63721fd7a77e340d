"""Configurations of the Triton kernels: compiled for GPUs that are not there, and raced on one that is.

`attention.compile` asks the compiler, `attention.configurations` the clock. `prepare` is not among the kernels: it
reads every row once, and has nothing to choose but rows a block.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from bancada.compiled import CompileContender, CompileSuite, Launch
from bancada.compiled.declare import target_axis
from bancada.suite import Axis, Case, Contender, Device, KernelSuite, Run, Scalar, Tensors, Work
from bancada_attention._suites import answer, problem
from bancada_attention._suites.catalogue import TECHNIQUES
from bancada_attention._suites.contenders import WAYS, triton_supports
from bancada_attention._suites.launches import launch
from bancada_attention._suites.problem import Shape
from bancada_attention.flash.triton_config import Tile

PRODUCTS = {"forward": 2, "backward_keys": 4, "backward_queries": 3}
"""Matrix products of each kernel: S and O; S, dV, dP and dK; S, dP and dQ."""

BLOCKS, WARPS = (16, 32, 64, 128), (1, 2, 4, 8, 16)
TILE = (
    Axis("block_m", "m{}", choices=BLOCKS, scale="log"),
    Axis("block_n", "n{}", choices=BLOCKS, scale="log"),
    Axis("num_warps", "w{}", choices=WARPS, scale="log"),
    Axis("num_stages", "p{}", choices=(1, 2, 3, 4, 5), scale="linear"),
)
CONFIGURATION = tuple(axis.name for axis in TILE)
_TILE: dict[str, Scalar] = {"block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 3}
_SIZES: dict[str, Scalar] = {"batch": 4, "heads": 16, "seq_len": 4096, "head_dim": 128, "dtype": "bf16"}
_QUESTION = "Which block sizes, warps and stages are worth a run on the GPU, and which can be ruled out without one?"


def tile_of(case: Case) -> Tile:
    """The tile that a case's axes name."""
    return Tile(*(case.number(name) for name in CONFIGURATION))


def say(case: Case) -> str:
    """`128 x 64, 8 warps, 3 stages`."""
    tile = tile_of(case)
    return f"{tile.block_m} x {tile.block_n}, {_many(tile.num_warps, 'warp')}, {_many(tile.num_stages, 'stage')}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def kernel_work(case: Case) -> Work:
    """The forward's operations for its two products, as many more for each further one; least bytes.

    forward: q, k, v read, out written. backward_keys: q, k, v, dout read, dk, dv written; backward_queries: dq
    written. The numbers that come one a row (lse, delta) are left out.
    """
    shape, forward, kernel = Shape.of(case), problem.forward_work(case), case.word("kernel")
    more = {"backward_keys": 2 * problem.key_size(shape), "backward_queries": problem.query_size(shape)}
    return Work(forward.flops * PRODUCTS[kernel] / 2, forward.bytes + float(more.get(kernel, 0) * shape.dtype.itemsize))


def loaded(case: Case) -> float:
    """Bytes that all blocks load: each its own rows once, and every tile of the others that it sees.

    The forward and the queries' kernel cut queries into blocks and walk over keys, the keys' kernel the other way.
    """
    shape, tile = Shape.of(case), tile_of(case)
    row = 2 * shape.dim * shape.dtype.itemsize  # K and V, or Q and dO, of one token
    if case.word("kernel") == "backward_keys":
        seen = sum(_query_rows(shape, tile)) * shape.heads
        own = shape.keys * shape.kv_heads * row
    else:
        seen = sum(_key_rows(shape, tile)) * shape.heads
        own = shape.queries * shape.heads * row // (2 if case.word("kernel") == "forward" else 1)  # Q; Q and dO
    return float(shape.batch * (seen * row + own))


def _key_rows(shape: Shape, tile: Tile) -> Iterator[int]:
    """The keys that each block of queries of a head walks over, in whole tiles."""
    for first in range(0, shape.queries, tile.block_m):
        last = min(first + tile.block_m, shape.queries) + shape.offset if shape.causal else shape.keys
        yield -(-min(last, shape.keys) // tile.block_n) * tile.block_n


def _query_rows(shape: Shape, tile: Tile) -> Iterator[int]:
    """The query rows of a head that each block of keys walks over, in whole tiles."""
    end = -(-shape.queries // tile.block_m) * tile.block_m
    for first in range(0, shape.keys, tile.block_n):
        low = max(0, first - shape.offset) // tile.block_m * tile.block_m if shape.causal else 0
        yield end - min(low, end)


def _build(case: Case) -> Launch:
    shape = Shape.of(case)
    tile = tile_of(case)
    even, grouped = shape.queries % tile.block_m == 0, shape.group > 1
    return launch(case.word("kernel"), shape.dim, shape.dtype, shape.causal, tile, grouped=grouped, even=even)


def _compiles(case: Case, device: Device) -> str | None:
    return triton_supports(case)


def compile_suite() -> CompileSuite:
    """`attention.compile`."""
    return CompileSuite(
        id="attention.compile",
        title="Attention kernels, compiled",
        family="attention",
        question=_QUESTION,
        axes=(target_axis("sm_80", "sm_90", "gfx942"), Axis("kernel", "{}", str, choices=tuple(PRODUCTS)),
              *problem.AXES, *TILE),
        defaults={"target": "sm_90", "kernel": "forward", **problem.DEFAULTS, **_SIZES, **_TILE},
        small={**problem.SMALL, "block_m": 16, "block_n": 16, "num_warps": 1, "num_stages": 1},
        valid=problem.valid,
        work=kernel_work,
        techniques=TECHNIQUES,
        contenders=(
            CompileContender(
                id="flash-triton", technique="flash-attention", origin="bancada", build=_build, requires=("triton",),
                supports=_compiles, label="flash, Triton (ours)", backend="Triton kernels", compiles=True,
            ),
        ),
        x_axis="block_m",
        configuration=CONFIGURATION,
        sizes=("batch", "heads", "kv_heads", "seq_len", "kv_len"),
        say=say,
        matrix=lambda case: True,
        units=lambda case: float(case.number("block_m") * case.number("block_n")),
        unit="query-key pair",
        loaded=loaded,
        stands_for={"attention.configurations": {"kernel": "forward"}},
    )  # fmt: skip


def _configured(case: Case, inputs: Tensors) -> Run:
    from bancada_attention.flash.triton_kernel import triton_forward

    shape, tile = Shape.of(case), tile_of(case)
    q, k, v = (inputs[name] for name in "qkv")
    call = functools.partial(
        triton_forward, q, k, v, causal=shape.causal, scale=shape.dim**-0.5, key_padding_mask=None, tile=tile
    )

    def run() -> Tensors:
        return {"out": call()[0]}

    return run


def configurations_suite() -> KernelSuite:
    """`attention.configurations`: the forward kernel at the tile that a case names, in one race with torch SDPA."""
    ways = {way.id: way for way in WAYS}
    ours = ways["flash-triton"].contender(training=False)
    return KernelSuite(
        id="attention.configurations",
        title="Attention, forward: configurations of the Triton kernel",
        family="attention",
        question="Which block sizes, warps and stages make the forward kernel fastest on this GPU?",
        axes=(*problem.AXES, *TILE),
        defaults={**problem.DEFAULTS, **_SIZES, **_TILE},
        small={**problem.SMALL, "dtype": "fp32", "block_m": 16, "block_n": 16, "num_warps": 1, "num_stages": 1},
        inputs=problem.forward_inputs,
        oracle=answer.forward_oracle,
        tolerance=answer.tolerance,
        work=problem.forward_work,
        techniques=TECHNIQUES,
        contenders=(
            dataclasses.replace(ours, build=_configured, compiles=True),
            _as_reference(ways["torch-sdpa"].contender(training=False)),
        ),
        x_axis="block_m",
        valid=problem.valid,
    )


def _as_reference(contender: Contender) -> Contender:
    """SDPA at every tile is the same: what the configurations are compared through."""
    return dataclasses.replace(contender, reference=True)
