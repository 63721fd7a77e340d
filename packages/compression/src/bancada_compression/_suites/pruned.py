"""`compression.pruned`: what half of the weights gone does to the size and the time of a feed-forward block.

Zeros in a plain layer take the bytes and the multiplications that they took before. Masks take more of both. What
saves is another form: indices and values (where few are left), two of four (on GPUs that multiply that), or whole
neurons cut out. All contenders of a case leave out the same weights, so that all of them give one answer.
"""

from __future__ import annotations

import functools
import importlib
import math
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import (
    Axis,
    Case,
    Contender,
    Device,
    KernelSuite,
    Metric,
    Origin,
    Run,
    Scalar,
    Tensors,
    Work,
    runs_anywhere,
)
from bancada_compression._suites.catalogue import TECHNIQUES
from bancada_compression._suites.problem import EPSILONS

PATTERNS = ("matrix", "2of4", "neurons")
AXES = (
    Axis("tokens", "m{}", minimum=1, unit="tokens", scale="log"),
    Axis("features", "d{}", minimum=4, scale="log"),
    Axis("hidden", "h{}", minimum=4, scale="log"),
    Axis("pattern", "{}", str, choices=PATTERNS),
    Axis("keep", "keep{:g}", float, unit="share of the weights that stay"),
    Axis("dtype", "{}", str, choices=("fp32", "bf16")),
)
DEFAULTS: dict[str, Scalar] = {
    "tokens": 64,
    "features": 384,
    "hidden": 1536,
    "pattern": "matrix",
    "keep": 0.5,
    "dtype": "fp32",
}
SMALL: dict[str, Scalar] = {**DEFAULTS, "tokens": 5, "features": 16, "hidden": 32}
METRICS = (
    Metric("bytes", "bytes of the block", "bytes", "lower", "log"),
    Metric("zipped_bytes", "the same bytes, zipped", "bytes", "lower", "log"),
)
STEEPEST = 1.13
"""The largest slope of the GELU."""
Block = tuple[Callable[[Tensor], Tensor], tuple[Tensor, ...]]
"""What computes the block, and the tensors that it keeps."""


def valid(case: Case) -> str | None:
    """Why axis values make no case."""
    keep = float(case["keep"])
    if not 0 < keep <= 1:
        return f"keep={keep!r}: must be above 0 and at most 1"
    if case.word("pattern") == "2of4" and keep != 0.5:
        return f"keep={keep!r}: two of four are 0.5"
    return None


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """x [tokens, features], up [hidden, features] and down [features, hidden], normal, of a layer's usual size."""
    made, features, hidden = torch.Generator().manual_seed(seed), case.number("features"), case.number("hidden")
    shapes = {"x": (case.number("tokens"), features), "up": (hidden, features), "down": (features, hidden)}
    found = {name: torch.randn(shape, generator=made) for name, shape in shapes.items()}
    found |= {name: found[name] / math.sqrt(found[name].shape[1]) for name in ("up", "down")}
    return {name: tensor.to(device, TORCH_DTYPES[case.word("dtype")]) for name, tensor in found.items()}


