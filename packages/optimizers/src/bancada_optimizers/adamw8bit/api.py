"""AdamW with 8-bit states as an optimizer class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bancada_optimizers import _check
from bancada_optimizers._base import BaseOptimizer, Group, zeros
from bancada_optimizers.adamw.api import adamw_update, check_adamw, tensors
from bancada_optimizers.adamw.foreach import Rule
from bancada_optimizers.adamw8bit import native
from bancada_optimizers.adamw8bit.blockwise import tables
from bancada_optimizers.adamw8bit.native import native_adamw8bit
from bancada_optimizers.adamw8bit.reference import BLOCK
from bancada_optimizers.adamw8bit.table import table_adamw8bit

BACKENDS = ("auto", "table", "native")


class AdamW8bit(BaseOptimizer):
    """AdamW whose moments are kept as 8-bit codes in blocks of 256, each with a scale of its own.

    m, v <- dequantised; AdamW's update; m, v -> the nearest codes of the dynamic map (signed, unsigned)

    State: `exp_avg` and `exp_avg_sq` as codes with `exp_avg_scale` and `exp_avg_sq_scale`: 2 + 8/256 = 2.03 bytes a
    parameter; AdamW's own below `min_8bit_size` elements. The step is computed in fp32, and uses the moments from
    before they are rounded. A NaN in a gradient makes its block of 256 NaN, where AdamW loses one element.

    A second moment above 0 is never rounded to 0 but to the smallest code. The nearest often is 0 where a block's
    gradients lie three decades apart, and under a first moment that is not 0 it makes the next step lr m / eps.

    Args:
        params: parameters, or groups of them.
        lr: the rate, at least 0.
        betas: decay rates of the moments, each in [0, 1).
        eps: added to the root, above 0.
        weight_decay: decoupled, at least 0.
        min_8bit_size: parameters with fewer elements keep AdamW's states; at least 0.
        backend: "table" looks codes up by torch's operators; "native" computes them in one loop in C++ on a CPU, for
            which the first step calls a compiler, a second or two. "auto" is native for parameters on a CPU where a
            compiler is found, and table otherwise.

    Raises:
        ValueError: an option out of range, a complex or integer parameter, a backend that cannot run here.

    Paper: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv 2110.02861.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        min_8bit_size: int = 4096,
        backend: str = "auto",
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "min_8bit_size": min_8bit_size,
            "backend": backend,
        }
        super().__init__(params, defaults)

    def check_group(self, group: Mapping[str, Any]) -> None:
        """ValueError where an option of a group is wrong."""
        check_adamw(group)
        _check.whole("min_8bit_size", group["min_8bit_size"])
        _check.choice("backend", group["backend"], BACKENDS)
        if group["backend"] == "native" and (reason := native.unusable()) is not None:
            raise ValueError(f"backend='native': {reason}; allowed here are {', '.join(BACKENDS[:-1])}")

    def check_params(self, group: Group) -> None:
        """ValueError where a parameter cannot be stepped, or not by the backend that was asked for."""
        super().check_params(group)
        if group["backend"] == "native":
            for reason in filter(None, map(native.refusal, tensors(group["params"]))):
                raise ValueError(f"backend='native': {reason}; allowed there are auto, table")

    def init_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """Step 0, and codes of zero with scales of zero."""
        if p.numel() < group["min_8bit_size"]:
            return {"step": torch.tensor(0.0), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}
        state: dict[str, Any] = {"step": torch.tensor(0.0)}
        blocks = -(-p.numel() // BLOCK)
        for name, signed in (("exp_avg", True), ("exp_avg_sq", False)):
            zero = tables(signed, p.device).zero
            state[name] = torch.full((p.numel(),), zero, dtype=torch.uint8, device=p.device)
            state[f"{name}_scale"] = torch.zeros(blocks, dtype=torch.float32, device=p.device)
        return state

    def update(self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[dict[str, Any]]) -> None:
        """Steps the parameters of a group that have a gradient."""
        whole = [i for i, state in enumerate(states) if "exp_avg_scale" not in state]
        if whole:
            plain = {**group, "backend": "auto"}
            adamw_update(plain, [params[i] for i in whole], [grads[i] for i in whole], [states[i] for i in whole])
        rule = Rule(group["lr"], (group["betas"][0], group["betas"][1]), group["eps"], group["weight_decay"])
        for p, g, state in zip(params, grads, states, strict=True):
            if "exp_avg_scale" in state:
                state["step"] += 1
                # Codes lie in the order of the flattened parameter, whatever its strides.
                flat = p.reshape(-1).contiguous()  # itself, or a copy that is put back
                step = native_adamw8bit if _natively(group["backend"], p) else table_adamw8bit
                step(flat, g.reshape(-1).contiguous(), state, int(state["step"]), rule)
                if not p.is_contiguous():
                    p.copy_(flat.view(p.shape))


def _natively(backend: str, p: Tensor) -> bool:
    if backend != "auto":
        return backend == "native"
    return native.refusal(p) is None and not torch.compiler.is_compiling() and native.ready()
