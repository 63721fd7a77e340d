"""Who races: ours, and torch's own ways of computing attention.

Each way is written once, as a function that prepares a case and returns `attend(q, k, v) -> out`; `_forward` and
`_training` make a contender's run of it. What does not depend on the values (a mask, a compiled function) is prepared
outside the timed call. Ours and every library are imported when a contender is built, not before.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from bancada.suite import Case, Contender, Device, Origin, Run, Tensors, runs_anywhere
from bancada.supports import compiler
from bancada_attention._suites.problem import Shape
from bancada_attention.flash.api import MAX_HEAD_DIM

Tensor = torch.Tensor
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Prepare = Callable[[Case, torch.device], Attend]
Supports = Callable[[Case, Device], str | None]

MOST_SDPA_HEAD_DIM = 256  # of torch's fused backends on CUDA
_number = itertools.count()


@dataclass(frozen=True)
class Way:
    """A way of computing attention: a contender of both suites."""

    id: str
    technique: str
    origin: Origin
    label: str
    prepare: Prepare
    backend: str
    supports: Supports = runs_anywhere
    training: Supports = runs_anywhere
    precision: str = "inputs' dtype, fp32 accumulation"
    reference: bool = False
    compiles: bool = False
    requires: tuple[str, ...] = ()

    def contender(self, training: bool) -> Contender:
        """This way as a contender of `attention.training` or of `attention.forward`."""
        return Contender(
            id=self.id,
            technique=self.technique,
            origin=self.origin,
            build=functools.partial(_training if training else _forward, self.prepare),
            requires=self.requires,
            supports=functools.partial(_first_reason, self.supports, self.training) if training else self.supports,
            label=self.label,
            reference=self.reference,
            precision=self.precision,
            backend=self.backend,
            compiles=self.compiles,
        )


def contenders(training: bool) -> tuple[Contender, ...]:
    """Every contender of `attention.training`, or of `attention.forward`."""
    return tuple(way.contender(training) for way in WAYS)


def _forward(prepare: Prepare, case: Case, inputs: Tensors) -> Run:
    q, k, v = (inputs[name] for name in "qkv")
    attend = prepare(case, q.device)

    def run() -> Tensors:
        with torch.no_grad():
            return {"out": attend(q, k, v)}

    return run


def _training(prepare: Prepare, case: Case, inputs: Tensors) -> Run:
    leaves = [inputs[name].detach().requires_grad_() for name in "qkv"]
    attend = prepare(case, leaves[0].device)

    def run() -> Tensors:
        out = attend(*leaves)
        dq, dk, dv = torch.autograd.grad(out, leaves, inputs["dout"])
        return {"out": out.detach(), "dq": dq, "dk": dk, "dv": dv}

    return run


def _first_reason(first: Supports, second: Supports, case: Case, device: Device) -> str | None:
    return first(case, device) or second(case, device)


# Ours


def _reference(case: Case, device: torch.device) -> Attend:
    from bancada_attention import attention

    return functools.partial(attention, causal=Shape.of(case).causal)


def _flash(backend: str, case: Case, device: torch.device) -> Attend:
    from bancada_attention import flash_attention

    return functools.partial(flash_attention, causal=Shape.of(case).causal, backend=backend)


def _flash_head_dim(case: Case, device: Device) -> str | None:
    return _most_head_dim(case)


def _most_head_dim(case: Case) -> str | None:
    dim = case.number("head_dim")
    return f"head_dim={dim}: at most {MAX_HEAD_DIM}" if dim > MAX_HEAD_DIM else None


def _triton(case: Case, device: Device) -> str | None:
    if device.type != "cuda":
        return "needs a CUDA GPU (Triton's interpreter is never timed)"
    return triton_supports(case)


def triton_supports(case: Case) -> str | None:
    """Why the Triton kernels cannot be compiled for a case, or None."""
    if case.word("dtype") == "fp64":
        return "fp64: the kernels take fp32, fp16 and bf16"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    return _most_head_dim(case)


# torch eager


def _eager(case: Case, device: torch.device) -> Attend:
    shape = Shape.of(case)
    scale, group, mask = 1 / math.sqrt(shape.dim), shape.group, shape.mask(device)
    hidden = None if mask is None else ~mask

    def eager_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = q @ k.mT * scale
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        return torch.softmax(scores, dim=-1) @ v

    return eager_attention


def _compiled_eager(case: Case, device: torch.device) -> Attend:
    return _compiled(_eager(case, device))


def _compiled(attend: Attend) -> Attend:
    """`attend`, compiled for the shapes of its first call.

    Dynamo counts recompilations by code object and gives up compiling after a few; a child process measures many
    cases, so each gets a code object of its own.
    """
    assert isinstance(attend, types.FunctionType)
    code = attend.__code__.replace(co_name=f"{attend.__name__}_{next(_number)}")
    own = types.FunctionType(code, attend.__globals__, attend.__name__, attend.__defaults__, attend.__closure__)
    compiled: Attend = torch.compile(own, dynamic=False, fullgraph=True)
    return compiled


# torch SDPA


def _sdpa(backend: str | None, case: Case, device: torch.device) -> Attend:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    shape = Shape.of(case)
    # torch's is_causal is top-left: where the lengths differ, the bottom-right mask is given explicitly.
    square = shape.queries == shape.keys
    mask = None if square else shape.mask(device)
    call = functools.partial(
        scaled_dot_product_attention,
        attn_mask=mask,
        is_causal=shape.causal and square,
        enable_gqa=shape.group > 1,
    )
    if backend is None:
        return call
    chosen = SDPBackend.__members__[backend]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(chosen):
            return call(q, k, v)

    return attend


def _sdpa_on_cuda(backend: str, case: Case, device: Device) -> str | None:
    """Why a fused SDPA backend does not take a case: what torch's own checks refuse."""
    shape = Shape.of(case)
    masked = shape.causal and shape.queries != shape.keys
    if backend != "FLASH_ATTENTION" and device.type != "cuda":
        return "this SDPA backend exists on CUDA only"
    if device.type != "cuda":
        return None
    if backend == "EFFICIENT_ATTENTION":
        if shape.group > 1:
            return "grouped heads: this SDPA backend has none"
        return "fp64: this SDPA backend takes fp32, fp16 and bf16" if case.word("dtype") == "fp64" else None
    if case.word("dtype") not in ("fp16", "bf16"):
        return f"{case.word('dtype')}: this SDPA backend takes fp16 and bf16"
    if (device.capability or (0, 0)) < (8, 0):
        return "this SDPA backend needs compute capability 8.0"
    if backend == "FLASH_ATTENTION" and masked:
        return "this SDPA backend takes no explicit mask, which causal with kv_len != seq_len needs"
    if backend == "CUDNN_ATTENTION" and shape.dim % 8:
        return f"head_dim={shape.dim}: this SDPA backend takes multiples of 8"
    most = 128 if backend == "CUDNN_ATTENTION" and (device.capability or (0, 0)) < (9, 0) else MOST_SDPA_HEAD_DIM
    return f"head_dim={shape.dim}: at most {most}" if shape.dim > most else None


