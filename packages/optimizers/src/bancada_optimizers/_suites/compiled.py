"""`optimizers.compile`: AdamW's Triton kernel, compiled for GPUs that are not there."""

from __future__ import annotations

from typing import Any

from bancada.ceilings import TORCH_DTYPES
from bancada.compiled import CompileContender, CompileSuite, Launch
from bancada.compiled.declare import target_axis
from bancada.suite import Axis, Case, Device
from bancada_optimizers._suites import problem
from bancada_optimizers._suites.catalogue import TECHNIQUES

_TABLES = {"addresses": "*i64", "sizes": "*i64", "numbers": "*fp32", "owners": "*i64", "firsts": "*i64"}


def launch(case: Case) -> Launch:
    """The kernel as a step launches it; RuntimeError where Triton is missing."""
    from bancada_optimizers.adamw import triton_kernel

    if triton_kernel.MISSING is not None:
        raise RuntimeError(triton_kernel.MISSING)
    kernel: Any = triton_kernel.adamw_kernel
    dtype = triton_kernel.kernel_dtype(TORCH_DTYPES[case.word("dtype")])
    constants = {"P": dtype, "BLOCK": case.number("block"), "UNIT": triton_kernel.ALIGNMENT}
    signature = {name: _TABLES.get(name, "constexpr" if name in constants else "fp32") for name in kernel.arg_names}
    return Launch(kernel, signature, constants, tuple(_TABLES), case.number("num_warps"), num_stages=1)


def _supports(case: Case, device: Device) -> str | None:
    return "fp64: the kernel takes fp32, fp16 and bf16" if case.word("dtype") == "fp64" else None


def suite() -> CompileSuite:
    """`optimizers.compile`."""
    return CompileSuite(
        id="optimizers.compile",
        title="Optimizer kernels, compiled",
        family="optimizers",
        question="How many parameters should a block of the fused step take, with how many warps?",
        axes=(target_axis("sm_80", "sm_90", "gfx942"), Axis("rule", "{}", str, choices=("adamw",)), *problem.SIZES,
              Axis("block", "n{}", choices=(256, 512, 1024, 2048, 4096, 8192), scale="log"),
              Axis("num_warps", "w{}", choices=(1, 2, 4, 8, 16), scale="log")),
        defaults={"target": "sm_90", "rule": "adamw", "layers": 12, "width": 1024, "dtype": "fp32",
                  "block": 1024, "num_warps": 4},
        small=problem.SMALL,
        work=problem.step_work,
        techniques=TECHNIQUES,
        contenders=(
            CompileContender(
                id="adamw-triton", technique="adamw", origin="bancada", build=launch, requires=("triton",),
                supports=_supports, label="AdamW, Triton (ours)", backend="Triton kernel", compiles=True,
            ),
        ),
        x_axis="block",
        configuration=("block", "num_warps"),
        sizes=("layers", "width"),
        say=lambda case: f"{case.number('block')} parameters, {case.number('num_warps')} warps",
        matrix=lambda case: False,
        units=lambda case: float(case.number("block")),
        unit="parameter",
        loaded=lambda case: problem.step_work(case).bytes,
    )  # fmt: skip
