"""Counts in the assembly of a compiled kernel: instructions, those of its longest loop, matrix instructions.

PTX is not yet machine code: its moves between registers cost nothing once registers are assigned, and are not
counted. A loop is what lies between a label and a later branch back to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_PTX = (
    re.compile(r"\s*(?:@!?%p\d+\s+)?(?!mov\.)([a-z][a-z0-9_.:]*)[\s;]"),
    re.compile(r"(\$L__BB\d+_\d+):"),
    re.compile(r"\bbra(?:\.uni)?\s+(\$L__BB\d+_\d+)"),
)
_AMDGCN = (
    re.compile(r"\s+((?:s|v|ds|buffer|global|flat|scratch)_[a-z0-9_]+)\b"),
    re.compile(r"(\.LBB\d+_\d+):"),
    re.compile(r"\bs_c?branch\w*\s+(\.LBB\d+_\d+)"),
)
_MATRIX = re.compile(r"wgmma(?=\.mma_async)|mma\.sync|v_mfma(?=_)")


@dataclass(frozen=True)
class Counts:
    """What stands in the text, each instruction once; `loop` is 0 without a loop, `matrix` is by instruction."""

    instructions: int
    loop: int
    matrix: Mapping[str, int]

    @property
    def repeated(self) -> int:
        """The instructions that are run over and over: those of the longest loop, or all where there is none."""
        return self.loop or self.instructions


def count(text: str, backend: str) -> Counts:
    """The counts of PTX (`cuda`) or of AMD's assembly (`hip`)."""
    instruction, label, branch = _AMDGCN if backend == "hip" else _PTX
    at: dict[str, int] = {}
    number = loop = 0
    matrix: Counter[str] = Counter()
    for line in text.splitlines():
        if (found := label.match(line)) is not None:
            at[found.group(1)] = number
        elif (found := instruction.match(line)) is not None:
            number += 1
            if (back := branch.search(line)) is not None and back.group(1) in at:
                loop = max(loop, number - at[back.group(1)])
            if (kind := _MATRIX.match(found.group(1))) is not None:
                matrix[kind.group()] += 1
    return Counts(number, loop, matrix)
