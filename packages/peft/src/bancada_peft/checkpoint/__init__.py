"""Files of adapters."""

from bancada_peft.checkpoint.files import load_adapter, save_adapter

__all__ = ["load_adapter", "save_adapter"]
