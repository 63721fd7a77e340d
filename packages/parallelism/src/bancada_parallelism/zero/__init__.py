"""ZeRO (arXiv 1910.02054): optimizer states, gradients and parameters sharded over the data ranks."""

from bancada_parallelism.zero.adamw import AdamWConfig, adamw_reference
from bancada_parallelism.zero.bytes import ModelState, zero_sent_elements, zero_state_bytes
from bancada_parallelism.zero.stage1 import ZeroStage1
from bancada_parallelism.zero.stage2 import ZeroStage2
from bancada_parallelism.zero.stage3 import ZeroStage3

__all__ = [
    "AdamWConfig",
    "ModelState",
    "ZeroStage1",
    "ZeroStage2",
    "ZeroStage3",
    "adamw_reference",
    "zero_sent_elements",
    "zero_state_bytes",
]
