"""Occupancy and lower bounds from published limits, against cases worked out by hand from the same tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bancada.compiled.occupancy import occupancy
from bancada.compiled.roofline import bound_s
from bancada.compiled.targets import TARGETS, find
from bancada.suite import Work

KIB = 1024
# NVIDIA: 16,384 registers a partition and 512 for a lane, given out by 8 a thread; 1 KiB of shared memory a block for
# the system. CDNA3: 512 vector registers a lane, by 8; 8 waves a SIMD; 64 KiB of LDS.
BY_HAND = [
    # target, registers, shared, warps: blocks, resident warps, limit
    ("sm_80", 32, 0, 8, 8, 64, "warps"),  # 16 warps a partition: full
    ("sm_80", 33, 0, 8, 6, 48, "registers"),  # 40 each: 12 warps a partition, 48 in all
    ("sm_80", 64, 0, 4, 8, 32, "registers"),
    ("sm_80", 128, 0, 8, 2, 16, "registers"),
    ("sm_80", 168, 0, 4, 3, 12, "registers"),  # 3 warps a partition, no unit of 8 is lost
    ("sm_80", 169, 0, 4, 2, 8, "registers"),  # 176 each: 2 warps a partition
    ("sm_80", 255, 0, 8, 1, 8, "registers"),
    ("sm_80", 255, 0, 16, 0, 0, "registers"),  # 8 warps of 255 are all there can be
    ("sm_80", 255, 0, 2, 4, 8, "registers"),
    ("sm_80", 40, 0, 8, 6, 48, "registers"),  # 12 warps a partition
    ("sm_80", 48, 0, 16, 2, 32, "registers"),  # 10 warps a partition: 40, of which whole blocks of 16
    ("sm_80", 104, 0, 4, 4, 16, "registers"),  # 4 warps a partition; 65,536 registers in one would hold 19
    ("sm_80", 104, 0, 1, 16, 16, "registers"),
    ("sm_80", 64, 0, 32, 1, 32, "registers"),  # 1,024 threads of 64
    ("sm_80", 65, 0, 32, 0, 0, "registers"),
    ("sm_80", 0, 0, 4, 16, 64, "warps"),
    ("sm_80", 8, 0, 1, 32, 32, "blocks"),
    ("sm_80", 8, 0, 64, 0, 0, "warps"),  # 2,048 threads: no block has more than 1,024
    ("sm_80", 32, 54_912, 4, 3, 12, "shared memory"),  # 55,936 with the system's, 437 units of 128: 3 in 167,936
    ("sm_80", 32, 54_913, 4, 2, 8, "shared memory"),  # 438 units: 3 would take 168,192
    ("sm_90", 32, 45_568, 4, 5, 20, "shared memory"),  # 364 units: 5 in 233,472
    ("sm_90", 32, 45_569, 4, 4, 16, "shared memory"),
    ("sm_90", 32, 75 * KIB, 4, 3, 12, "shared memory"),  # 3 x 76 KiB of 228
    ("sm_90", 32, 113 * KIB, 4, 2, 8, "shared memory"),
    ("sm_90", 32, 113 * KIB + 1, 4, 1, 4, "shared memory"),
    ("sm_90", 32, 227 * KIB + 1, 4, 0, 0, "shared memory"),
    ("sm_80", 32, 48 * KIB, 4, 3, 12, "shared memory"),  # 3 x 49 KiB of 164
    ("sm_90", 32, 48 * KIB, 4, 4, 16, "shared memory"),  # 4 x 49 KiB of 228
    ("sm_80", 32, 163 * KIB, 4, 1, 4, "shared memory"),
    ("sm_80", 32, 163 * KIB + 1, 4, 0, 0, "shared memory"),
    ("sm_90", 32, 227 * KIB, 8, 1, 8, "shared memory"),
    ("sm_90", 16, 0, 1, 32, 32, "blocks"),
    ("sm_90", 168, 114 * KIB, 8, 1, 8, "registers"),  # 12 warps of 168: one block of 8
    ("gfx942", 64, 0, 4, 8, 32, "warps"),
    ("gfx942", 72, 0, 4, 7, 28, "registers"),
    ("gfx942", 128, 0, 4, 4, 16, "registers"),
    ("gfx942", 129, 0, 4, 3, 12, "registers"),
    ("gfx942", 168, 0, 4, 3, 12, "registers"),
    ("gfx942", 256, 0, 8, 1, 8, "registers"),
    ("gfx942", 512, 0, 4, 1, 4, "registers"),
    ("gfx942", 80, 0, 4, 6, 24, "registers"),  # LLVM's table: up to 80 registers 6 waves a SIMD, 96 5, 168 3, 256 2
    ("gfx942", 81, 0, 4, 5, 20, "registers"),
    ("gfx942", 257, 0, 4, 1, 4, "registers"),
    ("gfx942", 128, 0, 16, 1, 16, "registers"),
    ("gfx942", 136, 0, 16, 0, 0, "registers"),  # 3 waves a SIMD, 12 in all
    ("gfx942", 32, 0, 1, 32, 32, "warps"),
    ("gfx942", 32, 0, 32, 0, 0, "warps"),  # 2,048 work-items
    ("gfx942", 64, 21_504, 4, 3, 12, "shared memory"),  # 42 units of 512: 3 in 65,536
    ("gfx942", 64, 21_505, 4, 2, 8, "shared memory"),
    ("gfx942", 64, 64 * KIB, 4, 1, 4, "shared memory"),
    ("gfx942", 64, 64 * KIB + 1, 4, 0, 0, "shared memory"),
    ("gfx942", 64, 32 * KIB, 4, 2, 8, "shared memory"),
    ("gfx942", 64, 33 * KIB, 4, 1, 4, "shared memory"),
]


@pytest.mark.parametrize(("target", "registers", "shared", "warps", "blocks", "resident", "limit"), BY_HAND, ids=str)
def test_occupancy_is_what_the_tables_give(
    target: str, registers: int, shared: int, warps: int, blocks: int, resident: int, limit: str
) -> None:
    found = occupancy(find(target), registers, shared, warps)
    assert (found.blocks, found.warps, found.limit) == (blocks, resident, limit)
    assert found.share == resident / find(target).most_warps


@given(
    target=st.sampled_from(list(TARGETS)),
    registers=st.integers(0, 254),
    shared=st.integers(0, 227 * KIB),
    warps=st.integers(1, 16),
    more=st.integers(0, 64),
)
def test_asking_for_more_never_brings_more(target: str, registers: int, shared: int, warps: int, more: int) -> None:
    """And what is resident fits into each of the limits."""
    chip = find(target)
    held = occupancy(chip, registers, shared, warps)
    assert occupancy(chip, registers + more, shared, warps).blocks <= held.blocks
    assert occupancy(chip, registers, shared + more * KIB, warps).blocks <= held.blocks
    assert occupancy(chip, registers, shared, warps + 1).blocks <= held.blocks
    assert held.warps <= chip.most_warps and held.blocks <= chip.most_blocks
    assert held.blocks * shared <= chip.shared_bytes
    assert held.warps * registers <= chip.lane_registers * chip.partitions


@pytest.mark.parametrize(
    ("arguments", "word"),
    [((-1, 0, 4), "registers=-1"), ((32, -5, 4), "shared_bytes=-5"), ((32, 0, 0), "warps=0")],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[int, int, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        occupancy(find("sm_80"), *arguments)
    with pytest.raises(ValueError, match="target='sm_42': allowed are sm_80, sm_90, gfx942"):
        find("sm_42")


RATES = [  # the data sheets' TFLOP/s and TB/s, dense
    ("sm_80", "fp16", 312, 19.5, 2.039),
    ("sm_80", "bf16", 312, 19.5, 2.039),
    ("sm_80", "fp32", 19.5, 19.5, 2.039),
    ("sm_90", "fp16", 989.5, 67, 4.8),
    ("sm_90", "bf16", 989.5, 67, 4.8),
    ("sm_90", "fp32", 67, 67, 4.8),
    ("gfx942", "fp16", 1307.4, 163.4, 5.3),
    ("gfx942", "bf16", 1307.4, 163.4, 5.3),
    ("gfx942", "fp32", 163.4, 163.4, 5.3),
]


@pytest.mark.parametrize(("target", "dtype", "matrix", "vector", "memory"), RATES)
def test_rates_are_the_data_sheets(target: str, dtype: str, matrix: float, vector: float, memory: float) -> None:
    chip = find(target)
    assert bound_s(chip, Work(matrix * 1e12, 1.0), dtype, matrix=True) == pytest.approx(1.0)
    assert bound_s(chip, Work(vector * 1e12, 1.0), dtype, matrix=False) == pytest.approx(1.0)
    assert bound_s(chip, Work(1.0, memory * 1e12), dtype, matrix=True) == pytest.approx(1.0)


def test_a_lower_bound_is_the_longer_of_computing_and_moving() -> None:
    a100 = find("sm_80")
    assert bound_s(a100, Work(312e12, 2.039e12), "bf16", matrix=True) == pytest.approx(1.0)
    assert bound_s(a100, Work(312e12, 1.0), "bf16", matrix=True) == pytest.approx(1.0)
    assert bound_s(a100, Work(1.0, 2.039e12), "bf16", matrix=True) == pytest.approx(1.0)
    # No matrix instruction, or a dtype that the units do not take (TF32 is another precision): vector arithmetic.
    assert bound_s(a100, Work(19.5e12, 1.0), "bf16", matrix=False) == pytest.approx(1.0)
    assert bound_s(a100, Work(19.5e12, 1.0), "fp32", matrix=True) == pytest.approx(1.0)
    assert bound_s(find("gfx942"), Work(163.4e12, 1.0), "fp32", matrix=True) == pytest.approx(1.0)
