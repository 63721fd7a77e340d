"""Every optimizer of the package with what its tests need: how it is made, and its reference stepping by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import SGD, AdamW, AdamW8bit, Lion, Muon, adamw_step, lion_step, muon_step, sgd_step
from bancada_optimizers.adamw8bit import native

LR, WD = 0.01, 0.1


class Reference:
    """One parameter stepped by the reference in the dtype of `p`; None in place of a gradient is a gap."""

    def __init__(self, rule: str, p: Tensor, options: dict[str, Any]) -> None:
        self.rule, self.p, self.options, self.t = rule, p.clone(), options, 0
        self.m, self.v = torch.zeros_like(p), torch.zeros_like(p)

    def step(self, g: Tensor | None) -> None:
        if g is None:
            return
        self.t += 1
        g = g.to(self.p.dtype)
        if self.rule == "adamw":
            self.p, self.m, self.v = adamw_step(self.p, g, self.m, self.v, self.t, **self.options)
        elif self.rule == "sgd":
            self.p, self.m = sgd_step(self.p, g, self.m, **self.options)
        elif self.rule == "lion":
            self.p, self.m = lion_step(self.p, g, self.m, **self.options)
        else:
            self.p, self.m = muon_step(self.p, g, self.m, **self.options)


@dataclass(frozen=True)
class Case:
    """An optimizer with options, and the rule that is its reference."""

    name: str
    make: Callable[..., torch.optim.Optimizer]
    rule: str
    options: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    matrices: bool = False

    def optimizer(self, params: Any) -> Any:
        return self.make(params, lr=LR, weight_decay=WD, **self.options, **self.extra)

    def reference(self, p: Tensor) -> Reference:
        options = {"lr": LR, "weight_decay": WD, **self.options}
        return Reference(self.rule, p, options)


CASES = (
    *(Case(f"adamw-{b}", AdamW, "adamw", extra={"backend": b}) for b in ("auto", "for-loop", "foreach", "fused")),
    *(
        Case(f"sgd-{b}", SGD, "sgd", {"momentum": 0.9, "nesterov": True}, {"backend": b})
        for b in ("auto", "for-loop", "foreach", "fused")
    ),
    Case("sgd-heavy-ball", SGD, "sgd", {"momentum": 0.8}),
    *(Case(f"sgd-plain-{b}", SGD, "sgd", extra={"backend": b}) for b in ("for-loop", "foreach", "fused")),
    *(Case(f"lion-{b}", Lion, "lion", extra={"backend": b}) for b in ("for-loop", "foreach")),
    Case("muon", Muon, "muon", matrices=True),
    Case("muon-plain-original", Muon, "muon", {"nesterov": False, "scale": "original"}, matrices=True),
    Case("adamw8bit-small", AdamW8bit, "adamw", {"betas": (0.8, 0.95)}, {"min_8bit_size": 1 << 20}),
)
BLOCKWISE = Case("adamw8bit-table", AdamW8bit, "adamw", extra={"min_8bit_size": 0, "backend": "table"})
NATIVE = Case("adamw8bit-native", AdamW8bit, "adamw", extra={"min_8bit_size": 0, "backend": "native"})
WITHOUT_COMPILER = native.unusable()
