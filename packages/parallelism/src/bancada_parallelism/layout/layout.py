"""A layout of ranks over a device mesh, made once and passed explicitly to everything that needs a group."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from bancada_parallelism._check import check_choice, check_count, check_divides

AXES = ("pipeline", "data", "tensor")
"""Outermost first: tensor ranks, which talk most, are neighbours (Megatron-LM, arXiv 2104.04473, section 3)."""


@dataclass(frozen=True)
class Layout:
    """The ranks as a grid of `pipeline x data x tensor`; rank = (p * data + d) * tensor + t.

    Args:
        pipeline, data, tensor: ranks along each axis; their product is the number of ranks.

    Raises:
        ValueError: an axis that is no whole number of at least 1.

    A layout made by its constructor is a plan: it answers what fits, and has no groups. `Layout.over_ranks` makes the
    groups too, and refuses an impossible layout on every rank before any communication.
    """

    pipeline: int = 1
    data: int = 1
    tensor: int = 1
    mesh: DeviceMesh | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for axis in AXES:
            check_count(axis, getattr(self, axis))

    @classmethod
    def over_ranks(cls, *, pipeline: int = 1, data: int = 1, tensor: int = 1, device: str = "cpu") -> Layout:
        """The layout of all ranks of the default process group, with a group for each axis.

        Raises:
            ValueError: the product of the axes is not the number of ranks; raised before any communication.
            RuntimeError: torch.distributed is not initialised.
        """
        plan = cls(pipeline, data, tensor)
        check_choice("device", device, ("cpu", "cuda"))
        if not dist.is_initialized():
            raise RuntimeError("torch.distributed has no process group: call init_process_group first")
        plan.check_ranks(dist.get_world_size())
        mesh = init_device_mesh(device, (pipeline, data, tensor), mesh_dim_names=AXES)
        return cls(pipeline, data, tensor, mesh)

    @property
    def ranks(self) -> int:
        """How many ranks the layout has."""
        return self.pipeline * self.data * self.tensor

    def check_ranks(self, ranks: int) -> None:
        """ValueError unless the layout has this many ranks."""
        if self.ranks != ranks:
            raise ValueError(
                f"pipeline={self.pipeline} x data={self.data} x tensor={self.tensor} is {self.ranks} ranks; "
                f"there are {ranks}"
            )

    def check_model(
        self,
        *,
        hidden: int | None = None,
        heads: int | None = None,
        kv_heads: int | None = None,
        ffn: int | None = None,
        layers: int | None = None,
        batch: int | None = None,
    ) -> None:
        """ValueError unless a model of these sizes divides over the axes; asks of what is given only.

        Heads, feed-forward and hidden sizes divide by `tensor`, the batch (in sequences) by `data`, and there is a
        layer for each pipeline stage at least. A vocabulary need not divide: the vocabulary-parallel layers pad it.
        """
        for name, value in (("hidden", hidden), ("heads", heads), ("kv_heads", kv_heads), ("ffn", ffn)):
            if value is not None:
                check_divides(name, check_count(name, value), self.tensor, f"the tensor ranks of {self}")
        if batch is not None:
            check_divides("batch", check_count("batch", batch), self.data, f"the data ranks of {self}")
        if layers is not None:
            check_count("layers", layers, self.pipeline)

    def group(self, axis: str) -> dist.ProcessGroup:
        """The group of ranks that differ from this one along `axis` only.

        Raises:
            ValueError: no such axis.
            RuntimeError: the layout is a plan, not made by `over_ranks`.
        """
        check_choice("axis", axis, AXES)
        if self.mesh is None:
            raise RuntimeError(f"{self} is a plan without groups: make it by Layout.over_ranks")
        return self.mesh.get_group(axis)

    def size(self, axis: str) -> int:
        """The number of ranks along `axis`."""
        size: int = getattr(self, check_choice("axis", axis, AXES))
        return size

    def rank(self, axis: str) -> int:
        """This rank's place along `axis`, from 0; 0 in a plan too where the axis has one rank only."""
        return 0 if self.size(axis) == 1 else dist.get_rank(self.group(axis))

    def coordinates(self, rank: int) -> dict[str, int]:
        """The place of any rank along each axis.

        Raises:
            ValueError: the layout has no such rank.
        """
        if check_count("rank", rank, 0) >= self.ranks:
            raise ValueError(f"rank={rank}: must be below {self.ranks}, the ranks of {self}")
        rest, t = divmod(rank, self.tensor)
        p, d = divmod(rest, self.data)
        return {"pipeline": p, "data": d, "tensor": t}
