"""AdamW on a GPU: one Triton kernel for all tensors, one launch for a step.

A table of addresses tells each program which tensor it works on, so hundreds of small tensors cost no launch each.
Importing this module needs no GPU and starts none; where Triton is missing it still imports, and `unusable` says so.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from bancada_optimizers.adamw.foreach import Rule

if TYPE_CHECKING:
    from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError as error:  # pragma: no cover - depends on the system
    MISSING: str | None = f"Triton cannot be imported here ({error})"
    INTERPRETED = False
else:
    MISSING = None

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def _block(address, first, T: tl.constexpr, BLOCK: tl.constexpr, UNIT: tl.constexpr):  # type: ignore[no-untyped-def]
        """Pointers to a block of the tensor at an address."""
        pointers = address.to(tl.pointer_type(T)) + first + tl.arange(0, BLOCK)
        return tl.max_contiguous(tl.multiple_of(pointers, UNIT), BLOCK)

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def _rule(p, g, m, v, step_size, root, keep, eps, one_minus_b1, b2, one_minus_b2):  # type: ignore[no-untyped-def]
        """AdamW's update of a block, in fp32."""
        p = p.to(tl.float32)
        g = g.to(tl.float32)
        m += (g - m) * one_minus_b1
        v = b2 * v + one_minus_b2 * g * g
        return p * keep - step_size * m / (tl.sqrt(v) / root + eps), m, v

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def adamw_kernel(  # type: ignore[no-untyped-def]
        addresses, sizes, numbers, owners, firsts, keep, eps, one_minus_b1, b2, one_minus_b2,
        P: tl.constexpr, BLOCK: tl.constexpr, UNIT: tl.constexpr,
    ):  # fmt: skip
        """A block of one tensor: p, g, m and v are read once, p, m and v written once. All arithmetic is in fp32.

        `UNIT` bytes is what every address is a multiple of, which Triton cannot see of an address that it loads. A
        block that is full needs no mask: with one, no thread could load 16 bytes at a time.
        """
        program = tl.program_id(0)
        owner = tl.load(owners + program)
        first = tl.load(firsts + program) * BLOCK
        size = tl.load(sizes + owner)
        table = addresses + owner * 4
        p_at = _block(tl.load(table), first, P, BLOCK, UNIT)
        g_at = _block(tl.load(table + 1), first, P, BLOCK, UNIT)
        m_at = _block(tl.load(table + 2), first, tl.float32, BLOCK, UNIT)
        v_at = _block(tl.load(table + 3), first, tl.float32, BLOCK, UNIT)
        step_size = tl.load(numbers + owner * 2)
        root = tl.load(numbers + owner * 2 + 1)
        if first + BLOCK <= size:
            p, m, v = _rule(
                tl.load(p_at), tl.load(g_at), tl.load(m_at), tl.load(v_at), step_size, root, keep, eps, one_minus_b1,
                b2, one_minus_b2,
            )  # fmt: skip
            tl.store(m_at, m)
            tl.store(v_at, v)
            tl.store(p_at, p.to(P))
        else:
            inside = first + tl.arange(0, BLOCK) < size
            p, m, v = _rule(
                tl.load(p_at, mask=inside, other=0.0), tl.load(g_at, mask=inside, other=0.0),
                tl.load(m_at, mask=inside, other=0.0), tl.load(v_at, mask=inside, other=0.0),
                step_size, root, keep, eps, one_minus_b1, b2, one_minus_b2,
            )  # fmt: skip
            tl.store(m_at, m, mask=inside)
            tl.store(v_at, v, mask=inside)
            tl.store(p_at, p.to(P), mask=inside)

    INTERPRETED = not isinstance(adamw_kernel, triton.JITFunction)

BLOCK = 1024
ALIGNMENT = 16  # bytes that one load instruction of a thread takes


def unusable() -> str | None:
    """Why the kernel cannot run in this process, or None where it can."""
    if MISSING is not None:
        return MISSING
    if INTERPRETED or torch.cuda.is_available():
        return None
    return "needs a GPU, or TRITON_INTERPRET=1 set before the package is imported"


def triton_adamw(
    ps: Sequence[Tensor],
    gs: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor],
    ts: Sequence[int],
    rule: Rule,
) -> None:
    """One update of all tensors in place, a launch for each dtype and device.

    Args:
        ps, gs: parameters and gradients, fp32, fp16 or bf16, laid out alike.
        ms, vs: moments in fp32.
        ts: the number of each tensor's update, from 1.
    """
    kinds: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for i, p in enumerate(ps):
        if p.numel():
            kinds.setdefault((p.dtype, p.device), []).append(i)
    for (dtype, device), chosen in kinds.items():
        _launch(dtype, device, [(ps[i], gs[i], ms[i], vs[i]) for i in chosen], [ts[i] for i in chosen], rule)


def _launch(
    dtype: torch.dtype, device: torch.device, tensors: list[tuple[Tensor, ...]], ts: list[int], rule: Rule
) -> None:
    addresses = [[x.data_ptr() for x in four] for four in tensors]
    aligned = all(address % ALIGNMENT == 0 for four in addresses for address in four)
    numbers = [[rule.step_size(t), rule.root(t)] for t in ts]
    sizes, owners, firsts = _blocks(tuple(four[0].numel() for four in tensors), device)
    b1, b2 = rule.betas
    with _on(device):
        adamw_kernel[(owners.numel(),)](
            torch.tensor(addresses, dtype=torch.int64, device=device),
            sizes,
            torch.tensor(numbers, dtype=torch.float32, device=device),
            owners, firsts, 1 - rule.lr * rule.weight_decay, rule.eps, 1 - b1, b2, 1 - b2,
            P=kernel_dtype(dtype), BLOCK=BLOCK, UNIT=ALIGNMENT if aligned else 1, num_warps=4,
        )  # fmt: skip


@functools.lru_cache(maxsize=16)
def _blocks(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The sizes, and for each program the tensor it works on and the block inside it; the same at every step."""
    size = torch.tensor(sizes, dtype=torch.int64)
    counts = (size + BLOCK - 1) // BLOCK
    owners = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    firsts = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts)[owners]
    return size.to(device), owners.to(device), firsts.to(device)


def kernel_dtype(dtype: torch.dtype) -> Any:
    """Triton's name of a parameter's dtype."""
    return {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}[dtype]


def _on(device: torch.device) -> Any:
    import contextlib

    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
