"""The Triton kernels compiled for GPUs that are not there: no stack, shared memory, tensor cores, 64-bit offsets.

The default run compiles what matters most; `-m slow` the whole table of `triton_config` (some 20 minutes the
first time; Triton keeps what it compiled in its cache folder).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bancada_attention.flash import triton_kernel
from bancada_attention.flash.triton_config import KERNELS, KernelConfig, Tile, kernel_config, padded_head_dim

pytest.importorskip("triton")
if triton_kernel.INTERPRETED:
    pytest.skip("TRITON_INTERPRET=1: nothing is compiled", allow_module_level=True)

from bancada.compiled import TARGETS
from bancada.compiled.assembly import count
from bancada.compiled.compiler import Compiled, compile_launch
from bancada_attention._suites.launches import launch

PRODUCTS = ("forward", "backward_keys", "backward_queries")
PADDED = (16, 32, 64, 128, 256)
SMALLEST = 99 * 1024
"""Bytes of shared memory that a block may take on sm_86, sm_89 and sm_120 (CUDA C++ Programming Guide)."""


def compile_for(
    kernel: str,
    target: str,
    head_dim: int,
    dtype: torch.dtype,
    causal: bool,
    tile: Tile | None = None,
    *,
    general: bool = False,
) -> Compiled:
    """With the tile that `kernel_config` chooses; `general`: masked, grouped, of a length that no tile divides."""
    chosen = tile or kernel_config(target, head_dim, dtype).tile(kernel)
    options = {"masked": general, "grouped": general, "even": not general}
    return compile_launch(launch(kernel, head_dim, dtype, causal, chosen, **options), target)


def check(kernel: str, target: str, head_dim: int, dtype: torch.dtype, made: Compiled) -> None:
    limit = TARGETS[target].block_shared_bytes
    what = f"{kernel}, {target}, {head_dim}"
    assert made.stack_bytes == 0, f"{what}: a stack of {made.stack_bytes} bytes"
    assert made.shared_bytes <= limit, f"{what}: {made.shared_bytes} bytes of {limit}"
    assert made.registers <= 255
    if kernel == "prepare" or dtype == torch.float32:
        return
    # 32 keys, all that fit at head_dim 256, are too few for wgmma.
    few = kernel == "backward_keys" and padded_head_dim(head_dim) == 256
    assert set(count(made.assembly, "cuda").matrix) == {"mma.sync" if few else TARGETS[target].instruction}


@pytest.mark.parametrize("head_dim", (64, 128))
@pytest.mark.parametrize("target", ("sm_80", "sm_90"))
@pytest.mark.parametrize("kernel", KERNELS)
def test_common_sizes_compile_without_a_stack(kernel: str, target: str, head_dim: int) -> None:
    made = compile_for(kernel, target, head_dim, torch.bfloat16, True, general=True)
    check(kernel, target, head_dim, torch.bfloat16, made)
    if kernel != "prepare":
        assert "cp.async.cg.shared.global" in made.assembly, "K and V are not loaded ahead, 16 bytes at a time"


def test_rows_of_72_elements_load_16_bytes() -> None:
    """72 is no multiple of 16, which is all that Triton looks for: without `UNIT` it loads 2 bytes at a time."""
    assert "cp.async.cg.shared.global" in compile_for("forward", "sm_90", 72, torch.float16, False).assembly


@pytest.mark.parametrize("kernel", PRODUCTS)
def test_products_overlap_on_hopper(kernel: str, tmp_path: Path) -> None:
    """The assembler does not say that it waits after every wgmma (C7510, C7515): no stack, but slow."""
    import triton

    source = tmp_path / "kernel.ptx"
    source.write_text(compile_for(kernel, "sm_90", 128, torch.bfloat16, True, general=True).assembly)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    command = [str(tool), "-v", "--gpu-name=sm_90a", str(source), "-o", str(tmp_path / "kernel.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "registers" in said.stderr + said.stdout
    assert "serialized" not in said.stderr + said.stdout


@pytest.mark.slow
@pytest.mark.parametrize("general", (False, True), ids=("bare", "general"))
@pytest.mark.parametrize("causal", (False, True), ids=("full", "causal"))
@pytest.mark.parametrize("head_dim", PADDED)
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("target", ("sm_80", "sm_90"))
@pytest.mark.parametrize("kernel", KERNELS)
def test_whole_table_compiles_without_a_stack(
    kernel: str, target: str, dtype: torch.dtype, head_dim: int, causal: bool, general: bool
) -> None:
    check(kernel, target, head_dim, dtype, compile_for(kernel, target, head_dim, dtype, causal, general=general))


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", (40, 72, 80, 96, 111, 192))
@pytest.mark.parametrize("target", ("sm_80", "sm_90"))
@pytest.mark.parametrize("kernel", PRODUCTS)
def test_padded_head_dims_compile_without_a_stack(kernel: str, target: str, head_dim: int) -> None:
    check(kernel, target, head_dim, torch.bfloat16, compile_for(kernel, target, head_dim, torch.bfloat16, True))


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", PADDED)
@pytest.mark.parametrize("kernel", PRODUCTS)
def test_other_targets_fit_into_the_shared_memory_of_the_smallest(kernel: str, head_dim: int) -> None:
    assert compile_for(kernel, "sm_89", head_dim, torch.bfloat16, True).shared_bytes <= SMALLEST


@pytest.mark.parametrize("kernel", KERNELS)
def test_offsets_are_64_bit(kernel: str) -> None:
    """case21 FAp1500, FLA1080: no batch, head or token offset is multiplied or added to a pointer in 32 bits.

    Offsets inside one tile may be: the launcher sets WIDE where they would not fit.
    """
    ttir = compile_for(kernel, "sm_90", 64, torch.bfloat16, True, general=True).ttir
    strides = set(re.findall(r"%stride_\w+(?=: i32)", ttir))
    assert len(strides) >= 6
    pointers = 0
    for line in re.sub(r" loc\(.*?\)$", "", ttir, flags=re.MULTILINE).splitlines():
        found = re.match(r"\s*(%[\w#]+) = ([\w.]+) ([^:]*) : (.*)", line)
        if not found:
            continue
        result, operation, operands, kind = found.groups()
        names = re.findall(r"%[\w#]+", operands)
        if operation == "tt.addptr" and not kind.startswith("tensor"):
            pointers += 1
            assert kind.rstrip().endswith("i64"), f"a 32-bit offset: {line}"
        if not strides.intersection(names) or kind.strip() != "i32":
            continue
        constant = [name for name in names if re.fullmatch(r"%c\d+_i32\w*", name)]
        assert operation in ("arith.divsi", "arith.muli") and constant, f"a stride in 32-bit arithmetic: {line}"
        strides.add(result)  # the rounding of `aligned`
    assert pointers >= 4


def test_numbers_come_from_the_machine_code() -> None:
    """A tile that is far too large has a stack, so that next to none says something (Triton 3.6 spills 8 bytes)."""
    small = compile_for("forward", "sm_80", 64, torch.bfloat16, True, Tile(64, 64, 4, 2))
    large = compile_for("forward", "sm_80", 64, torch.bfloat16, True, Tile(128, 128, 4, 2))
    assert small.stack_bytes <= 8 and 32 < small.registers <= 255
    assert large.stack_bytes > 100


@pytest.mark.parametrize(
    ("arguments", "word"),
    (
        (("sideways", "sm_90", 64, torch.bfloat16), "kernel='sideways'"),
        (("forward", "volta", 64, torch.bfloat16), "target='volta'"),
        (("forward", "sm_90", 257, torch.bfloat16), "head_dim=257"),
        (("forward", "sm_90", 0, torch.bfloat16), "head_dim=0"),
        (("forward", "sm_90", 64, torch.float64), "dtype=torch.float64"),
    ),
)
def test_bad_input_is_named(arguments: tuple[str, str, int, torch.dtype], word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(word)):
        compile_for(*arguments, True)


def test_every_tile_suits_the_kernels() -> None:
    """Blocks are powers of two, 16 or more, and divide the 128 rows that the backward's scratch is padded to."""
    for target in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "interpreter"):
        for head_dim in range(1, 257):
            for dtype in triton_kernel.DTYPES:
                config = kernel_config(target, head_dim, dtype)
                assert isinstance(config, KernelConfig)
                for kernel in KERNELS:
                    tile = config.tile(kernel)
                    assert {tile.block_m, tile.block_n} <= {16, 32, 64, 128}, (target, head_dim, tile)
    with pytest.raises(ValueError, match="kernel='sideways'"):
        kernel_config("sm_90", 64, torch.float16).tile("sideways")


