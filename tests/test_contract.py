"""What every registered suite and contender keeps to, whichever package it comes from."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import inspect
import math
import os
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st

from bancada import screen
from bancada.clock import CpuClock
from bancada.compiled import CompileSuite
from bancada.ranks import RanksSuite
from bancada.registry import GROUP, DuplicateSuite, discover
from bancada.screen import Question
from bancada.settings import Settings
from bancada.suite import AnySuite, Axis, Case, Contender, Device, Entry, KernelSuite, Scalar, Technique
from bancada.training import Task, TrainingContender, TrainingSuite
from bancada.training.points import points
from bancada.training.run import Bench, Run
from bancada.training.train import Curve

ROOT = Path(__file__).resolve().parents[1]
CPU = Device("cpu", "a CPU", 8 << 30, threads=1)
GPUS = tuple(Device("cuda", "a GPU", 80 << 30, capability=capability) for capability in ((7, 5), (8, 0), (9, 0)))
SUITES = discover()
PAIRS = [(suite, contender) for suite in SUITES.values() for contender in suite.contenders]
KERNELS = [suite for suite in SUITES.values() if isinstance(suite, KernelSuite)]
CALLS = [(suite, contender) for suite in KERNELS for contender in suite.contenders]
TRAININGS = [suite for suite in SUITES.values() if isinstance(suite, TrainingSuite)]
LEARNERS = [
    pytest.param(suite, contender, id=f"{suite.id}:{contender.id}", marks=[pytest.mark.slow] * contender.compiles)
    for suite in TRAININGS
    for contender in suite.contenders
]
TECHNIQUES = {technique.id: technique for suite in SUITES.values() for technique in suite.techniques}


def names(pair: tuple[AnySuite, Entry[Any]]) -> str:
    return f"{pair[0].id}:{pair[1].id}"


def missing(contender: Entry[Any]) -> str | None:
    """The first distribution that a contender needs and this environment lacks."""
    for name in contender.requires:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{name} is not installed"
    return None


def test_suites_are_found() -> None:
    assert {"attention.forward", "attention.training"} <= set(SUITES)


def test_two_suites_of_one_id_are_an_error() -> None:
    with pytest.raises(DuplicateSuite, match=r"attention\.forward.*twice"):
        discover(extra=["bancada_attention._suites:suites"])


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_a_suite_is_named_and_described(suite: AnySuite) -> None:
    assert suite.id.startswith(f"{suite.family}.")
    assert suite.title and suite.question.endswith("?")
    labels = [contender.label for contender in suite.contenders]
    assert len(set(labels)) == len(labels)
    if isinstance(suite, CompileSuite):
        assert {c.origin for c in suite.contenders} == {"bancada"}, "only our own kernels are compiled"
    elif suite.family != "harness":
        assert [c.origin for c in suite.contenders if c.reference] == ["peer"], "one plain reference of a library's"
        assert {c.origin for c in suite.contenders} == {"bancada", "peer"}
    again = discover()[suite.id]
    assert [c.id for c in again.contenders] == [c.id for c in suite.contenders]
    assert again.case().id == suite.case().id


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_work_is_positive_and_grows(suite: AnySuite) -> None:
    """More of the axis that matters is not less work; the reason for one shared work function is that it is checked."""
    axis = suite.axis(suite.x_axis)
    work = suite.work(suite.case(**suite.small))
    assert work.flops >= 0 and work.bytes > 0
    if axis.type is int:
        smaller, larger = map(suite.work, doubled(suite, axis))
        assert larger.flops >= smaller.flops and larger.bytes >= smaller.bytes


def doubled(suite: AnySuite, axis: Axis) -> tuple[Case, Case]:
    """A case and the one at twice its value of an axis: the small one, or the default where that cannot be doubled."""
    for values in (dict(suite.small), dict(suite.defaults)):
        try:
            case = suite.case(**values)
            return case, suite.case(**{**values, axis.name: 2 * case.number(axis.name)})
        except ValueError as error:
            said = error
    raise said


@pytest.mark.parametrize("pair", PAIRS, ids=names)
def test_supports_answers_with_a_reason_and_stays_with_it(pair: tuple[AnySuite, Entry[Any]]) -> None:
    suite, contender = pair
    cases = [suite.case(), suite.case(**suite.small)]
    for case in cases:
        for device in (CPU, *GPUS):
            said = contender.supports(case, device)
            assert said is None or (isinstance(said, str) and said.strip())
            assert contender.supports(case, device) == said
    assert not torch.cuda.is_initialized() or torch.cuda.is_available()


def check(contender: Contender, question: Question) -> None:
    """What a sweep's screening asks of a contender: right outputs and gradients from inputs that are then as they were.

    The first call is on other numbers, as there: a stored result is the wrong one. A second checked call must be right
    too.
    """
    inputs = {name: tensor.clone() for name, tensor in question.decoy.items()}
    run = contender.build(question.case, inputs)
    run()
    for _ in range(2):
        screen.restore(run, inputs, question)
        screen.check(run, inputs, question)
    assert not [name for name, output in run().items() if getattr(output, "requires_grad", False)]


@pytest.mark.parametrize("pair", CALLS, ids=names)
def test_a_contender_is_right_at_the_small_case(pair: tuple[KernelSuite, Contender]) -> None:
    suite, contender = pair
    case = suite.case(**suite.small)
    if reason := missing(contender) or contender.supports(case, CPU):
        pytest.skip(reason)
    check(contender, screen.ask(suite, case, CPU, seed=0))


def values_of(axis: Axis, usual: Scalar) -> st.SearchStrategy[Scalar]:
    """Small values of an axis: any word or truth, and numbers up to about its value in the small case."""
    if axis.choices:
        return st.sampled_from(axis.choices)
    if axis.type is bool:
        return st.booleans()
    if axis.type is int and isinstance(usual, int):
        least = int(axis.minimum or 0)
        return st.integers(least, max(least + 3, usual + usual // 4 + 1))
    return st.just(usual)


EXPLORE = "BANCADA_EXPLORE"
"""Set, it draws more cases, and others at every run: for a search, since a rare limit of a peer must fail no change."""


@pytest.mark.parametrize("suite", [s for s in KERNELS if s.family != "harness"], ids=lambda suite: suite.id)
@settings(
    deadline=None,
    max_examples=40 if os.environ.get(EXPLORE) else 12,
    derandomize=not os.environ.get(EXPLORE),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # the examples are small; making them smaller takes minutes
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data())
def test_contenders_are_right_at_any_small_case(suite: KernelSuite, data: st.DataObject) -> None:
    """Every contender that does not compile, at cases drawn from the suite's own axes."""
    usual = {**suite.defaults, **suite.small}
    values: dict[str, Any] = {
        axis.name: data.draw(values_of(axis, usual[axis.name]), label=axis.name) for axis in suite.axes
    }
    try:
        case = suite.case(**values)
    except ValueError:
        assume(False)
    seed = data.draw(st.integers(0, 1000), label="seed")
    question = screen.ask(suite, case, CPU, seed)
    for contender in suite.contenders:
        if not (contender.compiles or missing(contender) or contender.supports(case, CPU)):
            note(f"{contender.id} at {case.id}")
            check(contender, question)


