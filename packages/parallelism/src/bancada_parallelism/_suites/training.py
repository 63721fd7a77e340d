"""`parallelism.training` and `parallelism.memory`: who trains as one process does, and what that sends and holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bancada.ranks import RanksContender, RanksSuite
from bancada.suite import Axis, Case, Device, Metric, Scalar
from bancada_parallelism._suites import catalogue, decoder, formulas
from bancada_parallelism._suites.deepspeed_peer import DeepSpeed, supports
from bancada_parallelism._suites.ours import Replicated, Sharded, Staged, TensorCut
from bancada_parallelism._suites.torch_peers import (
    Accelerated,
    DistributedTensors,
    FullySharded,
    Pipelined,
    Redundant,
    Wrapped,
)

PRECISION = "case's dtype throughout"
METRICS = (
    Metric("comm.bytes", "Bytes in collectives, a step", "B", scale="log"),
    Metric("bytes.parameters", "Parameters a rank holds", "B"),
    Metric("bytes.gradients", "Gradients a rank holds", "B"),
    Metric("bytes.optimizer", "Optimizer state a rank holds", "B"),
)


def _entry(
    name: str, technique: str, engine: Callable[..., Any], label: str, origin: Any = "bancada", **more: Any
) -> RanksContender:
    return RanksContender(name, technique, origin, engine, label=label, precision=PRECISION, **more)


_peer = partial(_entry, origin="peer")


def enough(case: Case, device: Device) -> str | None:
    """None where torch's Schedule1F1B has as many micro-batches as it asks for."""
    micro, ranks = case.number("micro_batches"), case.number("world_size")
    return None if micro >= ranks else f"needs a micro-batch a stage: micro_batches={micro}, stages={ranks}"


DDP = _peer("torch-ddp", "data-parallel", Wrapped, "torch DistributedDataParallel", reference=True)
FSDP2 = _peer("torch-fsdp2", "zero-3", FullySharded, "torch FSDP2")

CONTENDERS = (
    _entry("data-parallel", "data-parallel", Replicated, "DataParallel"),
    _entry("zero-1", "zero-1", partial(Sharded, stage=1), "ZeroStage1"),
    _entry("zero-2", "zero-2", partial(Sharded, stage=2), "ZeroStage2"),
    _entry("zero-3", "zero-3", partial(Sharded, stage=3), "ZeroStage3"),
    _entry("tensor", "tensor-parallel", TensorCut, "column- and row-parallel layers"),
    _entry("gpipe", "gpipe", partial(Staged, schedule="gpipe"), "PipelineStage, GPipe"),
    _entry("1f1b", "1f1b", partial(Staged, schedule="1f1b"), "PipelineStage, 1F1B"),
    DDP,
    _peer("torch-zero-1", "zero-1", Redundant, "torch ZeroRedundancyOptimizer"),
    FSDP2,
    _peer("torch-dtensor", "tensor-parallel", DistributedTensors, "torch DTensor"),
    _peer("torch-gpipe", "gpipe", partial(Pipelined, schedule="gpipe"), "torch ScheduleGPipe"),
    _peer("torch-1f1b", "1f1b", partial(Pipelined, schedule="1f1b"), "torch Schedule1F1B", supports=enough),
    _peer("accelerate", "data-parallel", Accelerated, "accelerate", requires=("accelerate",), backend="DDP"),
    *(
        _peer(
            f"deepspeed-{stage}",
            f"zero-{stage}" if stage else "data-parallel",
            partial(DeepSpeed, stage=stage),
            f"DeepSpeed, stage {stage}",
            requires=("deepspeed",),
            supports=supports,
            pool="deepspeed",
        )
        for stage in range(4)
    ),
)


MEMORY_CONTENDERS = tuple(one for one in CONTENDERS if one.pool == "torch" and one.id != "accelerate")


def expected(case: Case, contender: str) -> formulas.Figures | None:
    """Calls, bytes sent and bytes held of our contenders, by the formulas; of a library's nothing is demanded."""
    if contender == "data-parallel":
        return formulas.data_parallel(case)
    if contender.startswith("zero-"):
        return formulas.zero(case, int(contender[-1]))
    if contender == "tensor":
        return formulas.tensor_parallel(case, again=decoder.checkpointed(case))
    return formulas.pipeline(case) if contender in ("gpipe", "1f1b") else None


MEMORY_AXES = (*decoder.AXES, Axis("checkpointing", "again|kept", bool))
MEMORY_SIZES: dict[str, Scalar] = {"seq_len": 128, "hidden": 64, "layers": 8, "checkpointing": False}


def _suite(name: str, title: str, question: str, contenders: tuple[RanksContender, ...], **more: Any) -> RanksSuite:
    return RanksSuite(
        id=f"parallelism.{name}",
        title=title,
        family="parallelism",
        question=question,
        inputs=decoder.inputs,
        oracle=decoder.oracle,
        tolerance=decoder.tolerance,
        work=decoder.work,
        techniques=catalogue.used_by(contenders),
        contenders=contenders,
        metrics=METRICS,
        valid=decoder.valid,
        checked_steps=decoder.STEPS,
        expected=expected,
        **more,
    )


TRAINING = _suite(
    "training",
    "Training one decoder on several ranks",
    "Which ways of training on several ranks give what one process gives, and what do they send, hold and take?",
    CONTENDERS,
    axes=decoder.AXES,
    defaults=decoder.DEFAULTS,
    small=decoder.SMALL,
    x_axis="world_size",
)
MEMORY = _suite(
    "memory",
    "Memory of a rank: model state and activations",
    "What does a rank hold between steps and at the peak, with activations kept or computed again?",
    MEMORY_CONTENDERS,
    axes=MEMORY_AXES,
    defaults={**decoder.DEFAULTS, **MEMORY_SIZES},
    small={**decoder.SMALL, "checkpointing": True},
    x_axis="seq_len",
)
