"""`flash_attention`: one autograd function over the tiled and the Triton backend."""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import torch

from bancada_attention._autocast import autocast_inputs, without_autocast
from bancada_attention._check import check_causal, check_key_padding_mask, check_qkv, check_scale
from bancada_attention._typing import Bool, Float, Tensor
from bancada_attention.flash.tiled import tiled_backward, tiled_forward

BACKENDS = ("auto", "tiled", "triton")
MAX_HEAD_DIM = 256

Backend = Literal["auto", "tiled", "triton"]


@overload
def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    key_padding_mask: Tensor | None = ...,
    return_lse: Literal[False] = ...,
    backend: Backend = ...,
) -> Tensor: ...
@overload
def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    key_padding_mask: Tensor | None = ...,
    return_lse: Literal[True],
    backend: Backend = ...,
) -> tuple[Tensor, Tensor]: ...
def flash_attention(
    q: Float[Tensor, "batch heads q_len head_dim"],
    k: Float[Tensor, "batch kv_heads k_len head_dim"],
    v: Float[Tensor, "batch kv_heads k_len head_dim"],
    *,
    causal: bool = False,
    scale: float | None = None,
    key_padding_mask: Bool[Tensor, "batch k_len"] | None = None,
    return_lse: bool = False,
    backend: Backend = "auto",
) -> (
    Float[Tensor, "batch heads q_len head_dim"]
    | tuple[Float[Tensor, "batch heads q_len head_dim"], Float[Tensor, "batch heads q_len"]]
):
    """FlashAttention-2: O = softmax(scale * Q K^T) V, exact, without the matrix of scores in memory.

    Args:
        q: queries; head_dim 1 to 256, any strides.
        k: keys; with fewer heads than q, query head h reads key head h // (heads / kv_heads). Never expanded.
        v: values.
        causal: query i sees keys j <= i + k_len - q_len: the last query sees the last key (bottom-right
            alignment; torch's `is_causal` aligns top-left, the same only where q_len == k_len).
        scale: factor of the scores; None stands for 1/sqrt(head_dim).
        key_padding_mask: True where a key is attended. Hidden keys do not matter, whatever they hold:
            NaN or infinity there changes neither output nor gradients.
        return_lse: also return log(sum(exp(scores))) of each row, natural logarithm; gradients flow through it.
        backend: "tiled" (torch operations, any device), "triton" (GPU, or Triton's interpreter), or "auto":
            triton on a GPU where it can take the inputs, else tiled.

    Returns:
        The output, in the dtype of q; with `return_lse` also lse [batch, heads, q_len], float32
        (float64 for float64). A row that sees no key has output 0, lse -inf and gradients 0.
        Products are summed in float32 (float64 for float64). Extra memory is linear in q_len + k_len.
        Under `torch.autocast`, q, k and v are first cast to its dtype, as torch's
        scaled_dot_product_attention does. Gradients are not differentiable again, and the transforms of
        torch.func (grad, vmap, ...) are refused by torch: `attention` takes all of them.

    Raises:
        ValueError: an argument has a wrong shape, dtype, device or value, or the backend cannot take it.
        RuntimeError: a second derivative is asked for (`attention` has them).

    Paper: Dao, arXiv 2307.08691.
    """
    q, k, v = autocast_inputs(q, k, v)
    check_qkv(q, k, v, max_head_dim=MAX_HEAD_DIM)
    check_causal(causal)
    check_key_padding_mask(key_padding_mask, q, k)
    scale = check_scale(scale, q.shape[3])
    chosen = _choose(backend, q)
    apply: Callable[..., tuple[Tensor, Tensor]] = _Flash.apply
    out, lse = apply(q, k, v, key_padding_mask, causal, scale, chosen)
    return (out, lse) if return_lse else out


def _choose(backend: str, q: Tensor) -> str:
    """The backend that runs; ValueError where the one asked for cannot."""
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r}: allowed are {', '.join(BACKENDS)}")
    if backend == "tiled" or (backend == "auto" and not q.is_cuda):
        return "tiled"
    reason = _triton_refuses(q)
    if reason is not None and backend == "triton":
        raise ValueError(f"backend='triton': {reason}; 'tiled' takes any input")
    return "tiled" if reason is not None else "triton"


def _triton_refuses(q: Tensor) -> str | None:
    from bancada_attention.flash.triton_kernel import unsupported

    return unsupported(q)


def _kernels(backend: str, q: Tensor, k: Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Forward and backward of that backend. Empty inputs need no kernel: a grid of size 0 cannot be launched."""
    if backend == "tiled" or q.numel() == 0 or k.numel() == 0:
        return tiled_forward, tiled_backward
    from bancada_attention.flash.triton_kernel import triton_backward, triton_forward

    return triton_forward, triton_backward


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding_mask: Tensor | None,
        causal: bool,
        scale: float,
        backend: str,
    ) -> tuple[Tensor, Tensor]:
        forward, _ = _kernels(backend, q, k)
        # The backends choose their own precision: whatever operations they come to use, none may be autocast.
        with without_autocast(q.device.type):
            out, lse = forward(q, k, v, causal=causal, scale=scale, key_padding_mask=key_padding_mask)
        ctx.save_for_backward(q, k, v, out, lse, key_padding_mask)
        ctx.set_materialize_grads(False)
        ctx.options = (causal, scale, backend)
        return out, lse

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, key_padding_mask = ctx.saved_tensors
        if dout is None and dlse is None:
            return (None,) * 7
        if dout is None:
            dout = torch.zeros((), dtype=out.dtype, device=out.device).expand(out.shape)
        apply: Callable[..., tuple[Tensor, Tensor, Tensor]] = _Gradient.apply
        gradients = apply(dout, dlse, q, k, v, out, lse, key_padding_mask, *ctx.options)
        return (*gradients, None, None, None, None)


class _Gradient(torch.autograd.Function):
    """The backward as a function of its own, so that a second derivative is refused in words."""

    @staticmethod
    def forward(
        ctx: Any,
        dout: Tensor,
        dlse: Tensor | None,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        key_padding_mask: Tensor | None,
        causal: bool,
        scale: float,
        backend: str,
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, backward = _kernels(backend, q, k)
        with without_autocast(q.device.type):
            dq, dk, dv = backward(
                dout, dlse, q, k, v, out, lse, causal=causal, scale=scale, key_padding_mask=key_padding_mask
            )
        return dq, dk, dv

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(
            "flash_attention has no second derivative: use bancada_attention.attention, which is differentiable again"
        )