# FlexAttention


def _flex(case: Case, device: torch.device) -> Attend:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    shape = Shape.of(case)
    offset, grouped = shape.offset, shape.group > 1

    def bottom_right(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query + offset >= key

    where = str(device)
    block_mask = (
        create_block_mask(bottom_right, None, None, shape.queries, shape.keys, device=where) if shape.causal else None
    )

    def flex(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, block_mask=block_mask, enable_gqa=grouped)

    return _compiled(flex)


def _flex_supports(case: Case, device: Device) -> str | None:
    if case.word("dtype") == "fp64":
        return "fp64: FlexAttention takes fp32, fp16 and bf16"
    return compiler(case, device)


def _flex_training(case: Case, device: Device) -> str | None:
    return "FlexAttention has no backward pass on a CPU" if device.type == "cpu" else None


_ROUNDED = "inputs' dtype, scores and probabilities rounded to it"
_SDPA = Way(
    "torch-sdpa",
    "flash-attention",
    "peer",
    "torch SDPA",
    functools.partial(_sdpa, None),
    "torch's choice: flash on a CPU; flash, cuDNN, memory-efficient or math on CUDA",
)


def _sdpa_way(short: str, backend: str, label: str) -> Way:
    return replace(
        _SDPA,
        id=f"torch-sdpa-{short}",
        label=f"torch SDPA, {label}",
        prepare=functools.partial(_sdpa, backend),
        backend=f"SDPBackend.{backend}",
        supports=functools.partial(_sdpa_on_cuda, backend),
    )


WAYS = (
    Way(
        "torch-eager",
        "exact-attention",
        "peer",
        "torch eager",
        _eager,
        "matmul, masked_fill, softmax, matmul",
        precision=_ROUNDED,
        reference=True,
    ),
    Way("reference", "exact-attention", "bancada", "reference (ours)", _reference, "torch operators"),
    Way(
        "flash-tiled",
        "flash-attention",
        "bancada",
        "flash, tiled (ours)",
        functools.partial(_flash, "tiled"),
        "torch operators, tile by tile",
        supports=_flash_head_dim,
    ),
    Way(
        "flash-triton",
        "flash-attention",
        "bancada",
        "flash, Triton (ours)",
        functools.partial(_flash, "triton"),
        "Triton kernels",
        supports=_triton,
        compiles=True,
    ),
    _SDPA,
    replace(
        _sdpa_way("math", "MATH", "math"),
        technique="exact-attention",
        supports=runs_anywhere,
        precision="fp32 scores and probabilities for half types",
    ),
    _sdpa_way("flash", "FLASH_ATTENTION", "flash"),
    _sdpa_way("efficient", "EFFICIENT_ATTENTION", "memory-efficient"),
    _sdpa_way("cudnn", "CUDNN_ATTENTION", "cuDNN"),
    Way(
        "flex-attention",
        "flex-attention",
        "peer",
        "FlexAttention",
        _flex,
        "torch.compile, Inductor's template",
        supports=_flex_supports,
        training=_flex_training,
        compiles=True,
    ),
    Way(
        "compiled-eager",
        "exact-attention",
        "peer",
        "torch eager, compiled",
        _compiled_eager,
        "torch.compile, Inductor",
        supports=compiler,
        precision="inputs' dtype, what is fused stays in fp32",
        compiles=True,
    ),
)
