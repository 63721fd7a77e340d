"""Parameter-efficient fine-tuning: the LoRA family, factors, prompts, adapters, freezing; merging; HF peft's files."""

from bancada_peft.adapting import active_adapter, adapt, adapters_of, delete_adapter, disabled, use_adapter
from bancada_peft.bottleneck import Bottleneck
from bancada_peft.checkpoint import load_adapter, save_adapter
from bancada_peft.dora import Dora
from bancada_peft.freezing import train_only, train_upper_layers
from bancada_peft.ia3 import Ia3
from bancada_peft.lora import Lora
from bancada_peft.merging import merge, unmerge
from bancada_peft.prompt import PromptTuning
from bancada_peft.retention import Forgetting, Interval, forgetting
from bancada_peft.summary import TrainableSummary, trainable_summary

__all__ = [
    "Bottleneck",
    "Dora",
    "Forgetting",
    "Ia3",
    "Interval",
    "Lora",
    "PromptTuning",
    "TrainableSummary",
    "__version__",
    "active_adapter",
    "adapt",
    "adapters_of",
    "delete_adapter",
    "disabled",
    "forgetting",
    "load_adapter",
    "merge",
    "save_adapter",
    "train_only",
    "train_upper_layers",
    "trainable_summary",
    "unmerge",
    "use_adapter",
]

__version__ = "0.1.0"
