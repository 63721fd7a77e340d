"""Workloads: real texts, images and models for training runs, without a network.

Four functions make a task (see `task.Task`): a model, batches that depend on seed and update alone, a loss and an
evaluation on parts that nothing leaks into.

    causal_lm       next token, on the King James Version or on Python's documentation; tiny Llama (trained), GPT-2
    masked_lm       hidden tokens, on the same; BERT
    verse_to_book   a verse's book; MiniLM (pretrained) or BERT
    digits          a picture's digit; ViT or a small perceptron

What they need beyond the harness is in the extra `bancada[workloads]`, and is imported when a task is made.
"""

from bancada.workloads.classification import verse_to_book
from bancada.workloads.images import digits
from bancada.workloads.language import causal_lm, masked_lm
from bancada.workloads.task import Task

__all__ = ["Task", "causal_lm", "digits", "masked_lm", "verse_to_book"]
