"""FlashAttention-2 on a GPU: what calls the Triton kernels (Dao, arXiv 2307.08691).

The kernels are in `triton_forward.py` and `triton_backward.py`, their tile sizes in `triton_config.py`.
Importing this module needs no GPU and starts none. Where Triton is missing it still imports, and
`unsupported` says so.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import torch

from bancada_attention.flash.triton_config import Tile, kernel_config, padded_head_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

try:
    import triton

    from bancada_attention.flash import triton_backward as _backward
    from bancada_attention.flash import triton_forward as _forward
except ImportError as error:  # pragma: no cover - depends on the system
    MISSING: str | None = f"Triton cannot be imported here ({error}); it exists for Linux and Windows with a GPU"
    INTERPRETED = False
else:
    MISSING = None
    # Triton decides when it decorates, so what counts is the environment at import, not now.
    INTERPRETED = not isinstance(_forward.forward_kernel, triton.JITFunction)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_HEAD_DIM = 256
_ROWS_PADDED_TO = 128  # the scratch rows of the backward pass: a multiple of every block_m


def unsupported(q: Tensor) -> str | None:
    """Why the Triton kernels cannot take inputs like `q`, or None where they can."""
    if MISSING is not None:
        return MISSING
    if q.dtype not in DTYPES:
        return f"dtype {q.dtype}: the Triton kernels take float16, bfloat16 and float32"
    if q.shape[-1] > MOST_HEAD_DIM:
        return f"head_dim {q.shape[-1]}: the Triton kernels take 1 to {MOST_HEAD_DIM}"
    if INTERPRETED:
        if q.dtype == torch.bfloat16:
            return "dtype torch.bfloat16: Triton's interpreter multiplies its bit patterns; take float16 or float32"
        return None
    if q.device.type != "cuda":
        return f"device {q.device}: the Triton kernels need a GPU, or TRITON_INTERPRET=1 set before they are imported"
    return None


def triton_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    scale: float,
    key_padding_mask: Tensor | None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention and its log-sum-exp: out = softmax(scale q k^T) v, lse = log sum exp(scale q k^T).

    Args:
        q: [batch, heads, Sq, head_dim], any strides; float16, bfloat16 or float32.
        k, v: [batch, kv_heads, Sk, head_dim]; kv_heads divides heads. Grouped heads are not expanded.
        causal: query i sees the keys j <= i + Sk - Sq (aligned at the bottom right).
        scale: what the scores are multiplied by; any finite number.
        key_padding_mask: bool [batch, Sk], True where a key may be seen.
        tile: how the kernel cuts its work; None for the one that `triton_config` chooses.

    Returns:
        out like q, and lse, the natural logarithm, float32 [batch, heads, Sq]. A row that sees no key
        has out 0 and lse -inf.

    Inputs are taken as checked: `flash_attention` does that. Paper: arXiv 2307.08691, algorithm 1.
    """
    out = torch.empty_like(q)
    batch, heads, sq, head_dim = q.shape
    kv_heads, sk = k.shape[1], k.shape[2]
    lse = torch.empty((batch, heads, sq), dtype=torch.float32, device=q.device)
    if out.numel() == 0:
        return out, lse
    if k.numel() == 0:
        return out.zero_(), lse.fill_(-math.inf)
    q, scale, _ = _positive_scale(q, scale)
    tile = tile or _config(q).forward
    padding, padding_strides = _padding(key_padding_mask, k)
    grid = (batch * heads * _tiles(sq, tile.block_m),)
    with _on(q):
        _forward.forward_kernel[grid](
            q, k, v, out, lse, padding, scale, heads, heads // kv_heads, sq, sk,
            *q.stride(), *k.stride(), *v.stride(), *out.stride(), *padding_strides,
            BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_D=padded_head_dim(head_dim), HEAD_DIM=head_dim,
            CAUSAL=causal, HAS_PADDING=key_padding_mask is not None, **_offsets(q, k, v, out),
            num_warps=tile.num_warps, num_stages=tile.num_stages,
        )  # fmt: skip
    return out, lse


