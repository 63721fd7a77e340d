"""What became of every part of a model that holds parameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerReport:
    """One module that holds parameters of its own.

    `format` is what it became, or empty where it was kept, and `reason` then says why. `sqnr_db` is the signal to
    quantisation noise of its weight, 10 log10(sum w^2 / sum (w - q)^2) (infinite where nothing was lost).
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    format: str
    reason: str
    bytes_before: int
    bytes_after: int
    sqnr_db: float | None


@dataclass(frozen=True)
class ModelReport:
    """Every module that holds parameters, in the model's order; a parameter that two share counts where it is first."""

    layers: tuple[LayerReport, ...]

    @property
    def bytes_before(self) -> int:
        """Bytes of all parameters before."""
        return sum(layer.bytes_before for layer in self.layers)

    @property
    def bytes_after(self) -> int:
        """Bytes of the same modules after: codes, scales, and what was kept."""
        return sum(layer.bytes_after for layer in self.layers)

    def __str__(self) -> str:
        """A table, one line a layer."""
        lines = [f"{'layer':40} {'kind':20} {'became':20} {'bytes before':>14} {'after':>14} {'SQNR dB':>8}"]
        for one in self.layers:
            noise = "" if one.sqnr_db is None else f"{one.sqnr_db:.1f}"
            became = one.format or f"kept: {one.reason}"
            lines.append(
                f"{one.name:40} {one.kind:20} {became:20} {one.bytes_before:14,} {one.bytes_after:14,} {noise:>8}"
            )
        lines.append(f"{'all':40} {'':20} {'':20} {self.bytes_before:14,} {self.bytes_after:14,}")
        return "\n".join(lines)
