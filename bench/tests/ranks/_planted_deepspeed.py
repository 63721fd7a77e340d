"""`planted.deepspeed`: DeepSpeed's engine, stage 0, on a layer of 10 x 10."""

from __future__ import annotations

import torch
from _counted import Run
from torch import nn

from bancada.ranks import Ranks, RanksContender, RanksSuite
from bancada.suite import Axis, Case, Technique, Tensors, Work


class Engine(Run):
    """Steps of a single layer."""

    def __init__(self, inputs: Tensors) -> None:
        import deepspeed  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self.x, layer = inputs["x"], nn.Linear(10, 10)
        config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 0}}
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        self.engine, *_ = deepspeed.initialize(model=layer, optimizer=optimizer, config=config)

        super().__init__(self._update)

    def _update(self) -> None:
        self.engine.backward(self.engine(self.x).square().mean())
        self.engine.step()


def _build(case: Case, inputs: Tensors, ranks: Ranks) -> Engine:
    return Engine(inputs)


def engine() -> list[RanksSuite]:
    """The suite."""
    return [
        RanksSuite(
            id="planted.deepspeed",
            title="DeepSpeed",
            family="parallelism",
            question="Does it start without compiling?",
            axes=(Axis("world_size", "n{}", int, minimum=2),),
            defaults={"world_size": 2},
            inputs=lambda case, device, seed: {"x": torch.ones(4, 10)},
            oracle=lambda case, given: {},
            tolerance=lambda case: 0.0,
            checked_steps=1,
            work=lambda case: Work(1e3, 1e3),
            techniques=(Technique("planted", "Planted", "Plantado", "parallelism", "For tests.", "y = x", "-"),),
            contenders=(RanksContender("engine", "planted", "peer", _build, pool="deepspeed"),),
            x_axis="world_size",
        )
    ]
