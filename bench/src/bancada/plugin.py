"""The pytest plugin: turns suites into benchmark items.

Plain, `pytest packages/attention/benchmarks`: one item for each suite and contender, at the suite's
default case, in the familiar table. Race, as the sweep runs it (`--bancada-job JOB`): one item a case.
A benchmark file holds the marker `bancada("<family>")` and a test that takes `bancada_item`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

OPTION = "--bancada-job"
ITEMS = {  # by the suite's kind: where its items are made, of a case (race) and of a contender (plain)
    "kernel": ("bancada.bench", "RaceItem", "PlainItem"),
    "training": ("bancada.training.item", "TrainingItem", "PlainTrainingItem"),
    "compile": ("bancada.compiled.item", "CompileItem", ""),  # nothing is timed, so there is no plain item
}  # suites on several ranks have processes of their own


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that a sweep's child processes are started with."""
    group = parser.getgroup("bancada")
    group.addoption(
        OPTION,
        metavar="FILE",
        default=None,
        help="measure the cases of this job file as races (set by `bancada sweep`)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", "bancada(family): a benchmark file over that family's suites")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item a case (race) or a contender (plain)."""
    if "bancada_item" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("bancada")
    family = str(marker.args[0]) if marker and marker.args else None
    items = _race_items(metafunc.config) if metafunc.config.getoption(OPTION) else _plain_items(family)
    metafunc.parametrize("bancada_item", items, ids=[item.id for item in items], indirect=True)


def _race_items(config: pytest.Config) -> list[Any]:
    from bancada.registry import discover

    worker = _worker(config)
    suites = discover(extra=worker.job.extra_suites)
    chosen = [(suites[planned.suite], planned) for planned in worker.job.cases]
    return [_item_class(suite, 1)(worker, suite, planned) for suite, planned in chosen if suite.kind in ITEMS]


def _item_class(suite: Any, place: int) -> Any:
    return getattr(importlib.import_module(ITEMS[suite.kind][0]), ITEMS[suite.kind][place])


def _worker(config: pytest.Config) -> Any:
    """The one worker of this process, made on first use."""
    found = getattr(config, "_bancada_worker", None)
    if found is None:
        from bancada.bench import Worker
        from bancada.limits import apply, die_with_parent
        from bancada.settings import Job

        job = Job.load(Path(config.getoption(OPTION)))
        die_with_parent()
        apply(job.device)
        found = Worker(job)
        config._bancada_worker = found  # type: ignore[attr-defined]
    return found


def _plain_items(family: str | None) -> list[Any]:
    from bancada.machine import device
    from bancada.registry import discover
    from bancada.settings import Settings

    chosen, settings = device(), Settings()
    plain = {kind for kind, names in ITEMS.items() if names[2]}
    suites = [suite for suite in discover().values() if family in (None, suite.family) and suite.kind in plain]
    return [
        _item_class(suite, 2)(suite, suite.case(), contender, chosen, settings)
        for suite in suites
        for contender in suite.contenders
    ]


@pytest.fixture
def bancada_item(request: pytest.FixtureRequest) -> Any:
    """The item to run: `bancada_item.run(benchmark)`."""
    return request.param


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives benchmark items their clock, through pytest-benchmark's own marker."""
    timed = [item for item in items if "bancada_item" in getattr(item, "fixturenames", ())]
    if not timed:
        return
    from bancada.clock import clock_for

    worker = getattr(config, "_bancada_worker", None)
    for item in timed:
        device = worker.job.device if worker else item.callspec.params["bancada_item"].device  # type: ignore[attr-defined]
        clock = worker.clock if worker else clock_for(device)
        item.add_marker(pytest.mark.benchmark(timer=clock, disable_gc=True, warmup=False))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tells the parent that the child came to its end by itself."""
    worker = getattr(session.config, "_bancada_worker", None)
    if worker is not None:
        worker.heart.beat("done", 60.0)
        worker.heart.close()
