"""FlashAttention-2 in torch operations: any device, any strides, extra memory linear in the sequence.

Dao, arXiv 2307.08691. Beside the paper: scores are kept in base 2 (2^x is cheaper than e^x, and the factor
log2(e) is folded into Q once), and one tile holds several heads, so that batched products stay large. Where the
lengths of queries and keys already bound the scores, the forward goes without the running maximum.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import math

import torch

from bancada_attention._autocast import accumulator
from bancada_attention._typing import Bool, Float, Tensor
from bancada_attention.flash.tiles import CausalBias, Scratch, Slab, blocks, choose, grouped, slabs

LOG2E = math.log2(math.e)
LN2 = math.log(2.0)
SMALL_SCORES = 32.0
"""Scores (base 2) up to here need no maximum: sums of 2^32 are far from overflow, 2^-32 far from underflow."""
ORDINARY_LENGTHS = 2.0**-50, 2.0**50
"""Values no longer and no shorter stay within range when multiplied with 2^32 or 2^-32, over millions of keys."""


def tiled_forward(
    q: Float[Tensor, "batch heads q_len head_dim"],
    k: Float[Tensor, "batch kv_heads k_len head_dim"],
    v: Float[Tensor, "batch kv_heads k_len head_dim"],
    *,
    causal: bool,
    scale: float,
    key_padding_mask: Bool[Tensor, "batch k_len"] | None,
) -> tuple[Float[Tensor, "batch heads q_len head_dim"], Float[Tensor, "batch heads q_len"]]:
    """O = softmax(scale * Q K^T) V and lse = log(sum(exp(scale * Q K^T))), in tiles.

    Args:
        q: queries; heads is a multiple of kv_heads.
        k: keys.
        v: values.
        causal: query i sees keys j <= i + k_len - q_len.
        scale: factor of the scores.
        key_padding_mask: True where a key is attended.

    Returns:
        Output (dtype of q) and natural log-sum-exp (float32; float64 for float64). Rows that see no key: 0, -inf.
    """
    dtype = accumulator(q.dtype)
    tiling = choose(q, k, budget=2**19, keys=256, causal=causal)
    inner_loop = _bounded_rows if _needs_no_maximum(q, k, v, scale, key_padding_mask) else _online_rows
    bias = CausalBias(q, k, tiling, dtype, causal)
    scratch = Scratch(q, dtype)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=dtype, device=q.device)
    q_groups, out_groups, lse_groups = (grouped(x, k.shape[1]) for x in (q, out, lse))
    for slab in slabs(q, k, key_padding_mask, tiling):
        keys = _Keys(k, v, key_padding_mask, slab, scratch)
        for rows in blocks(0, q.shape[2], tiling.queries):
            q_rows = q_groups[slab.batch, slab.heads, :, rows]
            o, row_lse = inner_loop(q_rows, keys, bias, rows, scale, tiling.keys, scratch)
            out_groups[slab.batch, slab.heads, :, rows] = o.view(q_rows.shape)
            lse_groups[slab.batch, slab.heads, :, rows] = row_lse.view(q_rows.shape[:-1])
    return out, lse


def _needs_no_maximum(q: Tensor, k: Tensor, v: Tensor, scale: float, key_padding_mask: Tensor | None) -> bool:
    """Whether |scale * q.k| <= |scale| max|q| max|k| (Cauchy-Schwarz) keeps every score within `SMALL_SCORES`.

    Softmax does not depend on what is subtracted from the scores; the maximum only keeps 2^s, and its products with
    V, within range (a maximum common to all rows: Hong et al., arXiv 2311.01282). Asked on a CPU only: a GPU would
    have to wait. With a single key the maximum makes its probability 1 and the output v to the bit: it stays.
    """
    if q.device.type != "cpu" or q.numel() == 0 or k.shape[2] <= 1:
        return False
    dtype = accumulator(q.dtype)
    longest_q = torch.linalg.vector_norm(q, dim=-1, dtype=dtype).amax()
    lengths = [torch.linalg.vector_norm(x, dim=-1, dtype=dtype) for x in (k, v)]
    if key_padding_mask is not None:
        lengths = [x.masked_fill(~key_padding_mask[:, None], 0.0) for x in lengths]
    longest_k, longest_v = (x.amax() for x in lengths)
    low, high = ORDINARY_LENGTHS
    # NaN: no
    return bool(longest_q * longest_k * abs(scale * LOG2E) <= SMALL_SCORES) and low <= float(longest_v) <= high


def _bounded_rows(
    q_rows: Tensor, keys: _Keys, bias: CausalBias, rows: slice, scale: float, width: int, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """Output and lse of one block of queries whose scores need no maximum: O = sum(2^S V) / sum(2^S)."""
    q = _scaled_queries(q_rows, scale, scratch)
    o = scratch("o", *q.shape).zero_()
    l, tile_l = (scratch(name, *q.shape[:2], 1).zero_() for name in ("l", "tile_l"))
    for tile in blocks(keys.slab.first_key, bias.end(rows, keys.slab.last_key), width):
        k, v = keys.tile(tile)
        p = keys.scores(q, k, tile, rows, bias).exp2_()
        l.add_(torch.sum(p, -1, keepdim=True, out=tile_l))
        o.baddbmm_(p, v)
    lse = torch.log2(l).mul_(LN2)
    return o.div_(l.masked_fill_(l == 0, 1.0)), lse


def _scaled_queries(q_rows: Tensor, scale: float, scratch: Scratch) -> Tensor:
    """The queries times scale * log2(e), rows of grouped heads stacked: [units, groups * rows, head_dim]."""
    batch, heads, groups, n_rows, head_dim = q_rows.shape
    q = scratch("q", batch * heads, groups * n_rows, head_dim)
    q.view(q_rows.shape).copy_(q_rows).mul_(scale * LOG2E)
    return q


def _online_rows(
    q_rows: Tensor, keys: _Keys, bias: CausalBias, rows: slice, scale: float, width: int, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """Algorithm 1's inner loop: output and lse of one block of queries, [units, groups * rows, ...]."""
    q = _scaled_queries(q_rows, scale, scratch)
    o = scratch("o", *q.shape)
    m, m_new, l, tile_l = (scratch(name, *q.shape[:2], 1) for name in ("m", "m_new", "l", "tile_l"))
    # The least finite number stands for "no key seen yet": unlike -inf it can be subtracted from itself.
    m.fill_(torch.finfo(m.dtype).min)
    l.zero_()
    first = True
    for tile in blocks(keys.slab.first_key, bias.end(rows, keys.slab.last_key), width):
        k, v = keys.tile(tile)
        s = keys.scores(q, k, tile, rows, bias)
        torch.maximum(m, torch.amax(s, -1, keepdim=True, out=m_new), out=m_new)
        p = s.sub_(m_new).exp2_()
        rescale = m.sub_(m_new).exp2_()
        l.mul_(rescale).add_(torch.sum(p, -1, keepdim=True, out=tile_l))
        if first:
            torch.bmm(p, v, out=o)
        else:
            o.mul_(rescale).baddbmm_(p, v)
        m, m_new, first = m_new, m, False
    if first:
        o.zero_()
    lse = m.add_(torch.log2(l)).mul_(LN2)
    # A row that saw a key has l >= 1 (its greatest score adds 2^0); a row that saw none has l = 0 and o = 0.
    return o.div_(l.clamp_(min=1.0)), lse


