"""Distillation: a smaller student of a model's own layers, and the loss that makes it follow its teacher."""

from bancada_compression.distillation.loss import soft_target_loss
from bancada_compression.distillation.student import student_of

__all__ = ["soft_target_loss", "student_of"]
