"""The model that every strategy trains, its data, and what one process makes of them in float64.

A pre-norm decoder with learned embeddings and a head of their own: LayerNorm, causal attention, GELU. Its layers are
single `nn.Linear`s, so that each library can cut, shard or stage them in its own way.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import Axis, Case, Scalar, Tensors, Work

STEPS = 5
VOCAB, HEAD, EXPANSION = 512, 16, 4
LIMITS = {"fp64": 1e-12, "fp32": 2e-5}
ADAMW: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-3, "weight_decay": 0.1}
"""With an eps above rounding an update is smooth in the gradient: parity then tells errors, not the signs of noise."""

AXES = (
    Axis("world_size", "r{}", minimum=2, unit="ranks"),
    Axis("batch", "b{}", minimum=1, unit="sequences", scale="log"),
    Axis("seq_len", "s{}", minimum=1, unit="tokens", scale="log"),
    Axis("hidden", "h{}", minimum=HEAD, scale="log"),
    Axis("layers", "l{}", minimum=1, unit="layers", scale="log"),
    Axis("micro_batches", "m{}", minimum=1, unit="micro-batches", scale="log"),
    Axis("dtype", "{}", str, choices=tuple(LIMITS)),
)
DEFAULTS: dict[str, Scalar] = {
    "world_size": 2, "batch": 8, "seq_len": 64, "hidden": 128, "layers": 4, "micro_batches": 4, "dtype": "fp32",
}  # fmt: skip
SMALL: dict[str, Scalar] = {
    "world_size": 2, "batch": 4, "seq_len": 5, "hidden": 32, "layers": 2, "micro_batches": 2, "dtype": "fp64",
}  # fmt: skip


class Block(nn.Module):
    """x + out(attention(norm1(x))), then x + down(gelu(up(norm2(x)))); as many heads as `q` has features for."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        # No bias before the scores: that of the keys has a gradient of 0, and rounding has no relative error.
        self.q, self.k, self.v = (nn.Linear(hidden, hidden, bias=False) for _ in range(3))
        self.out = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, EXPANSION * hidden), nn.Linear(EXPANSION * hidden, hidden)
        self.share: Callable[[Tensor], Tensor] = _same

    def forward(self, x: Tensor) -> Tensor:
        """[batch, seq, hidden] to the same."""
        normed = self.share(self.norm1(x))
        q, k, v = (part(normed).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        raised: Tensor = self.up(self.norm2(x))
        lowered: Tensor = self.down(nn.functional.gelu(raised))
        return x + lowered


def _same(x: Tensor) -> Tensor:
    return x


class Decoder(nn.Module):
    """Some of a decoder's blocks, its embedding before the first and its head after the last.

    Args:
        blocks: which of the `layers` blocks this part has.
        around: what a block runs in: `around(block, x)`; a checkpoint, or nothing.
    """

    def __init__(
        self, hidden: int, layers: int, blocks: range | None = None, around: Callable[..., Tensor] | None = None
    ) -> None:
        super().__init__()
        blocks = range(layers) if blocks is None else blocks
        self.embed = nn.Embedding(VOCAB, hidden) if blocks.start == 0 else None
        self.blocks = nn.ModuleDict({str(i): Block(hidden) for i in blocks})
        last = blocks.stop == layers
        self.norm = nn.LayerNorm(hidden) if last else None
        self.head = nn.Linear(hidden, VOCAB, bias=False) if last else None
        self.around = around

    def forward(self, x: Tensor) -> Tensor:
        """Tokens [batch, seq], or what the part before made, to logits [batch, seq, vocabulary] or the next part."""
        x = x if self.embed is None else self.embed(x)
        for block in self.blocks.values():
            x = block(x) if self.around is None else self.around(block, x)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of all tokens."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


@functools.cache
def shapes(hidden: int, layers: int) -> dict[str, torch.Size]:
    """Names and shapes of the whole model's parameters."""
    with torch.device("meta"):
        return {name: p.shape for name, p in Decoder(hidden, layers).named_parameters()}


def shapes_of(case: Case) -> dict[str, torch.Size]:
    """Names and shapes of a case's parameters."""
    return shapes(case.number("hidden"), case.number("layers"))


def stages(layers: int, count: int) -> list[range]:
    """The blocks of each pipeline stage; uneven where `count` does not divide `layers`."""
    bounds = [-(-layers * stage // count) for stage in range(count + 1)]
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


def part(
    case: Case, given: Tensors, blocks: range | None = None, around: Callable[..., Tensor] | None = None
) -> Decoder:
    """The decoder, or a stage of it, with the parameters that are given."""
    made = Decoder(case.number("hidden"), case.number("layers"), blocks, around)
    first = next(value for name, value in given.items() if name.startswith("parameters."))
    made = made.to(first.device, first.dtype)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(given[f"parameters.{name}"])
    return made


def checkpointed(case: Case) -> bool:
    """Whether a case has its blocks computed again in backward; suites without such an axis have not."""
    return bool(dict(case.axes).get("checkpointing", False))


def valid(case: Case) -> str | None:
    """Why the sizes of a case do not divide over its ranks, or None."""
    ranks, hidden, layers, batch, micro = (
        case.number(name) for name in ("world_size", "hidden", "layers", "batch", "micro_batches")
    )
    if hidden % (HEAD * ranks):
        return f"hidden={hidden}: must be a multiple of {HEAD} x world_size={ranks}"
    if layers < ranks:
        return f"layers={layers}: must be world_size={ranks} at least"
    if batch % ranks or batch % micro:
        return f"batch={batch}: must be a multiple of world_size={ranks} and of micro_batches={micro}"
    return None


def inputs(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """`tokens` [steps, batch, seq_len + 1], of which the last is a label only, and `parameters.NAME`."""
    generator = torch.Generator().manual_seed(seed)
    size = (STEPS, case.number("batch"), case.number("seq_len") + 1)
    drawn = {"tokens": torch.randint(0, VOCAB, size, generator=generator)}
    for name, shape in shapes_of(case).items():
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        scale = 1.0 if name.startswith("embed") else 1 / math.sqrt(shape[-1])
        value = value * scale if len(shape) > 1 else 0.1 * value + float("norm" in name and name.endswith("weight"))
        drawn[f"parameters.{name}"] = value.to(TORCH_DTYPES[case.word("dtype")])
    return {name: value.to(device) for name, value in drawn.items()}


def oracle(case: Case, given: Tensors) -> dict[str, Tensor]:
    """One process, float64: the losses of the steps, AdamW's average of their gradients, and the parameters after.

    `gradients.NAME` is the first moment, a weighted sum of the gradients of every step.
    """
    wide = {name: value.double() if value.is_floating_point() else value for name, value in given.items()}
    model = part(case, wide)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    losses = []
    for tokens in given["tokens"]:
        optimizer.zero_grad()
        found = loss(model(tokens[:, :-1]), tokens[:, 1:])
        found.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(found.detach())
    named = dict(model.named_parameters())
    return outputs(
        torch.stack(losses),
        {name: optimizer.state[p]["exp_avg"] for name, p in named.items()},
        {name: p.detach() for name, p in named.items()},
    )


def outputs(losses: Tensor, gradients: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is judged, by name."""
    found = {"loss": losses}
    found |= {f"gradients.{name}": value for name, value in gradients.items()}
    return found | {f"parameters.{name}": value for name, value in parameters.items()}


def tolerance(case: Case) -> float:
    """The norm-relative error that training on several ranks may have after five steps."""
    return LIMITS[case.word("dtype")]


def work(case: Case) -> Work:
    """Of one step, all ranks: 6 operations a weight a token, attention's two products; 28 bytes a parameter at fp32.

    The bytes are AdamW's: parameter, gradient and two moments read, all but the gradient written.
    """
    tokens, layers = case.number("batch") * case.number("seq_len"), case.number("layers")
    numel = sum(shape.numel() for shape in shapes_of(case).values())
    attention = 12 * layers * tokens * case.number("seq_len") * case.number("hidden")
    return Work(float(6 * numel * tokens + attention), float(7 * numel * TORCH_DTYPES[case.word("dtype")].itemsize))
