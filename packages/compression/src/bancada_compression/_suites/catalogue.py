"""The cards of the compression techniques in the report's catalogue."""

from __future__ import annotations

from bancada.suite import Technique

_HERE = "packages/compression/src/bancada_compression"


def _snippet(config: str) -> str:
    return f"""\
import torch
from bancada_compression import {config.split("(")[0]}, quantize

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
report = quantize(model, {config})
print(report)  # bytes and signal to noise of every layer
"""


TECHNIQUES = (
    Technique(
        id="dense-linear",
        title="Linear layer, not compressed",
        title_pt="Camada linear sem compressão",
        family="compression",
        summary=(
            "The layer as it is trained: every weight a floating number of 32 or 16 bits. What compression has to beat "
            "in time and cannot beat in error."
        ),
        formula="Y = X W^T",
        paper="Vaswani et al., Attention Is All You Need, arXiv 1706.03762, whose projections these are",
    ),
    Technique(
        id="int8",
        title="int8 weights, one scale an output channel",
        title_pt="Pesos int8, uma escala por canal de saída",
        family="compression",
        summary=(
            "Each row of the weight is divided by its largest number and rounded to 127 steps each side. A quarter of "
            "the bytes of float32, with about 42 dB of signal to noise on normal weights."
        ),
        formula="W = s q, s = max|w| / 127 of each row, q = round(w / s)",
        paper="Dettmers et al., LLM.int8(), arXiv 2208.07339",
        files=(f"{_HERE}/int8/reference.py", f"{_HERE}/int8/weight.py"),
        snippet=_snippet("Int8()"),
    ),
    Technique(
        id="w8a8",
        title="Dynamic W8A8: int8 weights and activations",
        title_pt="W8A8 dinâmico: pesos e ativações int8",
        family="compression",
        summary=(
            "The rows of the input are rounded to int8 too, at each call, and integers are multiplied with exact sums. "
            "It pays where the hardware multiplies int8 faster than floats, and the input has few outliers."
        ),
        formula="Y = s_x s_w (Q_x Q_w^T), s_x = max|x| / 127 of each row at each call",
        paper="Dettmers et al., LLM.int8(), arXiv 2208.07339",
        files=(f"{_HERE}/w8a8/reference.py", f"{_HERE}/w8a8/linear.py"),
        snippet=_snippet("W8A8()"),
    ),
    Technique(
        id="groupwise",
        title="Group-wise int4 and int3",
        title_pt="int4 e int3 por grupos",
        family="compression",
        summary=(
            "Each row is cut into groups of columns with a scale and a zero-point of their own, and rounded to 16 or 8 "
            "even steps. A zero stays a zero, so that pruning survives."
        ),
        formula="W = s (q - z), s = (max - min) / (2^bits - 1) of each group, z = round(-min / s)",
        paper="Frantar et al., GPTQ, arXiv 2210.17323 (its round-to-nearest baseline)",
        files=(
            f"{_HERE}/groupwise/reference.py",
            f"{_HERE}/groupwise/weight.py",
            f"{_HERE}/packing/reference.py",
            f"{_HERE}/packing/packed.py",
        ),
        snippet=_snippet("Groupwise(bits=4, group_size=64)"),
    ),
    Technique(
        id="nf4",
        title="NF4, with double quantisation",
        title_pt="NF4, com dupla quantização",
        family="compression",
        summary=(
            "Sixteen levels at the quantiles of a normal distribution, with a scale for each block of 64 weights. "
            "Double quantisation stores the scales in 8 bits as well, for 4.127 bits a weight in place of 4.5."
        ),
        formula="W = a level[q], a = max|w| of each block of 64; a = a_0 + b dynamic[p], b = max|a - a_0| of each 256",
        paper="Dettmers et al., QLoRA, arXiv 2305.14314",
        files=(f"{_HERE}/nf4/reference.py", f"{_HERE}/nf4/weight.py", f"{_HERE}/nf4/double.py"),
        snippet=_snippet("NF4(block_size=64, double=True)"),
    ),
)
