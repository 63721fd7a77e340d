"""Scaled dot-product attention as a formula: quadratic memory, any mask, differentiable to any order.

Vaswani et al., "Attention Is All You Need", arXiv 1706.03762, equation 1.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import math
from typing import Literal, overload

import torch

from bancada_attention._autocast import accumulator, autocast_inputs, without_autocast
from bancada_attention._check import check_attn_mask, check_causal, check_key_padding_mask, check_qkv, check_scale
from bancada_attention._typing import Bool, Float, Tensor


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    key_padding_mask: Tensor | None = ...,
    attn_mask: Tensor | None = ...,
    return_lse: Literal[False] = ...,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    key_padding_mask: Tensor | None = ...,
    attn_mask: Tensor | None = ...,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def attention(
    q: Float[Tensor, "batch heads q_len head_dim"],
    k: Float[Tensor, "batch kv_heads k_len head_dim"],
    v: Float[Tensor, "batch kv_heads k_len head_dim"],
    *,
    causal: bool = False,
    scale: float | None = None,
    key_padding_mask: Bool[Tensor, "batch k_len"] | None = None,
    attn_mask: Tensor | None = None,
    return_lse: bool = False,
) -> (
    Float[Tensor, "batch heads q_len head_dim"]
    | tuple[Float[Tensor, "batch heads q_len head_dim"], Float[Tensor, "batch heads q_len"]]
):
    """Exact attention: O = softmax(scale * Q K^T + mask) V, with all q_len * k_len scores in memory.

    Args:
        q: queries.
        k: keys; with fewer heads than q, query head h reads key head h // (heads / kv_heads).
        v: values.
        causal: query i sees keys j <= i + k_len - q_len. The last query sees the last key (bottom-right
            alignment, as decoding with a cache needs it); torch's `is_causal` aligns top-left, which is
            the same only where q_len == k_len.
        scale: factor of the scores; None stands for 1/sqrt(head_dim).
        key_padding_mask: True where a key is attended. Hidden keys do not matter, whatever they hold:
            NaN or infinity there changes neither output nor gradients.
        attn_mask: bool (True attends) or a number added to the scaled scores; broadcasts to
            [batch, heads, q_len, k_len]. A floating mask may require a gradient.
        return_lse: also return log(sum(exp(scores))) of each row, natural logarithm.

    Returns:
        The output, in the dtype of q; with `return_lse` also lse [batch, heads, q_len], float32
        (float64 for float64). A row that sees no key has output 0, lse -inf and gradients 0.
        Products are summed in float32 (float64 for float64). Under `torch.autocast`, q, k and v are
        first cast to its dtype, as torch's scaled_dot_product_attention does.

    Raises:
        ValueError: an argument has a wrong shape, dtype, device or value.

    Paper: Vaswani et al., arXiv 1706.03762; grouped heads: Ainslie et al., arXiv 2305.13245.
    """
    q, k, v = autocast_inputs(q, k, v)
    check_qkv(q, k, v)
    check_causal(causal)
    check_key_padding_mask(key_padding_mask, q, k)
    check_attn_mask(attn_mask, q, k)
    scale = check_scale(scale, q.shape[3])
    with without_autocast(q.device.type):
        out, lse = _attention(q, k, v, causal, scale, key_padding_mask, attn_mask)
    return (out, lse) if return_lse else out


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
) -> tuple[Tensor, Tensor]:
    dtype = q.dtype
    q, k, v = (x.to(accumulator(dtype)) for x in (q, k, v))
    if key_padding_mask is not None:
        # A probability of 0 does not hide a NaN (0 * NaN = NaN): hidden keys and values must go themselves.
        attended = key_padding_mask[:, None, :, None]
        k, v = k.masked_fill(~attended, 0.0), v.masked_fill(~attended, 0.0)
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) if groups > 1 else x for x in (k, v))

    # In place where autograd allows it (no backward needs these operands): two matrices of scores in memory, not four.
    scores = (q * scale) @ k.transpose(-1, -2)
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scores += attn_mask.to(scores.dtype)
    if (visible := _visible(scores, causal, key_padding_mask, attn_mask)) is not None:
        scores.masked_fill_(~visible, -math.inf)
    out, lse = _softmax_times(scores, v)
    return out.to(dtype), lse


def _visible(scores: Tensor, causal: bool, key_padding_mask: Tensor | None, attn_mask: Tensor | None) -> Tensor | None:
    """All boolean masks in one, broadcastable to the scores; None where everything is visible."""
    visible: Tensor | None = None
    if causal:
        q_len, k_len = scores.shape[-2:]
        visible = torch.ones(q_len, k_len, dtype=torch.bool, device=scores.device).tril(k_len - q_len)
    masks = [] if key_padding_mask is None else [key_padding_mask[:, None, None, :]]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        masks.append(attn_mask)
    for mask in masks:
        visible = mask if visible is None else visible & mask
    return visible


def _softmax_times(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(scores) @ v and the log-sum-exp, where a row of -inf alone gives 0 and -inf."""
    if scores.shape[-1] == 0:
        return scores @ v, scores.sum(-1) - math.inf
    # The maximum only keeps exp from overflowing: the result does not depend on it, so it gets no gradient.
    maximum = scores.detach().amax(-1, keepdim=True)
    maximum = maximum.masked_fill(maximum == -math.inf, 0.0)
    p = (scores - maximum).exp_()
    total = p.sum(-1, keepdim=True)
    dead = total == 0
    total = total.masked_fill(dead, 1.0)
    lse = (maximum + total.log()).masked_fill(dead, -math.inf)
    return (p @ v) / total, lse.squeeze(-1)
