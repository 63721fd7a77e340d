"""Tile sizes of the Triton kernels, chosen by target, head_dim and dtype; needs neither Triton nor a GPU.

The choice is by what the compiler says (the suite `attention.compile`, and test_triton_compile.py for every entry,
with and without masks): no stack, which would mean spilled registers, and a block's shared memory within the
target's. Among those that pass, the tile that loads least for each product. No clock has been asked yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

KERNELS = ("forward", "prepare", "backward_keys", "backward_queries")
HALF, SINGLE = (torch.float16, torch.bfloat16), (torch.float32,)


@dataclass(frozen=True)
class Tile:
    """How one kernel cuts its work: rows of queries, rows of keys, warps a block, loads in flight (pipeline stages)."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class KernelConfig:
    """A tile for each of the four kernels."""

    forward: Tile
    prepare: Tile
    backward_keys: Tile
    backward_queries: Tile

    def tile(self, kernel: str) -> Tile:
        """The tile of a kernel in `KERNELS`; ValueError for any other name."""
        tiles = dict(zip(KERNELS, (self.forward, self.prepare, self.backward_keys, self.backward_queries), strict=True))
        if kernel not in tiles:
            raise ValueError(f"kernel={kernel!r}: allowed are {', '.join(KERNELS)}")
        return tiles[kernel]


_Numbers = tuple[int, int, int, int]


def _config(forward: _Numbers, keys: _Numbers, queries: _Numbers, rows: int) -> KernelConfig:
    return KernelConfig(Tile(*forward), Tile(rows, rows, 4, 1), Tile(*keys), Tile(*queries))


# Each row: padded head_dim: forward, keys, queries as (block_m, block_n, warps, stages); rows a block of `prepare`.
_HOPPER_HALF = {
    # wgmma takes 64 rows a group of 4 warps: 128 rows and 8 warps feed two. Two blocks a processor would fit with
    # 128 x 64, but half as wide a product reads its operands from shared memory as fast as that can give them.
    16: _config((128, 128, 8, 3), (64, 128, 8, 3), (128, 64, 8, 3), 128),
    32: _config((128, 128, 8, 3), (64, 128, 8, 3), (128, 64, 8, 3), 128),
    64: _config((128, 128, 8, 3), (64, 128, 8, 3), (128, 64, 8, 3), 64),
    # 128 x 128 spills 40 bytes with a padding mask; dK and dV of 128 keys leave room for 32 query rows.
    128: _config((128, 64, 8, 3), (32, 128, 8, 3), (128, 64, 8, 2), 32),
    # dK and dV of 64 keys are all the registers there are: 32 keys, which is too few for wgmma (mma.sync instead).
    256: _config((128, 32, 8, 2), (32, 32, 8, 2), (64, 32, 8, 2), 16),
}
_AMPERE_HALF = {
    16: _config((128, 128, 8, 3), (64, 128, 8, 3), (128, 64, 8, 3), 128),
    32: _config((128, 128, 8, 3), (64, 128, 8, 3), (128, 64, 8, 3), 128),
    # mma.sync keeps its left operand in registers: with Q there, 128 x 128 spills.
    64: _config((128, 64, 4, 3), (32, 128, 8, 3), (128, 64, 8, 3), 64),
    128: _config((128, 64, 8, 3), (64, 64, 8, 2), (128, 32, 8, 2), 32),
    256: _config((64, 32, 8, 2), (16, 64, 8, 2), (64, 16, 4, 2), 16),
}
# Elsewhere 99 KiB have to do (sm_86, sm_89, sm_120).
_SMALL_HALF = _AMPERE_HALF | {128: _config((128, 64, 8, 2), (64, 64, 8, 2), (128, 32, 8, 2), 32)}
# Exact fp32 products (`ieee`) use no tensor cores: every thread holds its operands, and only small tiles do not spill.
_ANY_SINGLE = {
    16: _config((32, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 2), 64),
    32: _config((32, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 2), 64),
    64: _config((32, 32, 4, 2), (32, 16, 4, 2), (32, 32, 4, 2), 32),
    128: _config((32, 32, 4, 2), (16, 16, 4, 2), (32, 16, 4, 2), 16),
    256: _config((16, 16, 4, 1), (16, 16, 8, 1), (16, 16, 4, 2), 16),
}
_INTERPRETER = KernelConfig(*[Tile(64, 64, 4, 1)] * 4)  # few large steps: each costs Python's time, whatever its size


def padded_head_dim(head_dim: int) -> int:
    """The power of two, 16 or more, that holds `head_dim` columns: products of tiles know no other sizes."""
    return max(16, 1 << (head_dim - 1).bit_length())


def kernel_config(target: str, head_dim: int, dtype: torch.dtype) -> KernelConfig:
    """The tiles for a target (`sm_90`, `interpreter`), a head_dim of 1 to 256 and a dtype.

    Targets that are not in the tables get tiles that fit into the 99 KiB of the smaller chips.

    Raises:
        ValueError: head_dim or dtype is none that the kernels take.
    """
    if dtype not in HALF + SINGLE:
        raise ValueError(f"dtype={dtype}: allowed are {', '.join(map(str, HALF + SINGLE))}")
    if not 1 <= head_dim <= 256:
        raise ValueError(f"head_dim={head_dim}: must be 1 to 256")
    if target == "interpreter":
        return _INTERPRETER
    halves = {"sm_90": _HOPPER_HALF, "sm_80": _AMPERE_HALF}.get(target, _SMALL_HALF)
    return (_ANY_SINGLE if dtype in SINGLE else halves)[padded_head_dim(head_dim)]
