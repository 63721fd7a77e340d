"""The forward kernel of FlashAttention-2 in Triton (Dao, arXiv 2307.08691, algorithm 1).

One program computes one tile of BLOCK_M query rows of one head: it walks over the keys in tiles of
BLOCK_N and keeps, per row, the running maximum m, the running sum l of exp(s - m), and the
unnormalised output. Everything is in base 2 (s * scale * log2 e), since the GPU has exp2 alone.
"""
# Triton's language is typed by its own compiler; what a type checker says about it is noise.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def aligned(stride, UNIT: tl.constexpr):
    """The stride itself, known to the compiler as a multiple of UNIT.

    Triton notices strides divisible by 16 alone; a head_dim of 72 or 104 would be loaded one element at a time.
    """
    return stride // UNIT * UNIT


@triton.jit
def tile_pointers(start, rows, cols, stride_row, stride_col, WIDE: tl.constexpr):
    """Pointers to a tile whose first element is at `start`.

    Only the offsets inside the tile are ever 32-bit, and only where the launcher knows that they fit (not WIDE):
    with 64 bits sm_80 spills registers at head_dim 128. What leads to the tile is 64-bit everywhere.
    """
    if WIDE:
        rows = rows.to(tl.int64)
        cols = cols.to(tl.int64)
    return start + (rows[:, None] * stride_row + cols[None, :] * stride_col)


@triton.jit
def load_tile(pointers, row_ok, col_ok, CHECK_ROWS: tl.constexpr, CHECK_COLS: tl.constexpr):
    """A tile with 0 where a row or column is not to be read; checks that are not needed cost nothing."""
    if CHECK_ROWS and CHECK_COLS:
        return tl.load(pointers, mask=row_ok[:, None] & col_ok[None, :], other=0.0)
    if CHECK_ROWS:
        return tl.load(pointers, mask=row_ok[:, None], other=0.0)
    if CHECK_COLS:
        return tl.load(pointers, mask=col_ok[None, :], other=0.0)
    return tl.load(pointers)


@triton.jit
def visible_keys(padding, keys, sk, stride_key, HAS_PADDING: tl.constexpr):
    """Which keys of a tile exist and are not hidden by the padding mask."""
    ok = keys < sk
    if HAS_PADDING:
        ok = ok & (tl.load(padding + keys.to(tl.int64) * stride_key, mask=ok, other=0) != 0)
    return ok


@triton.jit(do_not_specialize=["heads", "group", "sq", "sk"])
def forward_kernel(
    q, k, v, out, lse, padding, scale, heads, group, sq, sk,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_om, stride_od, stride_pb, stride_pn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_PADDING: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """out = softmax(scale q k^T) v and lse = log sum exp(scale q k^T), of one tile of query rows."""
    tiles = tl.cdiv(sq, BLOCK_M)
    pid = tl.program_id(0)  # the only axis: the other two end at 65,535
    tile = pid % tiles  # tiles of one head side by side: they share its keys in the L2 cache
    if CAUSAL:  # the last rows have most to do: begin with them, so that the short ones fill the gaps
        tile = tiles - 1 - tile
    head = pid // tiles
    b = (head // heads).to(tl.int64)
    h = (head % heads).to(tl.int64)
    hk = (head % heads // group).to(tl.int64)

    cols = tl.arange(0, BLOCK_D)
    col_ok = cols < HEAD_DIM
    in_tile = tl.arange(0, BLOCK_M)
    in_keys = tl.arange(0, BLOCK_N)
    first = tile * BLOCK_M
    rows = first + in_tile
    row_ok = rows < sq
    CHECK_COLS: tl.constexpr = HEAD_DIM != BLOCK_D

    stride_qm = aligned(stride_qm, UNIT)
    stride_kn = aligned(stride_kn, UNIT)
    stride_vn = aligned(stride_vn, UNIT)
    stride_om = aligned(stride_om, UNIT)
    q_start = q + b * aligned(stride_qb, UNIT) + h * aligned(stride_qh, UNIT) + first.to(tl.int64) * stride_qm
    k_start = k + b * aligned(stride_kb, UNIT) + hk * aligned(stride_kh, UNIT)
    v_start = v + b * aligned(stride_vb, UNIT) + hk * aligned(stride_vh, UNIT)
    o_start = out + b * aligned(stride_ob, UNIT) + h * aligned(stride_oh, UNIT) + first.to(tl.int64) * stride_om
    k_tile = tile_pointers(0, in_keys, cols, stride_kn, stride_kd, WIDE)
    v_tile = tile_pointers(0, in_keys, cols, stride_vn, stride_vd, WIDE)
    pad_start = padding + b * stride_pb
    q_at = tile_pointers(q_start, in_tile, cols, stride_qm, stride_qd, WIDE)
    q_tile = load_tile(q_at, row_ok, col_ok, True, CHECK_COLS)

    # Keys before `full` are seen by every row of the tile; those from `last` on by none.
    offset = sk - sq
    full = sk
    last = sk
    if CAUSAL:
        full = tl.minimum(sk, tl.maximum(0, first + offset + 1))
        last = tl.minimum(sk, tl.maximum(0, tl.minimum(first + BLOCK_M, sq) + offset))
    scale_log2 = scale * 1.4426950408889634
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    for start in range(0, last, BLOCK_N):
        keys = start + in_keys
        # Hidden keys are not loaded at all: a NaN there must not reach a product.
        key_ok = visible_keys(pad_start, keys, sk, stride_pn, HAS_PADDING)
        at = tl.cast(start, tl.int64)
        k_rows = load_tile(k_start + at * stride_kn + k_tile, key_ok, col_ok, True, CHECK_COLS)
        s = tl.dot(q_tile, tl.trans(k_rows), input_precision="ieee")
        if HAS_PADDING:
            s = tl.where(key_ok[None, :], s, float("-inf"))
        # One loop with a branch, not one for full tiles and one for the others: handing the sums from loop to loop
        # while they are still being computed makes the assembler wait after every product (ptxas C7515).
        if start + BLOCK_N > full:
            seen = (keys < sk)[None, :]
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + offset)
            s = tl.where(seen, s, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)  # no key seen yet: -inf - -inf would be NaN
        p = tl.exp2(s * scale_log2 - shift[:, None])
        shrink = tl.exp2(row_max - shift)
        row_sum = row_sum * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v_rows = load_tile(v_start + at * stride_vn + v_tile, key_ok, col_ok, True, CHECK_COLS)
        acc = tl.dot(p.to(v_rows.dtype), v_rows, acc, input_precision="ieee")
        row_max = new_max

    empty = row_sum == 0.0  # no key at all: output 0, lse -inf
    row_sum = tl.where(empty, 1.0, row_sum)
    acc = acc / row_sum[:, None]
    row_lse = tl.where(empty, float("-inf"), (row_max + tl.log2(row_sum)) * 0.6931471805599453)
    tl.store(lse + head.to(tl.int64) * sq + rows, row_lse, mask=row_ok)
    o_at = tile_pointers(o_start, in_tile, cols, stride_om, stride_od, WIDE)
    tl.store(o_at, acc.to(out.dtype.element_ty), mask=row_ok[:, None] & col_ok[None, :])
