"""Cross-entropy from vocabulary shards in one process: what the ranks exchange is three numbers a token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def cross_entropy_of_shards(shards: Sequence[Tensor], labels: Tensor) -> Tensor:
    """-log softmax(logits)[label] a token, from logits [tokens, vocab/n] a shard and labels [tokens].

    M = max_r max Z_r, L = sum_r sum exp(Z_r - M), z = Z[label]: loss = M + log L - z.
    """
    M = torch.stack([shard.amax(-1) for shard in shards]).amax(0)
    L = torch.stack([torch.exp(shard - M[:, None]).sum(-1) for shard in shards]).sum(0)
    z = torch.zeros_like(M)
    first = 0
    for shard in shards:
        here = (labels >= first) & (labels < first + shard.shape[1])
        z[here] = shard[here, labels[here] - first]
        first += shard.shape[1]
    return M + torch.log(L) - z