# Training suites: what a sweep asks of a learner before and while it trains.


@functools.cache
def task_of(suite_id: str) -> tuple[Task, dict[str, float]]:
    """A suite's task at its small case, and what it says of its own untrained model."""
    suite = SUITES[suite_id]
    task = suite.task(suite.case(**suite.small), "cpu", 1)
    return task, dict(task.evaluate(task.model(), "held_out"))


@pytest.mark.parametrize("suite", TRAININGS, ids=lambda suite: suite.id)
def test_a_task_keeps_its_word(suite: TrainingSuite) -> None:
    """The same weights and batches at every call, other ones for another seed; every metric on both splits."""
    task, start = task_of(suite.id)
    for first, second in zip(task.model().parameters(), task.model().parameters(), strict=True):
        assert torch.equal(first, second)
    assert task.model().training
    for name, tensor in task.batch(3).items():
        assert torch.equal(tensor, task.batch(3)[name]), name
    assert any(not torch.equal(tensor, task.batch(4)[name]) for name, tensor in task.batch(3).items())
    other = suite.task(suite.case(**suite.small), "cpu", 2)
    assert any(not torch.equal(tensor, other.batch(0)[name]) for name, tensor in task.batch(0).items())
    needed = {metric.name for metric in suite.metrics}
    assert needed <= set(start) and needed <= set(task.evaluate(task.model(), "validation"))
    assert all(math.isfinite(value) for value in start.values())
    assert task.tokens_per_update > 0


@pytest.mark.parametrize(("suite", "contender"), LEARNERS)
def test_a_learner_starts_equal_and_learns(suite: TrainingSuite, contender: TrainingContender) -> None:
    """As in a sweep: the task's own start, finite losses, another model after three updates, bytes by kind."""
    case = suite.case(**suite.small)
    if reason := missing(contender) or contender.supports(case, CPU):
        pytest.skip(reason)
    task, start = task_of(suite.id)
    bench = Bench(CPU, CpuClock(), Settings(), lambda step, who, limit_s: None)
    run = Run(contender, task, points(contender.space, 1)[0], 1, bench, "contract")
    run.build(case)
    Curve(run).begin(suite, start)
    before = run.evaluate("held_out")
    for _ in range(3):
        run.update()
    assert run.evaluate("held_out") != before, "nothing was learnt"
    kept = run.state_bytes()
    assert kept["measure.bytes.parameters"] >= kept["measure.bytes.trainable"] > 0
    assert len({str(point) for point in points(contender.space, 4)}) == len(points(contender.space, 4))