def tiled_backward(
    dout: Float[Tensor, "batch heads q_len head_dim"],
    dlse: Float[Tensor, "batch heads q_len"] | None,
    q: Float[Tensor, "batch heads q_len head_dim"],
    k: Float[Tensor, "batch kv_heads k_len head_dim"],
    v: Float[Tensor, "batch kv_heads k_len head_dim"],
    out: Float[Tensor, "batch heads q_len head_dim"],
    lse: Float[Tensor, "batch heads q_len"],
    *,
    causal: bool,
    scale: float,
    key_padding_mask: Bool[Tensor, "batch k_len"] | None,
) -> tuple[
    Float[Tensor, "batch heads q_len head_dim"],
    Float[Tensor, "batch kv_heads k_len head_dim"],
    Float[Tensor, "batch kv_heads k_len head_dim"],
]:
    """dQ, dK, dV of `tiled_forward`, with P = exp(S - lse) computed again, in tiles.

    dS = P * (dP - delta), dP = dO V^T, delta = rowsum(dO * O) - dlse; dV = P^T dO, dQ = scale * dS K,
    dK = scale * dS^T Q. `dlse` is the gradient that arrives through the log-sum-exp, or None.
    """
    dtype = accumulator(q.dtype)
    tiling = choose(q, k, budget=2**18, keys=256, causal=causal)
    bias = CausalBias(q, k, tiling, dtype, causal)
    scratch = Scratch(q, dtype)
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    dk, dv = (torch.zeros(x.shape, dtype=x.dtype, device=x.device) for x in (k, v))
    q_groups, dout_groups, out_groups, lse_groups, dq_groups = (grouped(x, k.shape[1]) for x in (q, dout, out, lse, dq))
    dlse_groups = None if dlse is None else grouped(dlse, k.shape[1])
    for slab in slabs(q, k, key_padding_mask, tiling):
        here = (slab.batch, slab.heads)
        keys = _Keys(k, v, key_padding_mask, slab, scratch)
        q_blocks = []
        for rows in blocks(0, q.shape[2], tiling.queries):
            at = (*here, slice(None), rows)
            row_dlse = None if dlse_groups is None else dlse_groups[at]
            block = _QueryBlock(
                rows, scale, dtype, q_groups[at], dout_groups[at], out_groups[at], lse_groups[at], row_dlse
            )
            q_blocks.append(block)
        for tile in blocks(slab.first_key, slab.last_key, tiling.keys):
            tile_dk, tile_dv = _backward_tile(keys, tile, q_blocks, bias, scratch)
            dk[(*here, tile)] = tile_dk.mul_(LN2).view(dk[(*here, tile)].shape)
            dv[(*here, tile)] = tile_dv.view(dv[(*here, tile)].shape)
        for block in q_blocks:
            target = dq_groups[(*here, slice(None), block.rows)]
            target.copy_(block.dq.mul_(scale).view(target.shape))
    return dq, dk, dv


