"""One stage of a pipeline: carries out its row of a schedule, passing activations on and gradients back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bancada_parallelism.layout import Layout
from bancada_parallelism.pipeline.schedule import Action, Schedule
from bancada_parallelism.pipeline.simulate import simulate_pipeline

Loss = Callable[[Tensor, int], Tensor]


class PipelineStage:
    """This rank's part of a model that is cut into stages along the `pipeline` axis.

    Args:
        module: the stage: a function of one tensor to one tensor; the first takes a micro-batch's inputs.
        layout: rank s of the `pipeline` axis is stage s.
        schedule: for each stage, its actions in order (`pipeline_schedule`); the same on every rank.
        boundary: the shape of what a stage passes on, the same at every boundary and for every micro-batch.
        dtype, device: of what is passed on.

    Raises:
        ValueError: a schedule of another number of stages, or one that cannot be carried out; on every rank, before
            any communication.

    Gradients add up in `p.grad` over the micro-batches. A micro-batch sends the boundary's elements once each way.
    """

    def __init__(
        self,
        module: nn.Module,
        layout: Layout,
        schedule: Schedule,
        *,
        boundary: Sequence[int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if len(schedule) != layout.size("pipeline"):
            raise ValueError(f"schedule: {len(schedule)} stages; there are {layout.size('pipeline')} pipeline ranks")
        simulate_pipeline(schedule)
        self.module, self._group = module, layout.group("pipeline")
        self._stage, self._last = layout.rank("pipeline"), layout.size("pipeline") - 1
        self._actions = schedule[self._stage]
        self.micro_batches = len(self._actions) // 2
        self._boundary, self._dtype, self._device = tuple(boundary), dtype, device

    def run(self, inputs: Sequence[Tensor] | None, loss: Loss | None) -> list[Tensor]:
        """Forward and backward of all micro-batches; the detached losses at the last stage, elsewhere an empty list.

        Args:
            inputs: each micro-batch's input, at the first stage (elsewhere it is not looked at).
            loss: `loss(output, micro)`, at the last stage: what is differentiated. Divide a sum of losses by the tokens
                of all micro-batches, and the gradient is that of the mean over them, however they are cut.

        Raises:
            ValueError: inputs or a loss are missing, another number of micro-batches, or a stage's output has another
                shape or dtype than the boundary's.
        """
        if self._stage == 0 and (inputs is None or len(inputs) != self.micro_batches):
            found = "None" if inputs is None else f"{len(inputs)} micro-batches"
            raise ValueError(f"inputs: {found}; the first stage must be given {self.micro_batches}")
        if self._stage == self._last and loss is None:
            raise ValueError("loss=None: the last stage must be given a function")
        held: dict[int, tuple[Tensor, Tensor]] = {}
        losses: dict[int, Tensor] = {}
        sending: list[tuple[dist.Work, Tensor]] = []
        for action in self._actions:
            if action.kind == "F":
                x = self._receive(action) if inputs is None or self._stage else inputs[action.micro]
                y = self.module(x)
                if self._stage < self._last:
                    self._check(y)
                    self._send(y.detach(), self._stage + 1, sending)
                else:
                    assert loss is not None
                    y = loss(y, action.micro)
                    losses[action.micro] = y.detach()
                held[action.micro] = (x, y)
            else:
                x, y = held.pop(action.micro)
                torch.autograd.backward(y, None if self._stage == self._last else self._receive(action))
                if self._stage:
                    assert x.grad is not None
                    self._send(x.grad, self._stage - 1, sending)
        for work, _ in sending:
            work.wait()
        return [losses[micro] for micro in sorted(losses)]

    def exchange_tied_gradient(self, parameter: nn.Parameter) -> None:
        """Sums the gradient of one weight that the first and the last stage both use (embedding and head), after `run`.

        Called on those two stages, each with its own copy; with one stage there is nothing to sum.

        Raises:
            ValueError: on another stage, or without a gradient.
        """
        if self._stage not in (0, self._last):
            raise ValueError(f"stage {self._stage}: must be the first or the last, {self._last}")
        if parameter.grad is None:
            raise ValueError("parameter: has no gradient")
        if not self._last:
            return
        other = self._last - self._stage
        mine, theirs = parameter.grad.contiguous().clone(), torch.empty_like(parameter.grad, memory_format=_PLAIN)
        sent = dist.isend(mine, group=self._group, group_dst=other)
        dist.recv(theirs, group=self._group, group_src=other)
        assert sent is not None
        sent.wait()
        first, second = (mine, theirs) if self._stage == 0 else (theirs, mine)
        parameter.grad = first + second  # in one order, so that both copies stay the same bits

    def _receive(self, action: Action) -> Tensor:
        source = self._stage + (1 if action.kind == "B" else -1)
        tensor = torch.empty(self._boundary, dtype=self._dtype, device=self._device)
        try:
            dist.recv(tensor, group=self._group, group_src=source)
        except RuntimeError as error:
            raise RuntimeError(f"stage {self._stage}, {action}: nothing came from stage {source}: {error}") from error
        return tensor.requires_grad_(action.kind == "F")

    def _send(self, tensor: Tensor, target: int, sending: list[tuple[dist.Work, Tensor]]) -> None:
        while sending and sending[0][0].is_completed():
            del sending[0]  # a message that has left need not be held any more
        plain = tensor.contiguous()
        work = dist.isend(plain, group=self._group, group_dst=target)
        assert work is not None
        sending.append((work, plain))

    def _check(self, y: Tensor) -> None:
        if y.shape != self._boundary or y.dtype != self._dtype:
            raise ValueError(
                f"stage {self._stage} made {list(y.shape)} {y.dtype}; must be the boundary's, "
                f"{list(self._boundary)} {self._dtype}"
            )


_PLAIN = torch.contiguous_format
