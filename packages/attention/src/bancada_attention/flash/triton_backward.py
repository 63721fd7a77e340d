"""The backward kernels of FlashAttention-2 in Triton (Dao, arXiv 2307.08691, algorithm 2).

With P = exp(S - lse), dP = dO V^T and D = rowsum(dO * O) - dlse:

    dS = P * (dP - D),   dV = P^T dO,   dK = scale dS^T Q,   dQ = scale dS K.

Three kernels and no atomics, so that the same inputs give the same bits: `prepare_kernel` computes D,
`backward_keys_kernel` a tile of keys (all query rows and heads of its group in turn), and
`backward_queries_kernel` a tile of query rows. Recomputing P and dP in both costs 7 products where 5
would do with atomic sums of dQ.
"""
# Triton's language is typed by its own compiler; what a type checker says about it is noise.
# mypy: ignore-errors

import triton
import triton.language as tl

from bancada_attention.flash.triton_forward import aligned, load_tile, tile_pointers, visible_keys


@triton.jit(do_not_specialize=["heads", "sq", "padded"])
def prepare_kernel(
    out, dout, lse, dlse, delta, lse2, heads, sq, padded,
    stride_ob, stride_oh, stride_om, stride_od, stride_gb, stride_gh, stride_gm, stride_gd,
    stride_lb, stride_lh, stride_lm,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, HEAD_DIM: tl.constexpr, HAS_DLSE: tl.constexpr,
    UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """delta = rowsum(dO * O) - dlse and lse2 = lse in base 2, +inf where a row is to count for nothing.

    Both are written for `padded` rows, a multiple of every tile, so that the other kernels load them unchecked; with
    lse2 = +inf, P = exp2(s - lse2) is exactly 0 for rows without keys and rows beyond the end.
    """
    tiles = tl.cdiv(padded, BLOCK_M)
    pid = tl.program_id(0)
    head = pid // tiles
    b = (head // heads).to(tl.int64)
    h = (head % heads).to(tl.int64)
    in_tile = tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_D)
    first = pid % tiles * BLOCK_M
    rows = first + in_tile
    ok = rows < sq
    at = first.to(tl.int64)
    stride_om = aligned(stride_om, UNIT)
    stride_gm = aligned(stride_gm, UNIT)
    o_start = out + b * aligned(stride_ob, UNIT) + h * aligned(stride_oh, UNIT) + at * stride_om
    g_start = dout + b * aligned(stride_gb, UNIT) + h * aligned(stride_gh, UNIT) + at * stride_gm
    o = load_tile(tile_pointers(o_start, in_tile, cols, stride_om, stride_od, WIDE), ok, cols < HEAD_DIM, True, True)
    g = load_tile(tile_pointers(g_start, in_tile, cols, stride_gm, stride_gd, WIDE), ok, cols < HEAD_DIM, True, True)
    row_delta = tl.sum(o.to(tl.float32) * g.to(tl.float32), 1)
    row_lse = tl.load(lse + head.to(tl.int64) * sq + rows, mask=ok, other=float("-inf"))
    if HAS_DLSE:
        dlse_start = dlse + b * stride_lb + h * stride_lh
        row_delta -= tl.load(dlse_start + rows.to(tl.int64) * stride_lm, mask=ok, other=0.0)
    empty = row_lse == float("-inf")
    base = head.to(tl.int64) * padded + rows
    tl.store(delta + base, tl.where(empty, 0.0, row_delta))
    tl.store(lse2 + base, tl.where(empty, float("inf"), row_lse * 1.4426950408889634))


@triton.jit
def keys_from_rows(
    dk, dv, k, v, q_start, g_start, q_tile, g_tile, delta, lse2, keys, lo, hi, group, sq, padded, offset,
    stride_qh, stride_qm, stride_gh, stride_gm, scale_log2, col_ok,
    BLOCK_M: tl.constexpr, DIAGONAL: tl.constexpr, GROUPED: tl.constexpr, EVEN_ROWS: tl.constexpr,
    CHECK_COLS: tl.constexpr,
):  # fmt: skip
    """Adds what the query rows of [lo, hi), of every head of the group, give to dK and dV.

    Works on S^T, so that P^T is the left operand as it is. One loop over heads and tiles: an inner loop for each head
    would fill its pipeline anew, and holding both loops' addresses costs some 40 registers.
    """
    in_tile = tl.arange(0, BLOCK_M)
    tiles = (hi - lo) // BLOCK_M
    for step in range(group * tiles):
        start = lo + step * BLOCK_M
        if GROUPED:
            member = step // tiles
            start = lo + (step - member * tiles) * BLOCK_M
            head = tl.cast(member, tl.int64)
            q_first = q_start + head * stride_qh
            g_first = g_start + head * stride_gh
            scratch = head * padded
        else:
            q_first = q_start
            g_first = g_start
            scratch = 0
        rows = start + in_tile
        row_ok = rows < sq
        first = tl.cast(start, tl.int64)
        q = load_tile(q_first + first * stride_qm + q_tile, row_ok, col_ok, not EVEN_ROWS, CHECK_COLS)
        row_lse = tl.load(lse2 + scratch + rows)
        st = tl.dot(k, tl.trans(q), input_precision="ieee")
        pt = tl.exp2(st * scale_log2 - row_lse[None, :])
        if DIAGONAL:
            pt = tl.where(keys[:, None] <= rows[None, :] + offset, pt, 0.0)
        g = load_tile(g_first + first * stride_gm + g_tile, row_ok, col_ok, not EVEN_ROWS, CHECK_COLS)
        dv = tl.dot(pt.to(g.dtype), g, dv, input_precision="ieee")
        row_delta = tl.load(delta + scratch + rows)
        dpt = tl.dot(v, tl.trans(g), input_precision="ieee")
        dst = pt * (dpt - row_delta[None, :])
        dk = tl.dot(dst.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit(do_not_specialize=["heads", "group", "sq", "sk", "padded"])
def backward_keys_kernel(
    q, k, v, dout, dk, dv, delta, lse2, padding, scale, heads, group, sq, sk, padded,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gm, stride_gd,
    stride_dkb, stride_dkh, stride_dkn, stride_dkd, stride_dvb, stride_dvh, stride_dvn, stride_dvd,
    stride_pb, stride_pn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_PADDING: tl.constexpr, GROUPED: tl.constexpr, EVEN_ROWS: tl.constexpr,
    UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """dK = scale dS^T Q and dV = P^T dO of one tile of keys, summed over the query heads of its group.

    Neither keys beyond the end nor hidden ones need a mask on P: each key owns its row of dK and dV, and theirs is not
    stored, or stored as 0.
    """
    tiles = tl.cdiv(sk, BLOCK_N)
    pid = tl.program_id(0)
    tile = pid % tiles  # ascending: with a causal mask the first keys have most rows
    head = pid // tiles
    kv_heads = heads // group
    b = (head // kv_heads).to(tl.int64)
    hk = (head % kv_heads).to(tl.int64)

    cols = tl.arange(0, BLOCK_D)
    col_ok = cols < HEAD_DIM
    in_keys = tl.arange(0, BLOCK_N)
    in_tile = tl.arange(0, BLOCK_M)
    first = tile * BLOCK_N
    keys = first + in_keys
    at = first.to(tl.int64)
    CHECK_COLS: tl.constexpr = HEAD_DIM != BLOCK_D
    key_ok = visible_keys(padding + b * stride_pb, keys, sk, stride_pn, HAS_PADDING)

    stride_qm = aligned(stride_qm, UNIT)
    stride_gm = aligned(stride_gm, UNIT)
    stride_kn = aligned(stride_kn, UNIT)
    stride_vn = aligned(stride_vn, UNIT)
    k_start = k + b * aligned(stride_kb, UNIT) + hk * aligned(stride_kh, UNIT) + at * stride_kn
    v_start = v + b * aligned(stride_vb, UNIT) + hk * aligned(stride_vh, UNIT) + at * stride_vn
    k_at = tile_pointers(k_start, in_keys, cols, stride_kn, stride_kd, WIDE)
    v_at = tile_pointers(v_start, in_keys, cols, stride_vn, stride_vd, WIDE)
    k_tile = load_tile(k_at, key_ok, col_ok, True, CHECK_COLS)
    v_tile = load_tile(v_at, key_ok, col_ok, True, CHECK_COLS)
    q_tile = tile_pointers(0, in_tile, cols, stride_qm, stride_qd, WIDE)
    g_tile = tile_pointers(0, in_tile, cols, stride_gm, stride_gd, WIDE)

    # Rows before `lo` see no key of the tile, those from `full` on see all of them.
    offset = sk - sq
    lo = 0
    full = 0
    end = tl.cdiv(sq, BLOCK_M) * BLOCK_M
    if CAUSAL:
        lo = tl.minimum(end, tl.maximum(0, first - offset) // BLOCK_M * BLOCK_M)
        full = tl.minimum(end, tl.cdiv(tl.maximum(0, first + BLOCK_N - 1 - offset), BLOCK_M) * BLOCK_M)
    scale_log2 = scale * 1.4426950408889634
    dk_tile = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv_tile = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    stride_qh = aligned(stride_qh, UNIT)
    stride_gh = aligned(stride_gh, UNIT)
    h = hk * group
    q_start = q + b * aligned(stride_qb, UNIT) + h * stride_qh
    g_start = dout + b * aligned(stride_gb, UNIT) + h * stride_gh
    scratch = (b * heads + h) * padded
    delta += scratch
    lse2 += scratch
    if CAUSAL:
        dk_tile, dv_tile = keys_from_rows(
            dk_tile, dv_tile, k_tile, v_tile, q_start, g_start, q_tile, g_tile, delta, lse2, keys, lo, full,
            group, sq, padded, offset, stride_qh, stride_qm, stride_gh, stride_gm, scale_log2, col_ok,
            BLOCK_M, True, GROUPED, EVEN_ROWS, CHECK_COLS,
        )  # fmt: skip
    dk_tile, dv_tile = keys_from_rows(
        dk_tile, dv_tile, k_tile, v_tile, q_start, g_start, q_tile, g_tile, delta, lse2, keys, full, end,
        group, sq, padded, offset, stride_qh, stride_qm, stride_gh, stride_gm, scale_log2, col_ok,
        BLOCK_M, False, GROUPED, EVEN_ROWS, CHECK_COLS,
    )  # fmt: skip

    stride_dkn = aligned(stride_dkn, UNIT)
    stride_dvn = aligned(stride_dvn, UNIT)
    dk_start = dk + b * aligned(stride_dkb, UNIT) + hk * aligned(stride_dkh, UNIT) + at * stride_dkn
    dv_start = dv + b * aligned(stride_dvb, UNIT) + hk * aligned(stride_dvh, UNIT) + at * stride_dvn
    dk_at = tile_pointers(dk_start, in_keys, cols, stride_dkn, stride_dkd, WIDE)
    dv_at = tile_pointers(dv_start, in_keys, cols, stride_dvn, stride_dvd, WIDE)
    stored = key_ok[:, None] & col_ok[None, :]
    tl.store(dk_at, (dk_tile * scale).to(dk.dtype.element_ty), mask=stored)
    tl.store(dv_at, dv_tile.to(dv.dtype.element_ty), mask=stored)
    if HAS_PADDING:
        hidden = ((keys < sk) & (key_ok == 0))[:, None] & col_ok[None, :]
        tl.store(dk_at, tl.zeros([BLOCK_N, BLOCK_D], dk.dtype.element_ty), mask=hidden)
        tl.store(dv_at, tl.zeros([BLOCK_N, BLOCK_D], dv.dtype.element_ty), mask=hidden)


@triton.jit(do_not_specialize=["heads", "group", "sq", "sk", "padded"])
def backward_queries_kernel(
    q, k, v, dout, dq, delta, lse2, padding, scale, heads, group, sq, sk, padded,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gm, stride_gd,
    stride_dqb, stride_dqh, stride_dqm, stride_dqd, stride_pb, stride_pn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr, HAS_PADDING: tl.constexpr, UNIT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """dQ = scale dS K of one tile of query rows."""
    tiles = tl.cdiv(sq, BLOCK_M)
    pid = tl.program_id(0)
    tile = pid % tiles
    if CAUSAL:
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
    at = first.to(tl.int64)
    CHECK_COLS: tl.constexpr = HEAD_DIM != BLOCK_D

    stride_qm = aligned(stride_qm, UNIT)
    stride_gm = aligned(stride_gm, UNIT)
    stride_kn = aligned(stride_kn, UNIT)
    stride_vn = aligned(stride_vn, UNIT)
    stride_dqm = aligned(stride_dqm, UNIT)
    q_start = q + b * aligned(stride_qb, UNIT) + h * aligned(stride_qh, UNIT) + at * stride_qm
    g_start = dout + b * aligned(stride_gb, UNIT) + h * aligned(stride_gh, UNIT) + at * stride_gm
    k_start = k + b * aligned(stride_kb, UNIT) + hk * aligned(stride_kh, UNIT)
    v_start = v + b * aligned(stride_vb, UNIT) + hk * aligned(stride_vh, UNIT)
    dq_start = dq + b * aligned(stride_dqb, UNIT) + h * aligned(stride_dqh, UNIT) + at * stride_dqm
    q_at = tile_pointers(q_start, in_tile, cols, stride_qm, stride_qd, WIDE)
    g_at = tile_pointers(g_start, in_tile, cols, stride_gm, stride_gd, WIDE)
    q_tile = load_tile(q_at, row_ok, col_ok, True, CHECK_COLS)
    g_tile = load_tile(g_at, row_ok, col_ok, True, CHECK_COLS)
    k_tile = tile_pointers(0, in_keys, cols, stride_kn, stride_kd, WIDE)
    v_tile = tile_pointers(0, in_keys, cols, stride_vn, stride_vd, WIDE)
    pad_start = padding + b * stride_pb
    scratch = head.to(tl.int64) * padded + rows
    row_delta = tl.load(delta + scratch)
    row_lse = tl.load(lse2 + scratch)

    # Keys before `full` are seen by every row of the tile; those from `last` on by none.
    offset = sk - sq
    full = sk
    last = sk
    if CAUSAL:
        full = tl.minimum(sk, tl.maximum(0, first + offset + 1))
        last = tl.minimum(sk, tl.maximum(0, tl.minimum(first + BLOCK_M, sq) + offset))
    scale_log2 = scale * 1.4426950408889634
    dq_tile = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, last, BLOCK_N):  # one loop with a branch, for the reason told in the forward kernel
        keys = start + in_keys
        key_ok = visible_keys(pad_start, keys, sk, stride_pn, HAS_PADDING)
        near = tl.cast(start, tl.int64)
        k_rows = load_tile(k_start + near * stride_kn + k_tile, key_ok, col_ok, True, CHECK_COLS)
        s = tl.dot(q_tile, tl.trans(k_rows), input_precision="ieee")
        p = tl.exp2(s * scale_log2 - row_lse[:, None])
        if HAS_PADDING:
            p = tl.where(key_ok[None, :], p, 0.0)
        if start + BLOCK_N > full:
            seen = (keys < sk)[None, :]
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None] + offset)
            p = tl.where(seen, p, 0.0)
        v_rows = load_tile(v_start + near * stride_vn + v_tile, key_ok, col_ok, True, CHECK_COLS)
        dp = tl.dot(g_tile, tl.trans(v_rows), input_precision="ieee")
        ds = p * (dp - row_delta[:, None])
        dq_tile = tl.dot(ds.to(k_rows.dtype), k_rows, dq_tile, input_precision="ieee")

    stored = row_ok[:, None] & col_ok[None, :]
    dq_at = tile_pointers(dq_start, in_tile, cols, stride_dqm, stride_dqd, WIDE)
    tl.store(dq_at, (dq_tile * scale).to(dq.dtype.element_ty), mask=stored)
