"""Who races: ours, torch.optim, bitsandbytes, torchao, pytorch_optimizer. Each is imported only when it is built."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bancada.suite import Case, Contender, Device, Origin, Run, Tensors
from bancada.supports import compiler
from bancada_optimizers._suites import problem
from bancada_optimizers._suites.peers import (
    ADAMW,
    LION,
    SGD,
    Params,
    bitsandbytes,
    matrices_apart,
    muon_of_pytorch_optimizer,
    pytorch_optimizer,
    torch_optim,
    torchao,
)
from bancada_optimizers._suites.problem import ADAMW_BETAS, EPS, LR, MUON_MOMENTUM, WEIGHT_DECAY

Supports = Callable[[Case, Device], str | None]


@dataclass(frozen=True)
class Way:
    """A way of stepping: a contender of both suites."""

    id: str
    rules: tuple[str, ...]
    origin: Origin
    label: str
    make: Callable[..., list[torch.optim.Optimizer]]
    backend: str
    limits: Supports = lambda case, device: None
    precision: str = "inputs' dtype"
    requires: tuple[str, ...] = ()
    reference: bool = False
    compiles: bool = False

    def step(self) -> Contender:
        """This way in `optimizers.step`."""
        supports = functools.partial(_supports, self.rules, self.limits)
        return self._contender(_StepOf(self.make), supports, {"rule": self.rules})

    def state(self) -> Contender:
        """This way in `optimizers.state`."""
        return self._contender(functools.partial(_state, self.make, self.rules[0]), self.limits, {})

    def _contender(
        self, build: Callable[[Case, Tensors], Run], supports: Supports, only: Mapping[str, tuple[str, ...]]
    ) -> Contender:
        return Contender(
            id=self.id, technique=self.rules[0], origin=self.origin, build=build, requires=self.requires,
            supports=supports, label=self.label, reference=self.reference, precision=self.precision,
            backend=self.backend, compiles=self.compiles, only=only,
        )  # fmt: skip


class Step:
    """One update a call, of parameters that have taken two before; `reset` takes them back there."""

    def __init__(self, make: Callable[..., list[torch.optim.Optimizer]], case: Case, inputs: Tensors) -> None:
        self.make, self.case, self.inputs = make, case, inputs
        self.flat, self.gradient = torch.empty_like(inputs["p"]), torch.empty_like(inputs["p"])
        self.params = [torch.nn.Parameter(view) for view in problem.views(case, self.flat)]
        self.reset()

    def reset(self) -> None:
        """New optimizers, two updates on, and the gradient of the third in place."""
        self.flat.copy_(self.inputs["p"])
        self.optimizers = self.make(self.params, self.case.word("rule"))
        first, second, third = problem.GRADIENTS
        self._feed(first)
        self()
        self._feed(second)
        self()
        self._feed(third)

    def _feed(self, name: str) -> None:
        self.gradient.copy_(self.inputs[name])  # some libraries write into gradients
        for p, g in zip(self.params, problem.views(self.case, self.gradient), strict=True):
            p.grad = g

    def __call__(self) -> dict[str, Tensor]:
        """One update; the parameters, flat."""
        for optimizer in self.optimizers:
            optimizer.step()
        return {"p": self.flat}


@dataclass(frozen=True)
class _StepOf:
    make: Callable[..., list[torch.optim.Optimizer]]

    def __call__(self, case: Case, inputs: Tensors) -> Run:
        return Step(self.make, case, inputs)


def _state(make: Callable[..., list[torch.optim.Optimizer]], rule: str, case: Case, inputs: Tensors) -> Run:
    flat = torch.zeros_like(inputs["g"])
    params = [torch.nn.Parameter(view) for view in problem.views(case, flat)]

    gradient = torch.empty_like(inputs["g"])
    for p, g in zip(params, problem.views(case, gradient), strict=True):
        p.grad = g

    def run() -> dict[str, Tensor]:
        from bancada_optimizers import state_bytes

        flat.zero_()
        gradient.copy_(inputs["g"])  # some libraries write into gradients
        optimizers = make(params, rule)
        for optimizer in optimizers:
            optimizer.step()
        held = float(sum(state_bytes(optimizer) for optimizer in optimizers))
        return {
            "moved": (flat != 0).double().mean(),
            "measure.state_bytes": torch.tensor(held, dtype=torch.float64),
            "measure.bytes_per_parameter": torch.tensor(held / flat.numel(), dtype=torch.float64),
        }

    return run


def _supports(rules: tuple[str, ...], limits: Supports, case: Case, device: Device) -> str | None:
    rule = case.word("rule")
    if rule not in rules:
        return f"rule={rule}: this is {' or '.join(rules)}"
    return limits(case, device)


def _gpu(case: Case, device: Device) -> str | None:
    if device.type != "cuda":
        return "needs a CUDA GPU (Triton's interpreter is never timed)"
    if case.word("dtype") == "fp64":
        return "fp64: the kernel computes in fp32"
    return "triton is not installed" if importlib.util.find_spec("triton") is None else None


def _not_the_default(case: Case, device: Device) -> str | None:
    from bancada_optimizers.adamw8bit import native

    by_table = device.type != "cpu" or native.unusable() is not None
    return "here this is what the default goes by (adamw8bit)" if by_table else None


def _torchao_limits(case: Case, device: Device) -> str | None:
    if device.type == "cpu":
        return "torchao compiles a kernel for every shape: on a CPU minutes before a Transformer's first step"
    return _no_double(case, device) or compiler(case, device)


def _no_double(case: Case, device: Device) -> str | None:
    return "fp64: it computes in fp32" if case.word("dtype") == "fp64" else None


def _no_bf16_on_a_cpu(case: Case, device: Device) -> str | None:
    wrong = device.type == "cpu" and case.word("dtype") == "bf16"
    return "bf16: torch's fused SGD on a CPU leaves parts of its momentum unwritten (seen with 2.13)" if wrong else None


# Ours


def _ours(name: str, options: dict[str, Any], params: Params, rule: str) -> list[torch.optim.Optimizer]:
    import bancada_optimizers

    return [getattr(bancada_optimizers, name)(params, **options)]


def _muon(params: Params, rule: str) -> list[torch.optim.Optimizer]:
    import bancada_optimizers

    options: dict[str, Any] = {
        "lr": LR,
        "weight_decay": WEIGHT_DECAY,
        "momentum": MUON_MOMENTUM,
        "betas": ADAMW_BETAS,
        "eps": EPS,
    }
    return [bancada_optimizers.Muon(matrices_apart(params), **options)]


_HALF = "fp32 states for bf16"
_EIGHT = "8-bit states, computed in fp32"
_OURS = functools.partial(functools.partial, _ours)
_BNB = functools.partial(functools.partial, bitsandbytes)
_BNB_NEEDS: dict[str, Any] = {"requires": ("bitsandbytes",), "limits": _no_double, "precision": "computed in fp32"}


def _adamw(backend: str) -> Callable[..., list[torch.optim.Optimizer]]:
    return _OURS("AdamW", {**ADAMW, "backend": backend})


WAYS = (
    Way("torch-for-loop", ("adamw", "adamw-8bit", "sgd", "muon"), "peer", "torch.optim, for-loop",
        functools.partial(torch_optim, {"foreach": False}), "torch operators", reference=True),
    Way("adamw-torch-foreach", ("adamw",), "peer", "torch AdamW, foreach",
        functools.partial(torch_optim, {"foreach": True}), "torch._foreach operators"),
    Way("adamw-torch-fused", ("adamw", "adamw-8bit"), "peer", "torch AdamW, fused",
        functools.partial(torch_optim, {"fused": True}), "one operator"),
    Way("adamw", ("adamw",), "bancada", "AdamW (ours)", _adamw("auto"),
        "torch's fused operator on a CPU, Triton on a GPU", precision=_HALF),
    Way("adamw-for-loop", ("adamw",), "bancada", "AdamW, reference (ours)", _adamw("for-loop"), "torch operators",
        precision=_HALF),
    Way("adamw-foreach", ("adamw",), "bancada", "AdamW, foreach (ours)", _adamw("foreach"),
        "torch._foreach operators", precision=_HALF),
    Way("adamw-compiled", ("adamw",), "bancada", "AdamW, compiled (ours)", _adamw("compiled"),
        "torch.compile, Inductor", limits=compiler, precision=_HALF, compiles=True),
    Way("adamw-triton", ("adamw",), "bancada", "AdamW, Triton (ours)", _adamw("triton"), "one Triton kernel",
        limits=_gpu, precision=_HALF, compiles=True),
    Way("adamw-bitsandbytes", ("adamw",), "peer", "bitsandbytes AdamW", _BNB("AdamW", ADAMW), "bitsandbytes",
        **_BNB_NEEDS),
    Way("adamw8bit", ("adamw-8bit",), "bancada", "AdamW 8-bit (ours)", _OURS("AdamW8bit", ADAMW),
        "a loop in C++ on a CPU that has a compiler, else torch operators and a table", precision=_EIGHT,
        compiles=True),
    Way("adamw8bit-table", ("adamw-8bit",), "bancada", "AdamW 8-bit, table (ours)",
        _OURS("AdamW8bit", {**ADAMW, "backend": "table"}), "torch operators and a table",
        limits=_not_the_default, precision=_EIGHT),
    Way("adamw8bit-torchao", ("adamw-8bit",), "peer", "torchao AdamW 8-bit", torchao, "torch.compile, Inductor",
        limits=_torchao_limits, precision=_EIGHT, requires=("torchao",), compiles=True),
    Way("adamw8bit-bitsandbytes", ("adamw-8bit",), "peer", "bitsandbytes AdamW 8-bit", _BNB("AdamW8bit", ADAMW),
        "bitsandbytes", **_BNB_NEEDS | {"precision": _EIGHT}),
    Way("sgd-torch-foreach", ("sgd",), "peer", "torch SGD, foreach", functools.partial(torch_optim, {"foreach": True}),
        "torch._foreach operators"),
    Way("sgd-torch-fused", ("sgd",), "peer", "torch SGD, fused", functools.partial(torch_optim, {"fused": True}),
        "one operator", limits=_no_bf16_on_a_cpu),
    Way("sgd", ("sgd",), "bancada", "SGD (ours)", _OURS("SGD", SGD),
        "torch's fused operator on a CPU, foreach on a GPU", precision=_HALF),
    Way("sgd-foreach", ("sgd",), "bancada", "SGD, foreach (ours)", _OURS("SGD", {**SGD, "backend": "foreach"}),
        "torch._foreach operators", precision=_HALF),
    Way("sgd-pytorch-optimizer", ("sgd",), "peer", "pytorch_optimizer SGDW, L2",
        functools.partial(pytorch_optimizer, "SGDW", {**SGD, "weight_decouple": False}), "torch operators",
        requires=("pytorch-optimizer",)),
    Way("lion", ("lion",), "bancada", "Lion (ours)", _OURS("Lion", LION), "torch._foreach operators",
        precision=_HALF),
    Way("lion-for-loop", ("lion",), "bancada", "Lion, reference (ours)",
        _OURS("Lion", {**LION, "backend": "for-loop"}), "torch operators", precision=_HALF),
    Way("lion-bitsandbytes", ("lion",), "peer", "bitsandbytes Lion", _BNB("Lion", LION), "bitsandbytes",
        **_BNB_NEEDS),
    Way("lion-pytorch-optimizer", ("lion",), "peer", "pytorch_optimizer Lion",
        functools.partial(pytorch_optimizer, "Lion", {**LION, "weight_decouple": True}), "torch operators",
        requires=("pytorch-optimizer",)),
    Way("muon", ("muon",), "bancada", "Muon (ours)", _muon, "torch operators",
        precision="Newton-Schulz in bf16 on a GPU, in the state's dtype on a CPU"),
    Way("muon-torch", ("muon",), "peer", "torch Muon", functools.partial(torch_optim, {"foreach": True}),
        "torch operators", precision="Newton-Schulz in bf16"),
    Way("muon-pytorch-optimizer", ("muon",), "peer", "pytorch_optimizer Muon", muon_of_pytorch_optimizer,
        "torch operators", precision="Newton-Schulz in bf16", requires=("pytorch-optimizer",)),
)  # fmt: skip

STATE_EXCLUDED = {"adamw-for-loop", "adamw-foreach", "adamw-compiled", "adamw-triton", "adamw-torch-foreach",
                  "sgd-foreach", "sgd-torch-fused", "lion-for-loop", "adamw8bit-table"}  # fmt: skip
"""Backends of a rule that is in `optimizers.state` already: their state is the same."""

STEP_EXCLUDED = {"muon-torch"}
"""Is torch-for-loop there, which steps by every rule that torch has."""
