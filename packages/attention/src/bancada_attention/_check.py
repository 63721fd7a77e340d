"""What the attention functions accept; every refusal names the argument, what it was and what is allowed."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WORDS = ", ".join(str(dtype) for dtype in DTYPES)


def check_qkv(q: Tensor, k: Tensor, v: Tensor, *, max_head_dim: int | None = None) -> None:
    """ValueError unless q is [batch, heads, q_len, head_dim] and k, v are [batch, kv_heads, k_len, head_dim]."""
    for name, value in (("q", q), ("k", k), ("v", v)):
        if not isinstance(value, Tensor):
            raise ValueError(f"{name}={value!r}: must be a tensor [batch, heads, seq, head_dim]")
        if value.is_nested:
            raise ValueError(f"{name}: a nested tensor; must be an ordinary one [batch, heads, seq, head_dim]")
        if value.layout != torch.strided:
            raise ValueError(f"{name}: layout {value.layout}; must be torch.strided")
        if value.dim() != 4:
            raise ValueError(f"{name}: shape {list(value.shape)}; must have 4 dimensions [batch, heads, seq, head_dim]")
        if value.dtype not in DTYPES:
            raise ValueError(f"{name}: dtype {value.dtype}; allowed are {_WORDS}")
        if value.dtype != q.dtype:
            raise ValueError(f"{name}: dtype {value.dtype}; must be that of q, {q.dtype}")
        if value.device != q.device:
            raise ValueError(f"{name}: device {value.device}; must be that of q, {q.device}")
    batch, heads, _, head_dim = q.shape
    if k.shape != v.shape:
        raise ValueError(f"v: shape {list(v.shape)}; must be that of k, {list(k.shape)}")
    if k.shape[0] != batch:
        raise ValueError(f"k: batch {k.shape[0]} in shape {list(k.shape)}; must be that of q, {batch}")
    if k.shape[3] != head_dim:
        raise ValueError(f"k: head_dim {k.shape[3]} in shape {list(k.shape)}; must be that of q, {head_dim}")
    kv_heads = k.shape[1]
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"k: {kv_heads} heads; must be at least 1 and divide those of q, {heads}")
    if head_dim < 1 or (max_head_dim is not None and head_dim > max_head_dim):
        allowed = "at least 1" if max_head_dim is None else f"1 to {max_head_dim}"
        raise ValueError(f"q: head_dim {head_dim}; must be {allowed}")


def check_causal(causal: bool) -> bool:
    """`causal` itself; ValueError unless it is a bool."""
    if not isinstance(causal, bool):
        raise ValueError(f"causal={causal!r}: must be True or False")
    return causal


def check_scale(scale: float | None, head_dim: int) -> float:
    """`scale`, or 1/sqrt(head_dim) where it is None; ValueError unless it is a finite number."""
    if scale is None:
        return 1.0 / math.sqrt(head_dim)
    number: object = scale
    try:
        # numbers.Real: an int, a float, or a number of numpy's
        found = float(number) if not isinstance(number, bool) and isinstance(number, numbers.Real) else math.nan
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"scale={scale!r}: must be a finite number, or None for 1/sqrt(head_dim)")
    return found


def check_key_padding_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> None:
    """ValueError unless the mask is None or bool [batch, k_len] on the device of q."""
    if mask is None:
        return
    want = [q.shape[0], k.shape[2]]
    if not isinstance(mask, Tensor):
        raise ValueError(f"key_padding_mask={mask!r}: must be None or a bool tensor {want}")
    if mask.dtype != torch.bool:
        raise ValueError(f"key_padding_mask: dtype {mask.dtype}; must be torch.bool, True where a key is attended")
    if list(mask.shape) != want:
        raise ValueError(f"key_padding_mask: shape {list(mask.shape)}; must be [batch, k_len] = {want}")
    if mask.device != q.device:
        raise ValueError(f"key_padding_mask: device {mask.device}; must be that of q, {q.device}")


def check_attn_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> None:
    """ValueError unless the mask is None, bool or floating, and broadcasts to [batch, heads, q_len, k_len]."""
    if mask is None:
        return
    want = [q.shape[0], q.shape[1], q.shape[2], k.shape[2]]
    if not isinstance(mask, Tensor):
        raise ValueError(f"attn_mask={mask!r}: must be None or a tensor that broadcasts to {want}")
    if mask.dtype != torch.bool and mask.dtype not in DTYPES:
        raise ValueError(f"attn_mask: dtype {mask.dtype}; allowed are torch.bool (True attends), {_WORDS}")
    if not _broadcasts(mask.shape, want):
        raise ValueError(
            f"attn_mask: shape {list(mask.shape)}; must broadcast to [batch, heads, q_len, k_len] = {want}"
        )
    if mask.device != q.device:
        raise ValueError(f"attn_mask: device {mask.device}; must be that of q, {q.device}")


def _broadcasts(shape: Sequence[int], want: Sequence[int]) -> bool:
    if len(shape) > len(want):
        return False
    tail = want[len(want) - len(shape) :]
    return all(have in (1, size) for have, size in zip(shape, tail, strict=True))
