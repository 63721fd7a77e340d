from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# importlib mode puts no test folder there: the pool and the jobs live here. Ranks inherit the path.
sys.path.insert(0, str(Path(__file__).parent))

from parallel_pool import Pool

hypothesis.settings.register_profile("bancada_parallelism", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("bancada_parallelism")


@pytest.fixture(scope="session")
def two_ranks() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def four_ranks() -> Iterator[Pool]:
    pool = Pool(4)
    yield pool
    pool.close()
