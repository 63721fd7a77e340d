"""Blockwise dynamic quantisation by its definition, and the update that goes through it."""

from __future__ import annotations

import torch
from torch import Tensor

from bancada_optimizers.adamw.reference import adamw_step

BLOCK = 256
_EXPONENTS = 7


def dynamic_map(signed: bool) -> Tensor:
    """The 256 values that an 8-bit code stands for, sorted, float64, between -1 (or 0) and 1.

    A code is a sign (where signed), an exponent of ten written in unary, and a linear fraction in the bits left: the
    larger the number, the finer. For each decade 10^(e-6), e = 0..6, the values are the middles of 2^e (2^(e+1) where
    unsigned) equal parts of [0.1, 1]; then 0 and 1.

    Paper: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv 2110.02861, section 1.3 and appendix F.
    """
    values = [torch.tensor([0.0, 1.0], dtype=torch.float64)]
    for e in range(_EXPONENTS):
        edges = torch.linspace(0.1, 1, 2 ** (e if signed else e + 1) + 1, dtype=torch.float64)
        middles = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (e - _EXPONENTS + 1)
        values += [middles, -middles] if signed else [middles]
    return torch.cat(values).sort().values


def quantize(x: Tensor, signed: bool) -> tuple[Tensor, Tensor]:
    """Each number's nearest code (uint8, flat) and each block's largest magnitude, by looking at all 256 codes.

    x = scale[i // 256] * map[code[i]]; between two codes as near, the smaller value.

    Args:
        x: any shape; read as flat, in blocks of 256, the last one as long as it is.
        signed: which map.
    """
    blocks = torch.split(x.reshape(-1), BLOCK)
    scales = torch.stack([block.abs().amax() for block in blocks]) if x.numel() else x.new_zeros(0)
    values = dynamic_map(signed).to(x.device, x.dtype)
    codes = [
        (block / (scale if scale > 0 else 1.0) - values[:, None]).abs().argmin(0).to(torch.uint8)
        for block, scale in zip(blocks, scales, strict=False)
    ]
    return torch.cat(codes) if codes else x.new_zeros(0, dtype=torch.uint8), scales


def dequantize(codes: Tensor, scales: Tensor, signed: bool) -> Tensor:
    """The numbers that codes stand for, flat, in the dtype of the scales."""
    values = dynamic_map(signed).to(codes.device, scales.dtype)
    return values[codes.long()] * scales.repeat_interleave(BLOCK)[: codes.numel()]


def adamw8bit_step(
    p: Tensor, g: Tensor, state: tuple[Tensor, Tensor, Tensor, Tensor], t: int, *, lr: float,
    betas: tuple[float, float], eps: float, weight_decay: float,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:  # fmt: skip
    """AdamW whose moments are kept as codes: dequantised, updated, used for the step, and quantised again.

    A second moment above 0 gets at least code 1: as 0 it would make the next step lr m / eps.

    Args:
        p, g, t, lr, betas, eps, weight_decay: as in `adamw_step`.
        state: codes and scales of the first moment (signed map), codes and scales of the second (unsigned).
    """
    m = dequantize(state[0], state[1], signed=True).view(p.shape)
    v = dequantize(state[2], state[3], signed=False).view(p.shape)
    p, m, v = adamw_step(p, g, m, v, t, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
    v_codes, v_scales = quantize(v, signed=False)
    return p, (*quantize(m, signed=True), torch.maximum(v_codes, (v.reshape(-1) > 0).to(torch.uint8)), v_scales)
