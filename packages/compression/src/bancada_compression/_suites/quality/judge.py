"""What a compressed model is judged by, and what is measured of it.

Judged: what it puts out, against a float64 forward of the same model with the weights that it says it has. So it is no
matter of taste how far a compressed model may be from the original (that is what is measured), but its arithmetic must
be right: a layer left as it was, a scale forgotten or a stored result is far outside.

The distance is given as a share of what rounding may make, and 1 is allowed:

* 2 r + 8 eps a, where r is the largest error that the uncompressed model makes in float32 on the same inputs, and a the
  largest number put out: the rule for low precision that the project has everywhere.
* For models that round the inputs of their layers too (W8A8), twice the largest effect of such rounding in float64 is
  added: which of two neighbours a number near the middle goes to is chance, and one such choice changes the next
  layer's inputs, so that two right computations differ by as much as each does from the one without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bancada.suite import Tensors

EPSILONS = 8.0
MOST_DECIBELS = 200.0
"""What a weight that lost nothing is said to have: beyond what fp32 can show, and finite, as a row's number must be."""
DENSE, ROUNDING = "dense", "rounding"
"""Inputs that no model is given: what the uncompressed model puts out in float32, and its error against float64."""


class Outputs(Mapping[str, Tensor]):
    """Outputs that are worked out when somebody looks at them: a timed call is the forward alone."""

    def __init__(self, make: Callable[[], Mapping[str, Tensor]]) -> None:
        self._make = cache(make)

    def __getitem__(self, name: str) -> Tensor:
        return self._make()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make())

    def __len__(self) -> int:
        return len(self._make())


def weight_of(layer: nn.Module) -> Tensor:
    """The matrix [out, in] that a layer multiplies by, whichever library keeps it in whatever form."""
    weight: Any = layer.weight
    if (state := getattr(weight, "quant_state", None)) is not None:
        import bitsandbytes.functional as functional  # type: ignore[import-not-found, import-untyped, unused-ignore]

        found: Tensor = functional.dequantize_4bit(weight.data, state)
        return found.detach()
    if hasattr(weight, "tensor_data_names"):
        weight = weight.dequantize()
    assert isinstance(weight, Tensor)
    return weight.detach()


def stored_bytes(model: nn.Module) -> int:
    """Bytes of everything a model keeps: parameters and buffers, each once, and the parts of libraries' own tensors."""
    return sum(part.nbytes for kept in (*model.parameters(), *model.buffers()) for part in _parts(kept))


def _parts(kept: Any) -> list[Tensor]:
    if (state := getattr(kept, "quant_state", None)) is not None:
        nested = [state.offset, state.state2.absmax] if state.nested else []
        return [kept.data, state.absmax, *nested]
    names = [*getattr(kept, "tensor_data_names", ()), *getattr(kept, "optional_tensor_data_names", ())]
    parts = [getattr(kept, name) for name in names] if names else [kept]
    return [part for part in parts if isinstance(part, Tensor)]


def with_weights(plain: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """`plain` in float64 with other weights in its linear layers; its root-mean-square norms no longer in float32."""
    plain = plain.double()
    for name, weight in weights.items():
        plain.get_submodule(name).weight = nn.Parameter(weight.double(), requires_grad=False)
    for parent in list(plain.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__.endswith("RMSNorm"):  # transformers' sums in float32 whatever it is given
                norm = nn.RMSNorm(child.get_parameter("weight").shape, eps=_epsilon(child), dtype=torch.float64)
                norm.weight = nn.Parameter(child.get_parameter("weight"), requires_grad=False)
                setattr(parent, name, norm)
    return plain.eval()


def _epsilon(norm: Any) -> float:
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


def rounding_inputs(model: nn.Module, layers: tuple[str, ...]) -> nn.Module:
    """The model with the inputs of those layers rounded row by row to 127 steps each side, in the inputs' dtype."""

    def round_rows(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0]
        step = x.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
        return ((x / step).round() * step, *args[1:])

    for name in layers:
        model.get_submodule(name).register_forward_pre_hook(round_rows)
    return model


def share_of_allowed(out: Tensor, own: Tensor, rounding: Tensor, activations: Tensor | None) -> Tensor:
    """(out - own) / allowed: see the top of this file; `activations` is `own` with inputs rounded, or None."""
    allowed = 2 * float(rounding) + EPSILONS * torch.finfo(out.dtype).eps * float(own.abs().max())
    if activations is not None:
        allowed += 2 * float((activations - own).abs().max())
    return (out.double() - own) / allowed


def decibels(signal: Tensor | float, noise: Tensor | float) -> float:
    """10 log10(signal / noise) of two sums of squares, at most 200."""
    signal, noise = float(signal), float(noise)
    return MOST_DECIBELS if noise == 0 else min(MOST_DECIBELS, 10 * math.log10(max(signal, 1e-300) / noise))


def weights_decibels(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    """Signal to noise of all compressed weights together."""
    noise = sum(float((after[name].double() - weight.double()).square().sum()) for name, weight in before.items())
    return decibels(sum(float(weight.double().square().sum()) for weight in before.values()), noise)


def measures_of_outputs(out: Tensor, inputs: Tensors) -> dict[str, float]:
    """What is measured of any output: its signal to noise against the uncompressed model's."""
    dense = inputs[DENSE].double()
    return {"output_sqnr_db": decibels(dense.square().sum(), (out.double() - dense).square().sum())}


def divergence(out: Tensor, dense: Tensor) -> float:
    """KL(p || q) in nats, the mean over rows: p = softmax(dense), q = softmax(out), summed in float64."""
    log_p, log_q = (torch.log_softmax(logits.double(), dim=-1) for logits in (dense, out))
    return float((log_p.exp() * (log_p - log_q)).sum(-1).mean())