def masks(case: Case, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """What stays of both matrices: the largest of the matrix or of four, or the neurons with the longest rows."""
    keep = float(case["keep"])
    if case.word("pattern") == "neurons":
        rows = _largest(up.double().norm(dim=1), keep)
        return rows[:, None].expand_as(up), rows[None].expand_as(down)
    if case.word("pattern") == "matrix":
        found = [_largest(weight.abs().flatten(), keep).view(weight.shape) for weight in (up, down)]
        return found[0], found[1]
    quarters = [F.pad(weight.abs(), (0, -weight.shape[1] % 4), value=-1).view(-1, 4) for weight in (up, down)]
    lowest = [one.argsort(dim=1, stable=True)[:, :2] for one in quarters]
    kept = [torch.ones_like(q, dtype=torch.bool).scatter_(1, n, False) for q, n in zip(quarters, lowest, strict=True)]
    pair = [m.view(w.shape[0], -1)[:, : w.shape[1]] for m, w in zip(kept, (up, down), strict=True)]
    return pair[0], pair[1]


def _largest(sizes: Tensor, keep: float) -> Tensor:
    removed = round((1 - keep) * sizes.numel())
    found = torch.ones_like(sizes, dtype=torch.bool)
    return found.index_fill_(0, sizes.argsort(stable=True)[:removed], False)


def _matrices(case: Case, given: Tensors) -> tuple[Tensor, Tensor]:
    up, down = masks(case, given["up"], given["down"])
    return given["up"].double() * up, given["down"].double() * down


def oracle(case: Case, given: Tensors) -> dict[str, Tensor]:
    """`out` = GELU(x U^T) D^T in float64, with zeros for what is left out."""
    up, down = _matrices(case, given)
    return {"out": F.gelu(given["x"].double() @ up.T) @ down.T}


def tolerance(case: Case, given: Tensors, answer: Tensors) -> dict[str, float]:
    """Of each sum of n terms, sqrt(n) eps (at least 8) of its deviation.

    Summed one after another, as a sparse product does it, terms make an error that deviates by 0.2 sqrt(n) eps of the
    sum's own deviation. The inner sum's error passes the GELU's slope and a row of the outer matrix.
    """
    up, down = _matrices(case, given)
    x, eps = given["x"].double(), torch.finfo(given["x"].dtype).eps
    inner = math.sqrt(float((x.square() @ up.square().T).max()))
    outer = math.sqrt(float((F.gelu(x @ up.T).square() @ down.square().T).max()))
    passed = STEEPEST * math.sqrt(float(down.square().sum(1).max()))
    wide = [max(EPSILONS, math.sqrt(weight.shape[1])) for weight in (up, down)]
    return {"out": eps * (wide[1] * outer + wide[0] * inner * passed) + torch.finfo(torch.float32).tiny}


def work(case: Case) -> Work:
    """Two operations a kept weight and token; kept weights, x and the output moved once."""
    tokens, features, hidden = (case.number(name) for name in ("tokens", "features", "hidden"))
    kept, size = 2 * features * hidden * float(case["keep"]), TORCH_DTYPES[case.word("dtype")].itemsize
    return Work(flops=2.0 * tokens * kept, bytes=(kept + 2 * tokens * features) * size)


def _layers(given: Tensors) -> nn.Sequential:
    pair = [nn.Linear(w.shape[1], w.shape[0], bias=False, device="meta") for w in (given["up"], given["down"])]
    for layer, name in zip(pair, ("up", "down"), strict=True):
        layer.weight = nn.Parameter(given[name].clone(), requires_grad=False)
    return nn.Sequential(pair[0], nn.GELU(), pair[1])


def _ours(permanent: bool, case: Case, given: Tensors) -> Block:
    import bancada_compression as ours

    block = _layers(given)
    ours.prune(block, 1 - float(case["keep"]), pattern="matrix" if case.word("pattern") == "matrix" else "2:4")
    if permanent:
        ours.make_permanent(block)
    return block, (*block.parameters(), *block.buffers())


def _torch(removed: bool, case: Case, given: Tensors) -> Block:
    library: Any = importlib.import_module("torch.nn.utils.prune")
    block, kept = _layers(given), masks(case, given["up"], given["down"])
    for layer, mask in zip((block[0], block[2]), kept, strict=True):
        # Not l1_unstructured: of weights equally large it may leave out others than the definition does.
        library.custom_from_mask(layer, "weight", mask)
        if removed:
            library.remove(layer, "weight")
    return block, (*block.parameters(), *block.buffers())


def _csr(case: Case, given: Tensors) -> Block:
    kept = masks(case, given["up"], given["down"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that CSR is in beta
        up, down = ((given[n] * m).to_sparse_csr() for n, m in zip(("up", "down"), kept, strict=True))
    parts = [(w.values(), w.crow_indices(), w.col_indices()) for w in (up, down)]
    return lambda x: (down @ F.gelu(up @ x.T)).T.contiguous(), (*parts[0], *parts[1])


def _sliced(case: Case, given: Tensors) -> Block:
    rows = masks(case, given["up"], given["down"])[0][:, 0]
    up, down = given["up"][rows].contiguous(), given["down"][:, rows].contiguous()
    return lambda x: F.linear(F.gelu(F.linear(x, up)), down), (up, down)


def _semi_structured(case: Case, given: Tensors) -> Block:
    from torch.sparse import to_sparse_semi_structured

    kept = masks(case, given["up"], given["down"])
    up, down = (to_sparse_semi_structured(given[n] * m) for n, m in zip(("up", "down"), kept, strict=True))
    parts = [part for one in (up, down) for part in (one.packed, one.meta) if part is not None]
    return lambda x: F.linear(F.gelu(F.linear(x, up)), down), tuple(parts)


def _fp32_only(case: Case, device: Device) -> str | None:
    return None if case.word("dtype") == "fp32" else "torch multiplies CSR in float32 and float64"


def _sparse_tensor_cores(case: Case, device: Device) -> str | None:
    if device.type != "cuda" or (device.capability or (0, 0)) < (8, 0):
        return "2:4 is multiplied by the sparse tensor cores of GPUs since Ampere alone"
    if case.word("dtype") != "bf16":
        return "takes bf16 here"
    if case.number("features") % 64 or case.number("hidden") % 64 or case.number("tokens") % 64:
        return "takes multiples of 64"
    return None


@dataclass(frozen=True)
class Form:
    """A form of a pruned block, and the patterns that it is a form of."""

    id: str
    origin: Origin
    label: str
    block: Callable[[Case, Tensors], Block]
    patterns: tuple[str, ...] = PATTERNS
    limits: Callable[[Case, Device], str | None] = runs_anywhere
    technique: str = "magnitude"

    def supports(self, case: Case, device: Device) -> str | None:
        """None, or why it cannot run."""
        if case.word("pattern") not in self.patterns:
            return f"pattern={case.word('pattern')}: this is a form of {' or '.join(self.patterns)}"
        return self.limits(case, device)


SINGLE = ("matrix", "2of4")
FORMS = (
    Form("torch-zeros", "peer", "zeros in plain layers", functools.partial(_torch, True)),
    Form("mask", "bancada", "masks (ours)", functools.partial(_ours, False), SINGLE),
    Form("permanent", "bancada", "masks made permanent (ours)", functools.partial(_ours, True), SINGLE),
    Form("torch-mask", "peer", "torch.nn.utils.prune", functools.partial(_torch, False)),
    Form("torch-csr", "peer", "torch CSR tensors", _csr, limits=_fp32_only),
    Form("torch-2-4", "peer", "torch semi-structured", _semi_structured, ("2of4",), _sparse_tensor_cores, "two-four"),
    Form("torch-sliced", "peer", "neurons cut out", _sliced, ("neurons",)),
)


def _build(form: Form, case: Case, given: Tensors) -> Run:
    with torch.no_grad():
        block, kept = form.block(case, given)
    raw = b"".join(one.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes() for one in kept)
    sizes = {"measure.bytes": len(raw), "measure.zipped_bytes": len(zlib.compress(raw, level=1))}
    measures, x = {name: torch.tensor(float(size)) for name, size in sizes.items()}, given["x"]

    def run() -> dict[str, Tensor]:
        with torch.no_grad():
            return {"out": block(x), **measures}

    return run


def pruned_suite() -> KernelSuite:
    """The suite with all its contenders."""
    return KernelSuite(
        id="compression.pruned",
        title="A pruned feed-forward block: size and time",
        family="compression",
        question="Why is the pruned model as large and as slow as before?",
        axes=AXES,
        defaults=DEFAULTS,
        inputs=inputs,
        oracle=oracle,
        tolerance=tolerance,
        work=work,
        techniques=TECHNIQUES,
        contenders=tuple(
            Contender(
                id=form.id,
                technique=form.technique,
                origin=form.origin,
                label=form.label,
                build=functools.partial(_build, form),
                supports=form.supports,
                only={"pattern": form.patterns},
                reference=form.id == "torch-zeros",
                precision="inputs' dtype",
                backend="torch operators",
            )
            for form in FORMS
        ),
        x_axis="keep",
        static=("up", "down"),
        metrics=METRICS,
        small=SMALL,
        valid=valid,
    )
