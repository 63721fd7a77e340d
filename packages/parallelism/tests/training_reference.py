"""Five steps of one process over the batches of all ranks."""

from __future__ import annotations

import functools

import jobs_training as jobs
import torch
from parallel_model import decoder, loss_sum

from bancada_parallelism import average_gradients


@functools.cache
def five_steps(ranks: int, dtype: torch.dtype, uneven: bool) -> tuple[jobs.Steps, dict[str, torch.Tensor]]:
    module = decoder(dtype)
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    c = jobs.CONFIG
    optimizer = torch.optim.AdamW(named.values(), c.lr, c.betas, c.eps, c.weight_decay)
    told: jobs.Steps = []
    for step in range(5):
        data = [micro for rank in range(ranks) for micro in jobs.micro_batches(rank, step, uneven)]
        loss, gradients = average_gradients(module, loss_sum, data)
        for name, p in named.items():
            p.grad = gradients[name].clone()
        optimizer.step()
        told.append((loss.item(), gradients))
    return told, {name: p.detach().clone() for name, p in module.named_parameters()}
