"""How the work of the tiled backend is cut: slabs of key/value heads, blocks of queries, tiles of keys.

A *unit* is one key/value head of one batch entry, with the `groups` query heads that read it: their rows are
stacked, so that grouped heads cost no copy of K and V. A *slab* is several units worked on together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tiling:
    """Sizes of a slab's tile of scores: units x (groups * queries) x keys."""

    units: int
    queries: int
    keys: int


@dataclass(frozen=True)
class Slab:
    """Which batch entries and key/value heads, and which of their keys matter (first, one past the last)."""

    batch: slice
    heads: slice
    first_key: int
    last_key: int

    @property
    def units(self) -> int:
        """How many key/value heads the slab holds."""
        return len(range(self.batch.start, self.batch.stop)) * len(range(self.heads.start, self.heads.stop))


class Scratch:
    """Named buffers that grow and are cut to shape, so that tiles do not allocate."""

    def __init__(self, like: Tensor, dtype: torch.dtype) -> None:
        self._device, self._dtype = like.device, dtype
        self._flat: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """Uninitialised contiguous memory of that shape; the same name is the same memory."""
        size = math.prod(shape)
        flat = self._flat.get(name)
        if flat is None or flat.numel() < size:
            flat = self._flat[name] = torch.empty(size, dtype=self._dtype, device=self._device)
        return flat[:size].view(shape)


class CausalBias:
    """What is added to a tile of scores so that hidden keys get -inf; query a sees key b <= a + offset."""

    def __init__(self, q: Tensor, k: Tensor, tiling: Tiling, dtype: torch.dtype, causal: bool) -> None:
        self.causal = causal
        self.offset = k.shape[2] - q.shape[2]
        side = tiling.queries if causal else 0
        # Entry [y, x] is -inf where x >= y: every tile that crosses the diagonal is a part of this one square.
        self._square = torch.full((side, side), -math.inf, dtype=dtype, device=q.device).triu_()

    def end(self, rows: slice, last_key: int) -> int:
        """One past the last key that some query of `rows` sees."""
        return min(last_key, max(rows.stop + self.offset, 0)) if self.causal else last_key

    def first_query(self, first_key: int) -> int:
        """The first query that sees `first_key`."""
        return max(0, first_key - self.offset) if self.causal else 0

    def apply(self, scores: Tensor, rows: slice, keys: slice) -> None:
        """Hide keys in `scores` [..., rows, keys], in place; only the columns that cross the diagonal are touched."""
        diagonal = rows.start + self.offset + 1
        if not self.causal or keys.stop <= diagonal:
            return
        start = max(diagonal, keys.start)
        n_rows = rows.stop - rows.start
        within = min(keys.stop, diagonal + n_rows - 1)
        if start < within:
            bias = self._square[:n_rows, start - diagonal : within - diagonal]
            scores[..., start - keys.start : within - keys.start] += bias
        if within < keys.stop:
            scores[..., max(within - keys.start, 0) :] = -math.inf


def choose(q: Tensor, k: Tensor, *, budget: int, keys: int, causal: bool) -> Tiling:
    """Tile sizes for inputs q, k: about `budget` scores a tile, `keys` of them in a row where there are so many."""
    batch, heads, q_len, head_dim = q.shape
    kv_heads, k_len = k.shape[1], k.shape[2]
    groups, units = heads // kv_heads, max(1, batch * kv_heads)
    # 256 stacked rows suit the BLAS; where there are few heads to batch, more rows do the same for it.
    queries = max(16, max(256, min(1024, budget // (keys * units))) // groups)
    if causal:  # Tiles on the diagonal are half wasted: blocks of queries stay well below the length.
        queries = min(queries, max(128, q_len // 8))
    queries = max(1, min(queries, q_len))
    # A few rows (decoding) are done before a call is worth its overhead: they take more keys at a time.
    rows = groups * queries
    keys = max(1, min(keys * max(1, min(4, 64 // rows)), k_len))
    # What a unit needs in the cache: its tile of scores, and, as it is read only once or twice, some of Q and K.
    unit = max(rows * keys, (rows + keys) * head_dim // 4)
    units = max(1, min(budget // unit, units))
    if units > kv_heads:
        units -= units % kv_heads
    return Tiling(units, queries, keys)


def slabs(q: Tensor, k: Tensor, key_padding_mask: Tensor | None, tiling: Tiling) -> Iterator[Slab]:
    """All units, in slabs of `tiling.units`; keys that a mask hides at both ends of a slab are left out."""
    batch, kv_heads, k_len = k.shape[:3]
    batches, heads = max(1, tiling.units // kv_heads), min(tiling.units, kv_heads)
    hidden = None if key_padding_mask is None or key_padding_mask.is_meta else key_padding_mask
    bounds = [(0, k_len)] * batch if hidden is None else _attended(hidden)
    for b in range(0, batch, batches):
        some = slice(b, min(b + batches, batch))
        first, last = min(x for x, _ in bounds[some]), max(x for _, x in bounds[some])
        for h in range(0, kv_heads, heads):
            yield Slab(some, slice(h, min(h + heads, kv_heads)), first, last)


def _attended(mask: Tensor) -> list[tuple[int, int]]:
    """For each batch entry the first attended key and one past the last; (k_len, 0) where there is none."""
    k_len = mask.shape[1]
    position = torch.arange(k_len, device=mask.device)
    first = torch.where(mask, position, k_len).amin(1) if k_len else position.new_zeros(mask.shape[0])
    last = torch.where(mask, position + 1, 0).amax(1) if k_len else first
    return list(zip(first.tolist(), last.tolist(), strict=True))


def grouped(x: Tensor, kv_heads: int) -> Tensor:
    """x [batch, heads, ...] as a view [batch, kv_heads, groups, ...]."""
    return x.view(x.shape[0], kv_heads, x.shape[1] // kv_heads, *x.shape[2:])


def blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """`range(start, stop)` in slices of `size`, the last one shorter."""
    for i in range(start, stop, size):
        yield slice(i, min(i + size, stop))