def _backward_tile(
    keys: _Keys, tile: slice, q_blocks: list[_QueryBlock], bias: CausalBias, scratch: Scratch
) -> tuple[Tensor, Tensor]:
    """Algorithm 2's inner loop: dK (in base 2) and dV of one tile of keys; adds to every block's dQ."""
    k, v = keys.tile(tile)
    dk, dv = (scratch(name, *k.shape).zero_() for name in ("dk", "dv"))
    first_query = bias.first_query(tile.start)
    for block in q_blocks:
        if block.rows.stop <= first_query:
            continue
        p = keys.scores(block.q, k, tile, block.rows, bias).sub_(block.lse).exp2_()
        dv.baddbmm_(p.transpose(1, 2), block.dout)
        ds = torch.bmm(block.dout, v.transpose(1, 2), out=scratch("ds", *p.shape))
        ds.sub_(block.delta).mul_(p)
        dk.baddbmm_(ds.transpose(1, 2), block.q)
        block.dq.baddbmm_(ds, k)
    return dk, dv


class _QueryBlock:
    """What the backward needs of one block of queries, rows of grouped heads stacked: [units, groups * rows, ...]."""

    def __init__(
        self,
        rows: slice,
        scale: float,
        dtype: torch.dtype,
        q: Tensor,
        dout: Tensor,
        out: Tensor,
        lse: Tensor,
        dlse: Tensor | None,
    ) -> None:
        self.rows = rows
        stacked = (q.shape[0] * q.shape[1], q.shape[2] * q.shape[3], q.shape[4])
        # Copies, because they are scaled in place, and so that every product finds contiguous operands.
        self.q, self.dout = (torch.empty(stacked, dtype=dtype, device=q.device) for _ in range(2))
        self.q.view(q.shape).copy_(q).mul_(scale * LOG2E)
        self.dout.view(q.shape).copy_(dout)
        delta = (self.dout.view(q.shape) * out).sum(-1)
        if dlse is not None:
            delta -= dlse
        # A row that saw no key has lse = -inf. With +inf in its place exp2(S - lse) is 0, not NaN.
        dead = lse == -math.inf
        self.delta = delta.masked_fill_(dead, 0.0).view(*stacked[:2], 1)
        self.lse = (lse * LOG2E).masked_fill_(dead, math.inf).view(*stacked[:2], 1)
        self.dq = torch.zeros(stacked, dtype=dtype, device=q.device)


class _Keys:
    """K and V of one slab, tile by tile, in the accumulator's dtype; hidden keys are zeroed and score -inf."""

    def __init__(self, k: Tensor, v: Tensor, key_padding_mask: Tensor | None, slab: Slab, scratch: Scratch) -> None:
        self.slab, self._scratch = slab, scratch
        self._k, self._v = (x[slab.batch, slab.heads] for x in (k, v))
        self._hidden = None if key_padding_mask is None else ~key_padding_mask[slab.batch]

    def tile(self, keys: slice) -> tuple[Tensor, Tensor]:
        """K and V of these keys, [units, keys, head_dim]: views where the inputs allow it."""
        return self._prepare("k", self._k[:, :, keys], keys), self._prepare("v", self._v[:, :, keys], keys)

    def _prepare(self, name: str, x: Tensor, keys: slice) -> Tensor:
        batch, heads, n_keys, head_dim = x.shape
        buffer_dtype = accumulator(x.dtype)
        if self._hidden is None and x.dtype == buffer_dtype and batch == 1 and x.stride(3) == 1:
            return x[0]
        copy = self._scratch("tile_" + name, batch, heads, n_keys, head_dim).copy_(x)
        if self._hidden is not None:
            # A probability of 0 does not hide a NaN (0 * NaN = NaN): what is hidden must go itself.
            copy.masked_fill_(self._hidden[:, None, keys, None], 0.0)
        return copy.view(batch * heads, n_keys, head_dim)

    def scores(self, q: Tensor, k: Tensor, keys: slice, rows: slice, bias: CausalBias) -> Tensor:
        """S = Q K^T in base 2 with hidden keys at -inf, [units, groups * rows, keys], in the tile buffer."""
        s = torch.bmm(q, k.transpose(1, 2), out=self._scratch("s", q.shape[0], q.shape[1], k.shape[1]))
        bias.apply(s.view(self.slab.units, -1, rows.stop - rows.start, k.shape[1]), rows, keys)
        if self._hidden is not None:
            by_batch = s.view(self._hidden.shape[0], -1, k.shape[1])
            by_batch.masked_fill_(self._hidden[:, None, keys], -math.inf)
        return s
