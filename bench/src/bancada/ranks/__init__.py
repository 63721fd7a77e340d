"""Suites on several processes: parity, bytes, calls, memory and step times of ranks under torchrun."""

from bancada.ranks.declare import RankRun, Ranks, RanksContender, RanksSuite

__all__ = ["RankRun", "Ranks", "RanksContender", "RanksSuite"]
