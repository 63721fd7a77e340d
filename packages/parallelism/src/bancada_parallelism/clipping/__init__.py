"""The norm of all gradients of a model that lies in parts on many ranks, and clipping to it."""

from bancada_parallelism.clipping.clip import clip_grad_norm, counted_parameters, grad_norm

__all__ = ["clip_grad_norm", "counted_parameters", "grad_norm"]