def triton_backward(
    dout: Tensor,
    dlse: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    *,
    causal: bool,
    scale: float,
    key_padding_mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `triton_forward`: dV = P^T dO, dS = P (dO V^T - D), dQ = scale dS K, dK = scale dS^T Q.

    D = rowsum(dO * O) - dlse. Memory beside the gradients: 8 bytes a query row. The same inputs give the same
    bits: nothing is added atomically.

    Args:
        dout: the gradient of out, [batch, heads, Sq, head_dim], any strides.
        dlse: the gradient of lse, float32 [batch, heads, Sq], or None for zero.
        q, k, v, causal, scale, key_padding_mask: as given to `triton_forward`.
        out, lse: as it returned them.

    Returns:
        dq, dk, dv like q, k, v; dk and dv are summed over the heads of a group.

    Paper: arXiv 2307.08691, algorithm 2.
    """
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    q, scale, factor = _positive_scale(q, scale)
    # Gradients that come from a sum are expanded (all strides 0): read so, nothing could be loaded in wide pieces.
    dout = dout if dout.stride(-1) == 1 else dout.contiguous()
    delta, lse2 = _prepare(dout, dlse, out, lse)
    _launch_keys(q, k, v, dout, dk, dv, delta, lse2, causal=causal, scale=scale, key_padding_mask=key_padding_mask)
    _launch_queries(q, k, v, dout, dq, delta, lse2, causal=causal, scale=scale, key_padding_mask=key_padding_mask)
    return dq if factor == 1 else dq.mul_(factor), dk, dv


def _prepare(dout: Tensor, dlse: Tensor | None, out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """D and the base-2 lse, [batch, heads, Sq padded]."""
    batch, heads, sq, head_dim = out.shape
    padded = _tiles(sq, _ROWS_PADDED_TO) * _ROWS_PADDED_TO
    delta = torch.empty((batch, heads, padded), dtype=torch.float32, device=out.device)
    lse2 = torch.empty_like(delta)
    tile = _config(out).prepare
    grads = lse if dlse is None else dlse
    with _on(out):
        _backward.prepare_kernel[(batch * heads * _tiles(padded, tile.block_m),)](
            out, dout, lse.contiguous(), grads, delta, lse2, heads, sq, padded,
            *out.stride(), *dout.stride(), *grads.stride(),
            BLOCK_M=tile.block_m, BLOCK_D=padded_head_dim(head_dim), HEAD_DIM=head_dim, HAS_DLSE=dlse is not None,
            **_offsets(out, dout), num_warps=tile.num_warps, num_stages=tile.num_stages,
        )  # fmt: skip
    return delta, lse2


def _launch_keys(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, dk: Tensor, dv: Tensor, delta: Tensor, lse2: Tensor,
    *, causal: bool, scale: float, key_padding_mask: Tensor | None,
) -> None:  # fmt: skip
    batch, heads, sq, head_dim = q.shape
    kv_heads, sk = k.shape[1], k.shape[2]
    tile = _config(q).backward_keys
    padding, padding_strides = _padding(key_padding_mask, k)
    with _on(q):
        _backward.backward_keys_kernel[(batch * kv_heads * _tiles(sk, tile.block_n),)](
            q, k, v, dout, dk, dv, delta, lse2, padding, scale, heads, heads // kv_heads, sq, sk, delta.shape[-1],
            *q.stride(), *k.stride(), *v.stride(), *dout.stride(), *dk.stride(), *dv.stride(), *padding_strides,
            BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_D=padded_head_dim(head_dim), HEAD_DIM=head_dim,
            CAUSAL=causal, HAS_PADDING=key_padding_mask is not None, GROUPED=kv_heads != heads,
            EVEN_ROWS=sq % tile.block_m == 0, **_offsets(q, k, v, dout, dk, dv),
            num_warps=tile.num_warps, num_stages=tile.num_stages,
        )  # fmt: skip


def _launch_queries(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, dq: Tensor, delta: Tensor, lse2: Tensor,
    *, causal: bool, scale: float, key_padding_mask: Tensor | None,
) -> None:  # fmt: skip
    batch, heads, sq, head_dim = q.shape
    kv_heads, sk = k.shape[1], k.shape[2]
    tile = _config(q).backward_queries
    padding, padding_strides = _padding(key_padding_mask, k)
    with _on(q):
        _backward.backward_queries_kernel[(batch * heads * _tiles(sq, tile.block_m),)](
            q, k, v, dout, dq, delta, lse2, padding, scale, heads, heads // kv_heads, sq, sk, delta.shape[-1],
            *q.stride(), *k.stride(), *v.stride(), *dout.stride(), *dq.stride(), *padding_strides,
            BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_D=padded_head_dim(head_dim), HEAD_DIM=head_dim,
            CAUSAL=causal, HAS_PADDING=key_padding_mask is not None, **_offsets(q, k, v, dout, dq),
            num_warps=tile.num_warps, num_stages=tile.num_stages,
        )  # fmt: skip


def _tiles(rows: int, block: int) -> int:
    return -(-rows // block)


def _positive_scale(q: Tensor, scale: float) -> tuple[Tensor, float, float]:
    """q, scale and a factor for dq, such that scale > 0: the kernels take the largest product for the largest score."""
    if scale > 0:
        return q, scale, 1.0
    factor = -1.0 if scale < 0 else 0.0
    return q * factor, -scale or 1.0, factor


def _padding(key_padding_mask: Tensor | None, k: Tensor) -> tuple[Tensor, Sequence[int]]:
    """The mask in 16 bits and its strides; where there is none, any tensor (it is not read).

    Not in bytes: Triton 3.7 takes a product of tiles that were loaded under a mask of bytes for one of 8-bit numbers,
    arranges it so, and on sm_80 then loads K in the open instead of ahead.
    """
    if key_padding_mask is None:
        return k, (0, 0)
    padding = key_padding_mask.to(torch.int16)
    return padding, padding.stride()


def _offsets(*tensors: Tensor) -> dict[str, object]:
    """What the kernels know of the strides.

    UNIT: 8 where every row begins at a multiple of 8 elements, so that 16 bytes load at once, else 1.
    WIDE: whether an offset inside one tile (at most 128 rows of 256 elements) needs more than 32 bits.
    """
    unit = 8 if all(stride % 8 == 0 for tensor in tensors for stride in tensor.stride()[:-1]) else 1
    wide = any(128 * tensor.stride(-2) + MOST_HEAD_DIM * tensor.stride(-1) >= 2**31 for tensor in tensors)
    return {"UNIT": unit, "WIDE": wide}


def _config(q: Tensor) -> Any:
    return kernel_config(_target(q), q.shape[-1], q.dtype)


def _target(q: Tensor) -> str:
    if q.device.type != "cuda" or INTERPRETED:
        return "interpreter"
    major, minor = torch.cuda.get_device_capability(q.device)
    return f"sm_{major}{minor}"


def _on(q: Tensor) -> Any:
    """Triton launches on the current device, which need not be the tensors'."""
    return torch.cuda.device(q.device) if q.device.type == "cuda" else contextlib.nullcontext()


def kernel(name: str) -> Any:
    """The kernel of a name in `triton_config.KERNELS`, for those who compile it without launching it."""
    return getattr(_forward if name == "forward" else _backward, f"{name}_kernel")
