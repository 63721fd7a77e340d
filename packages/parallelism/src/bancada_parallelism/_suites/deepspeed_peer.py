"""DeepSpeed's ZeRO, stages 0 to 3, around torch's AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from bancada.suite import Case, Device
from bancada_parallelism._suites import decoder
from bancada_parallelism._suites.engine import Engine
from bancada_parallelism.data.data_parallel import DEFAULT_BUCKET_BYTES

_BUCKET = DEFAULT_BUCKET_BYTES // 4


def supports(case: Case, device: Device) -> str | None:
    """None where DeepSpeed has the dtype."""
    return None if case.word("dtype") == "fp32" else f"DeepSpeed trains in fp32, bf16 and fp16, not in {case['dtype']}"


class DeepSpeed(Engine):
    """One engine of DeepSpeed's."""

    def __init__(self, *args: Any, stage: int, **options: Any) -> None:
        self._stage = stage
        super().__init__(*args, **options)

    def start(self) -> None:
        """`deepspeed.initialize` over the process group that is up."""
        import deepspeed  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self.loss_share = 1 / self.ranks.world_size
        deepspeed.init_distributed(dist_backend=self.ranks.backend, dist_init_required=False, verbose=False)
        model = decoder.part(self.case, self.given, around=self.around)
        config = {
            "train_micro_batch_size_per_gpu": self.case.number("batch") // self.ranks.world_size,
            "zero_optimization": {
                "stage": self._stage,
                # As the others: buckets of 25 MiB, where the defaults hold 2 GB, and no parameter whole at stage 3.
                "reduce_bucket_size": _BUCKET,
                "allgather_bucket_size": _BUCKET,
                "stage3_param_persistence_threshold": 0,
            },
            "zero_force_ds_cpu_optimizer": False,
            "zero_allow_untested_optimizer": True,
            "gradient_clipping": 0.0,
            "steps_per_print": 1 << 30,
        }
        optimizer = torch.optim.AdamW(model.parameters(), **decoder.ADAMW)
        self._engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def update(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """One step of the engine, which forgets the gradients at its end."""
        rank, ranks = self.ranks.rank, self.ranks.world_size
        loss: Tensor = decoder.loss(self._engine(tokens.chunk(ranks)[rank]), labels.chunk(ranks)[rank])
        self._engine.backward(loss)
        self._engine.step()
        return loss.detach()

    def moments(self) -> dict[str, Tensor]:
        """By DeepSpeed's own functions, which gather."""
        from deepspeed.utils import safe_get_full_optimizer_state  # type: ignore[import-not-found, import-untyped, unused-ignore]

        named = dict(self._engine.module.named_parameters())
        if self._stage == 0:
            return {name: self._engine.optimizer.state[p]["exp_avg"] for name, p in named.items()}
        return {name: safe_get_full_optimizer_state(p, "exp_avg") for name, p in named.items()}

    def parameters(self) -> dict[str, Tensor]:
        """By DeepSpeed's own functions, which gather."""
        from deepspeed.utils import safe_get_full_fp32_param

        named = dict(self._engine.module.named_parameters())
        if self._stage == 0:
            return {name: p.detach() for name, p in named.items()}
        return {name: safe_get_full_fp32_param(p) for name, p in named.items()}

    def state_bytes(self) -> dict[str, int]:
        """Parameters and states that the engine holds; a flat buffer and its views count once."""
        optimizer = self._engine.optimizer
        inner = getattr(optimizer, "optimizer", optimizer)
        states = [v for state in inner.state.values() for v in state.values() if isinstance(v, Tensor) and v.dim()]
        parameters = list(self._engine.module.parameters())
        shards = [p.ds_tensor for p in parameters if hasattr(p, "ds_tensor")]  # stage 3 leaves the parameters empty
        flat = [*_flat(optimizer), *getattr(optimizer, "fp32_partitioned_groups_flat", [])]
        gradients = [p.grad for p in parameters if p.grad is not None]
        if isinstance(buffer := getattr(optimizer, "grad_partitions_flat_buffer", None), Tensor):
            gradients.append(buffer)
        return {
            "parameters": _storages([*parameters, *shards, *flat]),
            "gradients": _storages(gradients),
            "optimizer": _storages(states),
        }

    def restart(self) -> None:
        """A new engine."""
        self._engine.destroy()
        self.start()

    def close(self) -> None:
        """Ends the engine."""
        self._engine.destroy()
        super().close()


def _flat(optimizer: Any) -> list[Tensor]:
    """The flat parameters that a stage's optimizer steps."""
    return [p for group in optimizer.param_groups for p in group["params"] if isinstance(p, Tensor)]


def _storages(tensors: Iterable[Tensor]) -> int:
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(held.values())