def test_unsupported_says_why() -> None:
    assert "float64" in str(triton_kernel.unsupported(torch.zeros(1, 1, 1, 8, dtype=torch.float64)))
    assert "head_dim 257" in str(triton_kernel.unsupported(torch.zeros(1, 1, 1, 257)))
    assert "TRITON_INTERPRET=1" in str(triton_kernel.unsupported(torch.zeros(1, 1, 1, 8)))


def fresh(code: str, **environment: str) -> str:
    """What a new Python prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_interpreter_refuses_bfloat16() -> None:
    code = (
        "import torch; from bancada_attention.flash.triton_kernel import unsupported as no;"
        "print([no(torch.zeros(1, 1, 1, 8, dtype=getattr(torch, d))) for d in ('bfloat16', 'float16', 'float32')])"
    )
    answer = fresh(code, TRITON_INTERPRET="1")
    assert "bit patterns" in answer and answer.endswith("None, None]")


def test_imports_without_triton_and_starts_no_gpu() -> None:
    missing = (
        "import sys; sys.modules['triton'] = None; import torch;"
        "from bancada_attention.flash.triton_kernel import unsupported; print(unsupported(torch.zeros(1, 1, 1, 8)))"
    )
    assert "Triton cannot be imported here" in fresh(missing)
    quiet = "import bancada_attention.flash.triton_kernel, torch; assert not torch.cuda.is_initialized()"
    assert fresh(quiet) == ""
