"""`parallelism.pipeline`: forward and backward of one batch through stages, by schedule."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from bancada.activations import HeldActivations
from bancada.ranks import Ranks, RanksContender, RanksSuite
from bancada.suite import Case, Metric, Origin, Tensors, Work
from bancada_parallelism import Action, simulate_pipeline
from bancada_parallelism._suites import catalogue, decoder, formulas
from bancada_parallelism._suites.engine import nbytes, union
from bancada_parallelism._suites.ours import Staged
from bancada_parallelism._suites.torch_peers import Pipelined
from bancada_parallelism._suites.training import enough

Kind = Literal["F", "B"]
FORWARD, BACKWARD = 1, 2
"""How long the simulated stages take: two products in backward for one in forward."""


class Gradients:
    """A pipeline that only makes gradients, always of the first batch, and notes in which order its stage works.

    Args:
        engine: builds the pipeline.
    """

    def __init__(self, case: Case, given: Tensors, ranks: Ranks, *, engine: Callable[..., Staged | Pipelined]) -> None:
        self._engine, self._ranks, self._batch = engine(case, given, ranks), ranks, given["tokens"][0]
        self._loss = torch.zeros(())
        self._order: list[Kind] = []
        module = self._engine.module
        self._noting = [module.register_forward_hook(lambda module, args, y: self._note(y))]

    def _note(self, y: Tensor) -> None:
        """A forward, and the backward that begins where the gradient of its output is known."""
        if y.requires_grad:  # torch 2.11 first runs a stage without gradients, to learn its shapes
            self._order.append("F")
            y.register_hook(lambda gradient: self._order.append("B"))  # type: ignore[no-untyped-call]

    def step(self) -> None:
        """Forward and backward of all micro-batches; their order is noted until it has been asked for."""
        if self._noting:
            self._order.clear()
        self._engine.optimizer.zero_grad()
        self._loss = self._engine.run(self._batch[:, :-1], self._batch[:, 1:])

    def reset(self) -> None:
        """Forgets the gradients."""
        self._engine.reset()

    def outputs(self) -> dict[str, Tensor]:
        """Loss and gradients, put together from the stages, and how much of its time this order leaves idle."""
        named = self._engine.module.named_parameters()
        mine = {f"gradients.{name}": p.grad for name, p in named if p.grad is not None}
        if self._ranks.rank == self._ranks.world_size - 1:
            mine["loss"] = self._loss
        while self._noting:
            self._noting.pop().remove()
        orders: list[Any] = [None] * self._ranks.world_size
        dist.all_gather_object(orders, self._order)
        return union(mine) | {"idle": torch.tensor(idle(orders), dtype=torch.float64)}

    def state_bytes(self) -> dict[str, int]:
        """Parameters, gradients, and the most activations that one more run holds."""
        parameters = list(self._engine.module.parameters())
        held = HeldActivations([*parameters, self._batch])
        with held:
            self.step()
        gradients = nbytes(p.grad for p in parameters)
        return {"parameters": nbytes(parameters), "gradients": gradients, "activations": held.most}

    def close(self) -> None:
        """Lets go of the pipeline."""
        self._engine.close()
        self.__dict__.clear()


def idle(orders: Sequence[Sequence[Kind]]) -> float:
    """The idle fraction of stages that work in these orders, each micro-batch after the one before it."""
    table = []
    for order in orders:
        numbers = {"F": itertools.count(), "B": itertools.count()}
        table.append(tuple(Action(kind, next(numbers[kind])) for kind in order))
    return float(simulate_pipeline(tuple(table), forward=FORWARD, backward=BACKWARD).idle)


def oracle(case: Case, given: Tensors) -> dict[str, Tensor]:
    """One process, float64; the idle fraction is (p-1)/(m+p-1), by formula."""
    wide = {name: value.double() if value.is_floating_point() else value for name, value in given.items()}
    model = decoder.part(case, wide)
    tokens, p, m = given["tokens"][0], case.number("world_size"), case.number("micro_batches")
    loss = decoder.loss(model(tokens[:, :-1]), tokens[:, 1:])
    loss.backward()  # type: ignore[no-untyped-call]
    found = {f"gradients.{name}": q.grad for name, q in model.named_parameters() if q.grad is not None}
    return {"loss": loss.detach(), "idle": torch.tensor((p - 1) / (m + p - 1), dtype=torch.float64), **found}


def work(case: Case) -> Work:
    """As training, without AdamW: parameters read twice, gradients written."""
    whole = decoder.work(case)
    return Work(whole.flops, whole.bytes * 3 / 7)


def expected(case: Case, contender: str) -> formulas.Figures | None:
    """What stages send and hold."""
    if contender not in ("gpipe", "1f1b"):
        return None
    return {name: value for name, value in formulas.pipeline(case).items() if name != "bytes.optimizer"}


def _entry(name: str, engine: Callable[..., Any], origin: Origin, label: str, **more: Any) -> RanksContender:
    technique = name.removeprefix("torch-")
    build = partial(Gradients, engine=partial(engine, schedule=technique))
    return RanksContender(name, technique, origin, build, label=label, precision="case's dtype throughout", **more)


CONTENDERS = (
    _entry("gpipe", Staged, "bancada", "PipelineStage, GPipe"),
    _entry("1f1b", Staged, "bancada", "PipelineStage, 1F1B"),
    _entry("torch-gpipe", Pipelined, "peer", "torch ScheduleGPipe", reference=True),
    _entry("torch-1f1b", Pipelined, "peer", "torch Schedule1F1B", supports=enough),
)

PIPELINE = RanksSuite(
    id="parallelism.pipeline",
    title="Pipeline schedules, forward and backward of one batch",
    family="parallelism",
    question="What do the schedules of a pipeline send, and how many activations do they hold, at equal gradients?",
    axes=decoder.AXES,
    defaults={**decoder.DEFAULTS, "micro_batches": 8},
    inputs=decoder.inputs,
    oracle=oracle,
    tolerance=decoder.tolerance,
    work=work,
    techniques=catalogue.used_by(CONTENDERS),
    contenders=CONTENDERS,
    metrics=(
        Metric("bytes.activations", "Activations a stage holds at most", "B", scale="log"),
        Metric("comm.bytes", "Bytes sent and received a step", "B", scale="log"),
    ),
    x_axis="micro_batches",
    small=decoder.SMALL,
    valid=decoder.valid,
    checked_steps=2,  # torch's first runs a stage once more, to learn its shapes
    expected=expected,
)
