"""The cards of the attention techniques in the report's catalogue."""

from __future__ import annotations

from bancada.suite import Technique

_HERE = "packages/attention/src/bancada_attention"

TECHNIQUES = (
    Technique(
        id="exact-attention",
        title="Exact attention",
        title_pt="Atenção exata",
        family="attention",
        summary=(
            "Every query is compared with every key it may see, and the values are averaged with the softmax of the "
            "scores. The whole matrix of scores is written to memory and read again, so memory grows with the square "
            "of the sequence length."
        ),
        formula="O = softmax(scale * Q K^T + mask) V, scale = 1 / sqrt(head_dim)",
        paper="Vaswani et al., Attention Is All You Need, arXiv 1706.03762",
        files=(f"{_HERE}/exact/reference.py",),
        snippet="""\
import torch
from bancada_attention import attention

q = torch.randn(1, 8, 256, 64, requires_grad=True)  # [batch, heads, seq_len, head_dim]
k, v = torch.randn(2, 1, 2, 256, 64)  # grouped: 2 key-value heads serve 8 query heads
out, lse = attention(q, k, v, causal=True, return_lse=True)
out.sum().backward()
print(out.shape, q.grad.shape)
""",
    ),
    Technique(
        id="flash-attention",
        title="FlashAttention-2",
        title_pt="Atenção exata em blocos (FlashAttention-2)",
        family="attention",
        summary=(
            "The same result, computed tile by tile with a running maximum and a running sum, so that the matrix of "
            "scores is never held whole. The backward pass computes the scores again from one number a row, the "
            "log-sum-exp: memory grows with the sequence length, not with its square."
        ),
        formula=(
            "m' = max(m, rowmax S_j); l' = e^(m-m') l + rowsum e^(S_j-m'); O' = e^(m-m') O + e^(S_j-m') V_j; "
            "at the end O / l"
        ),
        paper="Dao, FlashAttention-2, arXiv 2307.08691",
        files=(
            f"{_HERE}/flash/reference.py",
            f"{_HERE}/flash/tiled.py",
            f"{_HERE}/flash/triton_kernel.py",
        ),
        snippet="""\
import torch
from bancada_attention import flash_attention

q = torch.randn(1, 8, 1024, 64, requires_grad=True)  # [batch, heads, seq_len, head_dim]
k, v = torch.randn(2, 1, 2, 1024, 64)  # grouped: 2 key-value heads serve 8 query heads
out = flash_attention(q, k, v, causal=True)  # Triton on a GPU, torch tiles elsewhere
out.sum().backward()
print(out.shape, q.grad.shape)
""",
    ),
    Technique(
        id="flex-attention",
        title="FlexAttention",
        title_pt="Atenção programável (FlexAttention)",
        family="attention",
        summary=(
            "A mask or a change of the scores is written as a small Python function, and torch.compile makes a fused "
            "kernel of it that skips the blocks hidden as a whole. The first call compiles, which takes seconds."
        ),
        formula="O = softmax(score_mod(scale * Q K^T) + block_mask) V",
        paper="Dong et al., Flex Attention, arXiv 2412.05496",
        snippet="""\
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

q, k, v = torch.randn(3, 1, 4, 256, 64)  # [batch, heads, seq_len, head_dim]
causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device=q.device.type)
with torch.no_grad():
    out = torch.compile(flex_attention)(q, k, v, block_mask=causal)
print(out.shape)
""",
    ),
)
