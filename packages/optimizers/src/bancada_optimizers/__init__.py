"""Optimizers for Transformers: each rule a short reference beside its fast version, tested against float64."""

from bancada_optimizers._base import state_bytes
from bancada_optimizers.accumulation import accumulate, count_labels, windows
from bancada_optimizers.adamw import AdamW, adamw_step
from bancada_optimizers.adamw8bit import AdamW8bit, dequantize_blockwise, dynamic_map, quantize_blockwise
from bancada_optimizers.clipping import Clipped, NonFiniteGradientError, clip_gradients
from bancada_optimizers.groups import decay_groups
from bancada_optimizers.lion import Lion, lion_step
from bancada_optimizers.muon import Muon, muon_groups, muon_step, newton_schulz
from bancada_optimizers.scaling import DynamicLossScaler
from bancada_optimizers.schedules import Constant, Cosine, InverseSqrt, Linear, Scheduler, WarmupStableDecay
from bancada_optimizers.sgd import SGD, sgd_step

__all__ = [
    "SGD",
    "AdamW",
    "AdamW8bit",
    "Clipped",
    "Constant",
    "Cosine",
    "DynamicLossScaler",
    "InverseSqrt",
    "Linear",
    "Lion",
    "Muon",
    "NonFiniteGradientError",
    "Scheduler",
    "WarmupStableDecay",
    "__version__",
    "accumulate",
    "adamw_step",
    "clip_gradients",
    "count_labels",
    "decay_groups",
    "dequantize_blockwise",
    "dynamic_map",
    "lion_step",
    "muon_groups",
    "muon_step",
    "newton_schulz",
    "quantize_blockwise",
    "sgd_step",
    "state_bytes",
    "windows",
]

__version__ = "0.1.0"
