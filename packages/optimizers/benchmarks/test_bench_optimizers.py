"""Optimizers, measured: one item a contender, or one a case where a sweep races them."""

from typing import Any

import pytest

# A library's warning is no failure of a measurement, so warnings are told here, and not errors.
pytestmark = [pytest.mark.bancada("optimizers"), pytest.mark.filterwarnings("default")]


def test_bench(bancada_item: Any, benchmark: Any) -> None:
    bancada_item.run(benchmark)
