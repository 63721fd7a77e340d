"""Embedding and cross-entropy cut by the vocabulary: no rank ever holds the logits of all words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism._check import check_count, check_floating
from bancada_parallelism.layout import Layout
from bancada_parallelism.tensor.functions import copy_to_ranks, reduce_from_ranks


def _range(vocab: int, layout: Layout) -> tuple[int, int, int]:
    """This rank's first word, one past its last, and the rows of a shard (the last ranks' end in padding)."""
    rows = -(-vocab // layout.size("tensor"))
    first = min(layout.rank("tensor") * rows, vocab)
    return first, min(first + rows, vocab), rows


class VocabularyParallelEmbedding(nn.Module):
    """E[token] with the rows of E [vocab, hidden] cut over the tensor ranks; one all-reduce forward.

    Args:
        embedding: the whole layer, the same on every rank; a shard of it is copied.
        layout: the ranks along its `tensor` axis share the layer.

    Any vocabulary fits: shards have ceil(vocab/n) rows, and rows beyond the vocabulary stay zeros. For a tied head use
    `vocabulary_parallel_logits(x, embedding.weight, layout)`: the weight's gradient is then the sum of both uses.

    Raises:
        ValueError: a token that is not in the vocabulary (before the all-reduce); an embedding with `padding_idx`,
            `max_norm` or `scale_grad_by_freq`.
    """

    CUT: ClassVar[Mapping[str, int]] = {"weight": 0}

    def __init__(self, embedding: nn.Embedding, layout: Layout) -> None:
        super().__init__()
        for name in ("padding_idx", "max_norm", "scale_grad_by_freq"):
            value = getattr(embedding, name)
            if value is not None and value is not False:  # a padding_idx of 0 is one
                raise ValueError(f"embedding: {name}={value!r}; must not be set")
        self.vocab, self._group = embedding.num_embeddings, layout.group("tensor")
        self._first, self._last, rows = _range(self.vocab, layout)
        self.whole_sizes = {"weight": self.vocab}  # the last shards end in padding
        shard = embedding.weight.new_zeros(rows, embedding.embedding_dim)
        shard[: self._last - self._first] = embedding.weight.detach()[self._first : self._last]
        self.weight = nn.Parameter(shard)

    def forward(self, tokens: Tensor) -> Tensor:
        """[...] tokens to [..., hidden], whole on every rank."""
        _check_labels("tokens", tokens, self.vocab, None)
        here = (tokens >= self._first) & (tokens < self._last)
        rows = nn.functional.embedding(torch.where(here, tokens - self._first, 0), self.weight)
        return reduce_from_ranks(rows * here[..., None], self._group)


def vocabulary_parallel_logits(x: Tensor, weight: Tensor, layout: Layout) -> Tensor:
    """x W_r^T: x [..., hidden] whole on every rank, to this rank's logits [..., ceil(vocab/n)]."""
    return nn.functional.linear(copy_to_ranks(x, layout.group("tensor")), weight)


def vocabulary_parallel_cross_entropy(
    logits: Tensor, labels: Tensor, vocab: int, layout: Layout, *, ignore_index: int = -100
) -> Tensor:
    """-log softmax(logits)[label] a token, from logits cut by the vocabulary; the same on every rank.

    Args:
        logits: this rank's [..., ceil(vocab/n)]; the columns beyond the vocabulary count for nothing.
        labels: [...], the same on every rank; `ignore_index` gives a loss of 0.
        vocab: the number of words.
        layout: the ranks along its `tensor` axis share the vocabulary.

    Returns:
        The losses [...], in fp32 for the 16-bit types: reduce them as you like.

    Raises:
        ValueError: another shape, dtype or label; raised before a collective.

    Communication: a maximum and two sums of a number a token, forward only.
    """
    check_count("vocab", vocab)
    first, last, rows = _range(vocab, layout)
    check_floating("logits", logits)
    if logits.shape != (*labels.shape, rows):
        wanted = [*labels.shape, rows]
        raise ValueError(f"logits: shape {list(logits.shape)}; must be [*labels.shape, ceil(vocab/n)] = {wanted}")
    _check_labels("labels", labels, vocab, ignore_index)
    losses: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits, labels, (first, last, ignore_index), layout.group("tensor")
    )
    return losses


def _check_labels(name: str, labels: Tensor, vocab: int, ignored: int | None) -> None:
    if labels.dtype != torch.int64:
        raise ValueError(f"{name}: dtype {labels.dtype}; must be torch.int64")
    wrong = (labels < 0) | (labels >= vocab)
    if ignored is not None:
        wrong &= labels != ignored
    if wrong.any():
        also = "" if ignored is None else f", or {ignored} where ignored"
        raise ValueError(f"{name}: {labels[wrong][0].item()}; must be 0 to {vocab - 1}{also}")


class _CrossEntropy(torch.autograd.Function):
    """Symbols as in `reference.py`; dZ_r = (exp(Z_r - M) / L - onehot_r) dloss."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, place: tuple[int, int, int], group: dist.ProcessGroup
    ) -> Tensor:
        first, last, ignored = place
        wide = torch.promote_types(logits.dtype, torch.float32)
        Z = logits[..., : last - first].to(wide)
        M = Z.amax(-1) if last > first else Z.new_full(labels.shape, -torch.inf)
        dist.all_reduce(M, dist.ReduceOp.MAX, group=group)
        P = torch.exp(Z - M[..., None])
        L = P.sum(-1)
        here = (labels >= first) & (labels < last)
        column = torch.where(here, labels - first, 0)
        z = torch.zeros_like(L) if last == first else torch.where(here, Z.gather(-1, column[..., None])[..., 0], 0.0)
        both = torch.stack([L, z])
        dist.all_reduce(both, group=group)
        L, z = both
        kept = labels != ignored
        ctx.save_for_backward(P.div_(L[..., None]), column, here, kept)
        ctx.shape, ctx.dtype = logits.shape, logits.dtype
        return torch.where(kept, M + torch.log(L) - z, 0.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        P, column, here, kept = ctx.saved_tensors
        dZ = P.clone()
        if dZ.shape[-1]:
            dZ.scatter_add_(-1, column[..., None], -here[..., None].to(dZ.dtype))
        dZ *= (gradients[0] * kept)[..., None]
        whole = dZ.new_zeros(ctx.shape, dtype=ctx.dtype)
        whole[..., : dZ.shape[-1]] = dZ
        return whole, None, None, None
