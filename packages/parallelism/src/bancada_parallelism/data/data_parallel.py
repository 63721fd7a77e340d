"""Data parallelism: a module's gradients, averaged over the data ranks in buckets while backward still runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism._check import FLOATING, check_count
from bancada_parallelism._same import broadcast_module
from bancada_parallelism.data.buckets import Named, assign_buckets
from bancada_parallelism.layout import Layout

DEFAULT_BUCKET_BYTES = 25 << 20  # DDP's: large enough to fill a link, small enough to start early


class _Bucket:
    def __init__(self, named: Named) -> None:
        self.parameters = list(named.values())
        self.ready: set[nn.Parameter] = set()
        self.flat: Tensor | None = None
        self.work: dist.Work | None = None

    def launch(self, group: dist.ProcessGroup, dtype: torch.dtype | None) -> None:
        """Start the sum; a parameter without a gradient here adds zeros."""
        pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.flat = torch.cat([piece.flatten() for piece in pieces]).to(dtype or pieces[0].dtype)
        self.work = dist.all_reduce(self.flat, group=group, async_op=True)

    def finish(self, ranks: int) -> None:
        """Wait; gradients are then views of the bucket, which goes away with them."""
        assert self.flat is not None and self.work is not None
        self.work.wait()
        self.flat.div_(ranks)
        sizes = [p.numel() for p in self.parameters]
        for p, mean in zip(self.parameters, torch.split(self.flat, sizes), strict=True):
            p.grad = mean.view(p.shape).to(p.dtype)
        self.flat = self.work = None
        self.ready.clear()


class DataParallel(nn.Module):
    """Every data rank has the whole module and its own batch; `p.grad` becomes (1/n) sum_r grad_r(p).

    Args:
        module: its parameters and buffers are set to those of the first data rank.
        layout: the ranks along its `data` axis take part.
        bucket_bytes: about how much is reduced at once.
        reduce_dtype: the dtype gradients are summed in (`torch.float32` for bf16 gradients); their own where None.

    Raises:
        ValueError: the modules of the ranks differ (on every rank), nothing is trainable, or a wrong argument.

    A step::

        with parallel.no_sync():                             # all micro-batches but the last
            (loss_sum(parallel(x0)) / tokens).backward()
        (loss_sum(parallel(x1)) / tokens).backward()         # buckets are reduced as they fill
        parallel.finish()                                    # what is left, and the wait

    With `tokens = parallel.mean_tokens(n)`, n the valid tokens of this rank's whole step, that is the gradient of the
    mean over all tokens of all ranks, however uneven. A rank that has no batch calls `mean_tokens(0)` and `finish()`.
    A parameter that no rank used gets a gradient of zeros. Without `zero_grad`, gradients add up as in one process,
    whether or not earlier micro-batches were reduced. Buffers are never exchanged after the start.

    Paper: Li et al., PyTorch Distributed, arXiv 2006.15704.
    """

    def __init__(
        self,
        module: nn.Module,
        layout: Layout,
        *,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        reduce_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if reduce_dtype is not None and reduce_dtype not in FLOATING:
            raise ValueError(f"reduce_dtype={reduce_dtype}: allowed are None, {', '.join(map(str, FLOATING))}")
        buckets = assign_buckets(dict(module.named_parameters()), bucket_bytes)
        if not buckets:
            raise ValueError("module: no parameter requires a gradient")
        self.module = module
        self._group, self._ranks = layout.group("data"), layout.size("data")
        broadcast_module(module, self._group)
        self._dtype = reduce_dtype
        self._buckets = [_Bucket(named) for named in buckets]
        self._launched = 0
        self._sync = True
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(self._hook(bucket))  # type: ignore[no-untyped-call]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own forward."""
        return self.module(*args, **kwargs)

    def mean_tokens(self, tokens: int) -> float:
        """The mean over ranks of `tokens`, the divisor of a sum of losses; a collective of one number.

        Raises:
            ValueError: `tokens` is negative (before the collective), or no rank has any (on every rank).
        """
        total = torch.tensor([check_count("tokens", tokens, 0)], dtype=torch.int64, device=self._device())
        dist.all_reduce(total, group=self._group)
        if not total.item():
            raise ValueError("tokens=0 on every rank: at least one token is needed")
        return total.item() / self._ranks

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward inside only adds to this rank's gradients; nothing is sent."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def finish(self) -> None:
        """Reduces what backward did not, in the same order on every rank, and waits; a collective.

        Raises:
            RuntimeError: inside `no_sync`.
        """
        if not self._sync:
            raise RuntimeError("finish() inside no_sync(): call it after the last backward, outside")
        self._launch(everything=True)
        for bucket in self._buckets:
            bucket.finish(self._ranks)
        self._launched = 0

    def _device(self) -> torch.device:
        return self._buckets[0].parameters[0].device

    def _hook(self, bucket: _Bucket) -> Any:
        def ready(parameter: Tensor) -> None:
            if not self._sync:
                return
            assert isinstance(parameter, nn.Parameter)
            if bucket.flat is not None:
                raise RuntimeError(
                    "backward ran again before finish(): call finish() after it, or wrap all but the last in no_sync()"
                )
            bucket.ready.add(parameter)
            self._launch(everything=False)

        return ready

    def _launch(self, everything: bool) -> None:
        # In the order of the list only: ranks whose gradients come in another order would pair wrong buckets.
        while self._launched < len(self._buckets):
            bucket = self._buckets[self._launched]
            if not everything and len(bucket.ready) < len(bucket.parameters):
                return
            bucket.launch(self._group, self._dtype)
            self._launched += 1
