"""The attention kernels as they are launched on contiguous tensors, for a compiler that has no tensors to look at."""

from __future__ import annotations

import torch

from bancada.compiled import Launch
from bancada_attention.flash.triton_config import KERNELS, Tile, padded_head_dim

_POINTEE = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
_FLOAT32_POINTERS = ("lse", "dlse", "delta", "lse2")
_INTEGERS = ("heads", "group", "sq", "sk", "padded")


def launch(
    kernel: str,
    head_dim: int,
    dtype: torch.dtype,
    causal: bool,
    tile: Tile,
    *,
    masked: bool = False,
    grouped: bool = False,
    even: bool = True,
) -> Launch:
    """A kernel's launch.

    Args:
        kernel: one of `triton_config.KERNELS`.
        head_dim: 1 to 256.
        dtype: float16, bfloat16 or float32.
        masked: with a key padding mask, and a gradient of the log-sum-exp.
        grouped: several query heads share a key-value head.
        even: every tile divides the sequence length.

    Raises:
        ValueError: an unknown kernel or dtype.
        RuntimeError: Triton is missing.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r}: allowed are {', '.join(KERNELS)}")
    if dtype not in _POINTEE:
        raise ValueError(f"dtype={dtype}: allowed are {', '.join(map(str, _POINTEE))}")
    from bancada_attention.flash import triton_kernel

    if triton_kernel.MISSING is not None:
        raise RuntimeError(triton_kernel.MISSING)
    function = triton_kernel.kernel(kernel)
    known: dict[str, object] = {
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_D": padded_head_dim(head_dim),
        "HEAD_DIM": head_dim,
        "CAUSAL": causal,
        "HAS_PADDING": masked,
        "HAS_DLSE": masked,
        "GROUPED": grouped,
        "EVEN_ROWS": even,
        "WIDE": False,
        "UNIT": 8 if head_dim % 8 == 0 else 1,
    }
    signature = {name: _type(name, dtype) for name in function.arg_names}
    constants = {name: known.get(name, 1) for name, kind in signature.items() if kind == "constexpr"}
    aligned = tuple(
        name for name, kind in signature.items()
        if kind.startswith("*") or (name.startswith("stride_") and kind == "i32" and head_dim % 16 == 0)
    )  # fmt: skip
    return Launch(function, signature, constants, aligned, tile.num_warps, tile.num_stages)


def _type(name: str, dtype: torch.dtype) -> str:
    """The type that Triton gives a kernel's parameter at launch; the innermost stride, 1, is a constant to it."""
    if name.isupper():
        return "constexpr"
    if name.startswith("stride_"):
        return "constexpr" if name.endswith("d") or name in ("stride_pn", "stride_lm") else "i32"
    if name in _INTEGERS:
        return "i32"
    if name == "scale":
        return "fp32"
    if name == "padding":
        return "*i16"
    return "*fp32" if name in _FLOAT32_POINTERS else f"*{_POINTEE[dtype]}"
