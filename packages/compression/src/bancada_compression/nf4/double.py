"""Double quantisation: the blocks' scales, less their mean, in eight bits with a scale for each 256 of them.

Dettmers et al., QLoRA, arXiv 2305.14314, section 3; the eight bits are the dynamic code of Dettmers et al., 8-bit
Optimizers via Block-wise Quantization, arXiv 2110.02861, section 2.2.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
import torch.nn.functional as F

from bancada_compression._typing import Float, Tensor
from bancada_compression.nf4.weight import NF4Weight, quantize_nf4

SCALES_A_BLOCK = 256


@dataclass(frozen=True, eq=False)
class NF4DoubleWeight(NF4Weight):
    """NF4 whose `absmax` holds codes: absmax = dynamic[absmax] * scale + offset.

    absmax is uint8 [blocks], scale float32 [ceil(blocks / 256)], offset float32 [].
    """

    format: ClassVar[str] = "nf4-double"
    scale: Tensor
    offset: Tensor

    def absmax_of(self, first: int, last: int) -> Tensor:
        """The largest absolute values of blocks first to last - 1, float32, as far as eight bits hold them."""
        codes = self.absmax[first:last].to(torch.int64)
        which = torch.arange(first, last, device=codes.device) // SCALES_A_BLOCK
        return dynamic_levels().to(codes.device)[codes] * self.scale[which] + self.offset


def quantize_nf4_double(weight: Float[Tensor, "out in"], block_size: int = 64) -> NF4DoubleWeight:
    """`quantize_nf4` with its absmax in eight bits: 0.127 bits a weight for scales in place of 0.5.

    a = absmax - mean(absmax); each 256 of them are divided by their largest and rounded to the nearest of the dynamic
    code's levels. bitsandbytes does the same; its CPU kernel takes the second nearest for about one in 500, within
    2^-15 of the middle between two levels.

    Args:
        weight: finite, any strides.
        block_size: numbers that share a scale: even, at least 2.

    Returns:
        The quantised weight; zeros stay zeros.

    Raises:
        ValueError: as `quantize_nf4`.

    Paper: Dettmers et al., arXiv 2305.14314.
    """
    plain = quantize_nf4(weight, block_size)
    offset = plain.absmax.mean()
    blocks = plain.absmax.numel()
    centred = F.pad(plain.absmax - offset, (0, -blocks % SCALES_A_BLOCK)).view(-1, SCALES_A_BLOCK)
    scale = centred.abs().amax(dim=1)
    levels = dynamic_levels().to(scale.device)
    scaled = centred / torch.where(scale > 0, scale, 1.0)[:, None]
    codes = torch.bucketize(scaled, (levels[1:] + levels[:-1]) / 2).flatten()[:blocks].to(torch.uint8)
    return NF4DoubleWeight(plain.shape, plain.codes, codes, plain.block_size, scale, offset)


@cache
def dynamic_levels() -> Tensor:
    """The 256 levels of the signed dynamic code, ascending, float32: see `dynamic_levels_reference`."""
    levels = [torch.tensor([0.0, 1.0])]
    for i in range(7):
        edges = torch.linspace(0.1, 1, (1 << i) + 1, dtype=torch.float32)
        middles = (edges[1:] + edges[:-1]) / 2 * 10.0 ** (i - 6)
        levels += [middles, -middles]
    return torch.cat(levels).sort().values
