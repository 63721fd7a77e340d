"""What a row tells of a compiled kernel: each figure from its own source, and why a target cannot run it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any
from unittest import mock

import _planted_compiled as planted
import pytest

from bancada.compiled import compiler
from bancada.compiled.compiler import Compiled
from bancada.compiled.item import facts, unfit
from bancada.compiled.occupancy import Occupancy, occupancy
from bancada.compiled.targets import find

SUITE = planted.suite(planted.SOUND)
WGMMA, MMA, ADD = ("wgmma.mma_async.sync.aligned.m64n64k16 {%f1};", "mma.sync.aligned.m16n8k16 {%f1};", "add.s32 %r1;")
HELD = Occupancy(5, 40, 0.625, "registers")


def made(*lines: str, **changed: Any) -> Compiled:
    """A kernel of this PTX."""
    text = "".join(f"\t{line}\n" for line in lines)
    return dataclasses.replace(Compiled(96, 64, None, 4096, text, "", 2.5, True), **changed)


def test_every_figure_of_a_row_has_its_own_source() -> None:
    """Loop of 3 instructions, run by 8 warps of 32; 64 bytes of stack are 16 registers, stored and loaded."""
    case = SUITE.case(target="sm_90", length=256)
    kernel = made(ADD, "$L__BB0_1:", WGMMA, WGMMA, "bra $L__BB0_1;", MMA).assembly.replace("\t$L", "$L")
    found = facts(SUITE, case, made(assembly=kernel), HELD, 8)
    assert found == {
        "measure.registers": 96, "measure.stack_bytes": 64, "measure.shared_bytes": 4096,
        "measure.resident_blocks": 5, "measure.resident_warps": 40, "measure.occupancy": 0.625,
        "measure.instructions": (3 + 2 * 16) * 8 * 32 / 64**2, "measure.loop_instructions": 3,
        "measure.all_instructions": 5, "measure.matrix_instructions": 3, "measure.matrix_missing": 0,
        "measure.loaded_bytes": 4.0 * 256**3 / 64, "measure.bound_s": 8.0 * 256**2 / 4.8e12, "measure.compile_s": 2.5,
        "note.limit": "registers", "note.chip": "NVIDIA H200 SXM", "note.matrix": "wgmma, mma.sync",
        "note.compile": "from the cache", "flops": 2.0 * 256**3, "bytes": 8.0 * 256**2,
    }  # fmt: skip
    amd = facts(SUITE, SUITE.case(target="gfx942"), made(spilled_registers=7, cached=False), HELD, 8)
    assert amd["measure.spilled_registers"] == 7 and amd["note.compile"] == "compiled anew"
    without = facts(SUITE, case, made(ADD, ADD), HELD, 8)
    assert (without["measure.loop_instructions"], without["measure.instructions"]) == (0, (2 + 2 * 16) * 8 * 32 / 64**2)


@pytest.mark.parametrize(
    ("target", "dtype", "wanted", "lines", "missing", "word", "rate"),
    [
        ("sm_90", "fp16", True, (WGMMA,), 0, "wgmma", 989.5e12),
        ("sm_90", "fp16", True, (MMA,), 1, "mma.sync (wgmma expected)", 989.5e12),
        ("sm_80", "fp16", True, (MMA,), 0, "mma.sync", 312e12),
        ("sm_80", "fp16", True, (ADD,), 1, "none (mma.sync expected)", 19.5e12),
        ("sm_80", "fp16", False, (ADD,), 0, "none", 19.5e12),
        ("sm_80", "fp32", True, (ADD,), 0, "none", 19.5e12),  # exact fp32 products have no matrix units there
        ("gfx942", "fp32", True, ("v_add_u32 v0, v1",), 1, "none (v_mfma expected)", 163.4e12),
    ],
)
def test_matrix_instructions_are_missed_where_a_product_should_have_them(
    target: str, dtype: str, wanted: bool, lines: tuple[str, ...], missing: int, word: str, rate: float
) -> None:
    suite = dataclasses.replace(SUITE, matrix=lambda case: wanted)
    found = facts(suite, suite.case(target=target, dtype=dtype, length=16_384), made(*lines), HELD, 4)
    assert (found["measure.matrix_missing"], found["note.matrix"]) == (missing, word)
    assert found["measure.bound_s"] == pytest.approx(2.0 * 16_384**3 / rate)


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "why"),
    [
        ("sm_80", 128, 163 * 1024, 4, ""),
        ("sm_80", 128, 163 * 1024 + 1, 4, "needs 166,913 bytes of shared memory a block; sm_80 has 166,912 for one"),
        ("gfx942", 128, 64 * 1024 + 1, 4, "needs 65,537 bytes of shared memory a block; gfx942 has 65,536 for one"),
        ("sm_90", 64, 0, 32, ""),
        ("sm_90", 65, 0, 32, "32 warps of 65 registers a thread fit on no processor of sm_90, which holds 64 warps and "
                             "2,048 registers for each lane"),
        ("sm_90", 16, 0, 64, "64 warps are 2,048 threads; sm_90 takes 1,024 in a block"),
        ("gfx942", 16, 0, 16, ""),
        ("gfx942", 16, 0, 32, "32 warps are 2,048 threads; gfx942 takes 1,024 in a block"),
    ],
)  # fmt: skip
def test_what_a_target_cannot_run_is_said_with_its_figures(
    target: str, registers: int, shared: int, warps: int, why: str
) -> None:
    kernel = made(registers=registers, shared_bytes=shared)
    assert unfit(find(target), kernel, occupancy(find(target), registers, shared, warps), warps) == why


AMD = """
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 24
    .vgpr_count:     200
    .vgpr_spill_count: 7
"""


def test_amds_figures_are_those_of_its_metadata() -> None:
    """LDS is the larger of what the code and what Triton's metadata ask for: either may leave a part to the other."""
    for lds, told in ((4096, 512), (512, 4096)):
        read = SimpleNamespace(asm={"amdgcn": AMD.format(lds=lds)}, metadata=SimpleNamespace(shared=told))
        assert compiler._of_amd(read) == (200, 24, 7, 4096)
    read.asm["amdgcn"] = "s_endpgm"
    with pytest.raises(RuntimeError, match=r"names no \.vgpr_count: 's_endpgm'"):
        compiler._of_amd(read)


def test_nvidias_figures_are_those_of_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    said = SimpleNamespace(stdout="Function kernel:\n  REG:40 STACK:8 SHARED:0 LOCAL:0")
    run = mock.Mock(return_value=said)
    monkeypatch.setattr(compiler.subprocess, "run", run)
    read = SimpleNamespace(asm={"cubin": b""}, metadata=SimpleNamespace(shared=1024))
    assert compiler._of_nvidia(read) == (40, 8, None, 1024)
    assert run.call_args.kwargs.items() >= {"check": True, "timeout": compiler.LONGEST_TOOL_S}.items()
    said.stdout = "nothing of it"
    with pytest.raises(RuntimeError, match="says nothing of registers: 'nothing of it'"):
        compiler._of_nvidia(read)