@pytest.mark.parametrize("suite", TRAININGS, ids=lambda suite: suite.id)
def test_contenders_of_a_training_suite_are_tuned_alike(suite: TrainingSuite) -> None:
    """Equal trials: a space that has fewer points than another's would be an unequal chance."""
    assert len({len(points(contender.space, 4)) for contender in suite.contenders}) == 1


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=TECHNIQUES)
def test_a_technique_card_is_complete(technique: Technique) -> None:
    assert technique.title and technique.title_pt and technique.summary and technique.formula
    if technique.family == "harness":
        return
    assert "arXiv" in technique.paper
    assert 1 <= technique.summary.count(". ") + technique.summary.endswith(".") <= 3
    for path in technique.files:
        assert (ROOT / path).is_file(), f"{technique.id} names {path}, which is not there"


@pytest.mark.parametrize("technique", [t for t in TECHNIQUES.values() if t.snippet], ids=lambda technique: technique.id)
def test_a_technique_snippet_runs(technique: Technique, capsys: pytest.CaptureFixture[str]) -> None:
    supported = [
        contender.supports(suite.case(**suite.small), CPU)
        for suite, contender in PAIRS
        if contender.technique == technique.id
    ]
    if supported and all(supported):
        pytest.skip(str(supported[0]))
    exec(compile(technique.snippet, f"snippet of {technique.id}", "exec"), {"__name__": "snippet"})
    assert capsys.readouterr().out.strip(), "a snippet shows what it made"


# Nothing public is left unmeasured by accident.


def public_callables(module: types.ModuleType) -> list[str]:
    """The functions and classes that a package offers by name."""
    offered: Iterable[str] = getattr(module, "__all__", ())
    return sorted(name for name in offered if callable(getattr(module, name)))


def once(suite: AnySuite, contender: Entry[Any]) -> None:
    """A contender's work at the small case, once: a call, or an update."""
    case = suite.case(**suite.small)
    if isinstance(suite, TrainingSuite):
        task, _ = task_of(suite.id)
        contender.build(case, task, points(contender.space, 1)[0]).update(task.batch(0))
    else:
        contender.build(case, suite.inputs(case, "cpu", 0))()


def named_by(build: Callable[..., Any]) -> set[str]:
    """Every name in the module where a contender's `build` is written."""
    while isinstance(build, functools.partial):
        build = build.func
    tree = ast.parse(inspect.getsource(importlib.import_module(build.__module__)))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def unmeasured(
    module: types.ModuleType, suites: Iterable[AnySuite], excluded: Mapping[str, str], patch: Callable[..., None]
) -> list[str]:
    """Public callables that no contender of ours calls, and that are not excluded: found by running them all.

    Of suites on several ranks: by what the modules that build them name.
    """
    called: set[str] = set()

    def watch(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return original(*args, **kwargs)

        return watched

    offered = public_callables(module)
    for name in offered:
        if inspect.isfunction(getattr(module, name)):
            patch(module, name, watch(name, getattr(module, name)))
    for suite in suites:
        case = suite.case(**suite.small)
        for contender in suite.contenders:
            if contender.origin != "bancada":
                continue
            if isinstance(suite, CompileSuite):
                continue  # compiled, and not called
            if isinstance(suite, RanksSuite):
                called |= named_by(contender.build)
            elif not (missing(contender) or contender.supports(case, CPU)):
                once(suite, contender)
    return [name for name in offered if name not in called and name not in excluded]


PACKAGES = [(point.name, point.value) for point in importlib.metadata.entry_points(group=GROUP)]


@pytest.mark.parametrize(("name", "registration"), [pair for pair in PACKAGES if pair[0] != "harness"])
def test_every_public_implementation_is_measured_or_excluded(
    name: str, registration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, function = registration.split(":")
    registered = importlib.import_module(where)
    package = importlib.import_module(where.split(".")[0])
    excluded: Mapping[str, str] = registered.EXCLUDED
    assert public_callables(package), f"{package.__name__} offers nothing in __all__"
    assert all(reason.strip() for reason in excluded.values())
    assert set(excluded) <= set(public_callables(package)), "an exclusion names something that is not there"
    assert unmeasured(package, getattr(registered, function)(), excluded, monkeypatch.setattr) == []


def test_an_unmeasured_implementation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    package, registered = (importlib.import_module(f"bancada_attention{part}") for part in ("", "._suites"))
    monkeypatch.setattr(package, "forgotten", lambda: None, raising=False)
    monkeypatch.setattr(package, "__all__", [*package.__all__, "forgotten"])
    assert unmeasured(package, registered.suites(), {}, monkeypatch.setattr) == ["forgotten"]
    assert unmeasured(package, registered.suites(), {"forgotten": "a reason"}, monkeypatch.setattr) == []
