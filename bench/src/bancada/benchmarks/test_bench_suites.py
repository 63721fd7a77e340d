"""Benchmarks of suites that bring no benchmark file of their own."""

from typing import Any


def test_bench(bancada_item: Any, benchmark: Any) -> None:
    bancada_item.run(benchmark)
