"""Small Triton kernels for tests."""
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def product_kernel(x, y, out, depth, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    """A tile of out = x y, [BLOCK, BLOCK], for x [BLOCK, depth] and y [depth, BLOCK]."""
    rows = tl.arange(0, BLOCK)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, depth, DEPTH):
        a = tl.load(x + rows[:, None] * DEPTH * 64 + (start + inner)[None, :])
        b = tl.load(y + (start + inner)[:, None] * BLOCK + rows[None, :])
        total = tl.dot(a, b, total)
    tl.store(out + rows[:, None] * BLOCK + rows[None, :], total)


@triton.jit
def broken_kernel(x, out, BLOCK: tl.constexpr):
    """Names what is not there."""
    tl.store(out + tl.arange(0, BLOCK), nowhere + tl.load(x + tl.arange(0, BLOCK)))  # noqa: F821
