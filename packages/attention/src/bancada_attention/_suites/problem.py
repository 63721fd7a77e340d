"""What the attention suites ask: axes, inputs, the mask, and the work of a call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from bancada.ceilings import TORCH_DTYPES
from bancada.suite import DTYPES, Axis, Case, Scalar, Work

BACKWARD_TO_FORWARD = 2.5
"""Matrix products of the backward pass to those of the forward: S again, dP, dQ, dK, dV against S and O."""


@dataclass(frozen=True)
class _SameAs(Axis):
    """A whole number for which 0 means 'the same as another axis', and is not written into a case id."""

    def write(self, value: Scalar) -> str:
        """Nothing for 0."""
        return super().write(value) if value else ""


AXES = (
    Axis("batch", "b{}", minimum=1, scale="log"),
    Axis("heads", "h{}", minimum=1, scale="log"),
    _SameAs("kv_heads", "kv{}", minimum=0, unit="0: as many as heads"),
    Axis("seq_len", "s{}", minimum=1, unit="tokens", scale="log"),
    _SameAs("kv_len", "k{}", minimum=0, unit="tokens, 0: as many as seq_len"),
    Axis("head_dim", "d{}", minimum=1, scale="log"),
    Axis("causal", "causal|full", bool),
    Axis("dtype", "{}", str, choices=DTYPES),
)
DEFAULTS: dict[str, Scalar] = {
    "batch": 1,
    "heads": 8,
    "kv_heads": 0,
    "seq_len": 1024,
    "kv_len": 0,
    "head_dim": 64,
    "causal": True,
    "dtype": "fp32",
}
SMALL: dict[str, Scalar] = {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 64, "head_dim": 16}


@dataclass(frozen=True)
class Shape:
    """The sizes of a case, with the zeros of `kv_heads` and `kv_len` filled in."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    causal: bool
    dtype: torch.dtype

    @classmethod
    def of(cls, case: Case) -> Shape:
        """The shape of a case."""
        heads, queries = case.number("heads"), case.number("seq_len")
        return cls(
            batch=case.number("batch"),
            heads=heads,
            kv_heads=case.number("kv_heads") or heads,
            queries=queries,
            keys=case.number("kv_len") or queries,
            dim=case.number("head_dim"),
            causal=case.flag("causal"),
            dtype=TORCH_DTYPES[case.word("dtype")],
        )

    @property
    def group(self) -> int:
        """Query heads that share a key-value head."""
        return self.heads // self.kv_heads

    @property
    def offset(self) -> int:
        """How far the causal diagonal lies to the right: query i sees the keys up to i + offset (bottom-right)."""
        return self.keys - self.queries

    @property
    def pairs(self) -> int:
        """Unmasked query-key pairs of one head: queries * keys, or the exact count under the causal mask."""
        if not self.causal:
            return self.queries * self.keys
        return self.queries * self.offset + self.queries * (self.queries + 1) // 2

    def mask(self, device: torch.device | str, first: int = 0, last: int | None = None) -> torch.Tensor | None:
        """True where query rows first..last may attend, [rows, keys]; None where all may."""
        if not self.causal:
            return None
        rows = torch.arange(first, self.queries if last is None else last, device=device)
        return torch.arange(self.keys, device=device) <= rows[:, None] + self.offset


def valid(case: Case) -> str | None:
    """Why a case makes no sense, or None."""
    shape = Shape.of(case)
    if shape.heads % shape.kv_heads:
        return f"kv_heads={shape.kv_heads} must divide heads={shape.heads} (0: as many as heads)"
    if shape.causal and shape.offset < 0:
        return f"causal with kv_len={shape.keys} below seq_len={shape.queries}: the first rows would see no key"
    return None


def forward_inputs(case: Case, device: str, seed: int) -> dict[str, torch.Tensor]:
    """q [batch, heads, seq_len, head_dim], k and v [batch, kv_heads, kv_len, head_dim], from N(0, 1).

    Drawn on the CPU in fp32 (fp64 for fp64) and then rounded and moved: the same numbers on every device.
    """
    return draw(Shape.of(case), "qkv", device, seed)


def training_inputs(case: Case, device: str, seed: int) -> dict[str, torch.Tensor]:
    """`forward_inputs` and `dout`, the gradient of the output, of q's shape."""
    return draw(Shape.of(case), (*"qkv", "dout"), device, seed)


def draw(shape: Shape, names: Iterable[str], device: torch.device | str, seed: int) -> dict[str, torch.Tensor]:
    """Inputs of a shape, by name."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.float64 if shape.dtype == torch.float64 else torch.float32
    many = (shape.batch, shape.heads, shape.queries, shape.dim)
    few = (shape.batch, shape.kv_heads, shape.keys, shape.dim)
    return {
        name: torch.randn(few if name in "kv" else many, generator=generator, dtype=drawn).to(device, shape.dtype)
        for name in names
    }


def forward_work(case: Case) -> Work:
    """4 * batch * heads * head_dim * unmasked pairs operations; q, k, v read once and the output written once."""
    shape = Shape.of(case)
    return Work(
        flops=4.0 * shape.batch * shape.heads * shape.dim * shape.pairs,
        bytes=float((2 * query_size(shape) + 2 * key_size(shape)) * shape.dtype.itemsize),
    )


def training_work(case: Case) -> Work:
    """3.5 times the forward's operations: the backward pass has five matrix products to the forward's two.

    Least bytes: the forward's, and of the backward q, k, v, the output and its gradient read, dq, dk and dv
    written. The log-sum-exp (a number a row) is left out, and so is whatever a method recomputes or keeps.
    """
    shape, forward = Shape.of(case), forward_work(case)
    backward = (4 * query_size(shape) + 4 * key_size(shape)) * shape.dtype.itemsize
    return Work(flops=forward.flops * (1 + BACKWARD_TO_FORWARD), bytes=forward.bytes + float(backward))


def query_size(shape: Shape) -> int:
    """Numbers in the queries, or in the output."""
    return shape.batch * shape.heads * shape.queries * shape.dim


def key_size(shape: Shape) -> int:
    """Numbers in the keys, or in the values."""
    return shape.batch * shape.kv_heads * shape.keys * shape.dim
