"""The screening, in this process, with contenders whose behaviour is known."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from _planted import PLANTS, sound
from _racing import CLOCK, QUICK, Virtual, question, screened

from bancada import memory, screen
from bancada.screen import Failed
from bancada.suite import Case, Contender, Device, Run, Tensors


def test_warm_up_goes_on_until_successive_medians_agree_and_calls_at_least_once() -> None:
    """triton 2306: a fixed warm-up in ms under-warms slow kernels (case 1)."""
    clock, lengths = Virtual(), [30.0, 20.0, 10.0, 8.0, 6.0, 4.0] + [1.0] * 100
    left = iter(lengths)
    estimate = screen.warm_up(clock.spend(lambda: next(left)), clock)
    assert estimate == 1.0 and len(list(left)) == 100 - 5
    calls = 0

    def once() -> dict[str, Any]:
        nonlocal calls
        calls += 1
        return {}

    screen.warm_up(once, CLOCK, limit_s=0.0)
    assert calls == 1


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("zeros", "incorrect", "off by"),
        ("cached", "incorrect", "off by"),
        ("in-place", "incorrect", "changed its inputs in place: x"),
        ("not-a-number", "incorrect", "off by inf"),
        ("nameless", "incorrect", "gives no out"),
        ("imports-nothing", "unsupported", "a_library_that_is_not_there"),
        ("not-installed", "unsupported", "no-such-distribution is not installed"),
        ("not-here", "unsupported", "needs a machine"),
        ("raises", "crashed", "KeyError"),
        ("asks-for-too-much", "out_of_memory", "memory"),
    ],
)
def test_planted_cheats_and_faults_are_caught_while_screening(name: str, status: str, said: str, cpu: Device) -> None:
    assert name in PLANTS or name.startswith("not-")
    with pytest.raises(Failed) as caught:
        screened(name, cpu)
    assert caught.value.status == status and said in caught.value.reason


def test_an_honest_contender_passes_with_its_facts(cpu: Device) -> None:
    passed = screened("honest-a", cpu)
    assert 0 < passed.facts["error_max"] < 1e-3 and 0 < passed.facts["error_limit_share"] < 1
    assert passed.facts["peak_bytes"] == 192 * 192 * 4
    assert passed.facts["first_call_s"] > 0 and passed.estimate_s > 0


def test_contenders_work_on_the_same_memory_and_get_their_own_of_what_they_may_change(cpu: Device) -> None:
    seen: list[int] = []

    def build(case: Case, inputs: Tensors) -> Run:
        seen.append(inputs["x"].data_ptr())
        return lambda: {"out": inputs["x"] @ inputs["x"]}

    contenders = [Contender(name, "planted", "bancada", build) for name in ("a", "b")]
    for mutates in ((), ("x",)):
        suite = dataclasses.replace(sound()[0].with_contenders(contenders), mutates=mutates)
        asked = question(suite, cpu)
        kept = [screen.screen(one, asked, cpu, CLOCK, QUICK, lambda step, limit: None) for one in contenders]
        assert len(kept) == 2
    assert seen[0] == seen[1] and seen[2] != seen[3]


def test_inputs_are_the_same_for_every_contender_and_fresh_by_seed(cpu: Device) -> None:
    suite = sound()[0]
    first, second = question(suite, cpu), question(suite, cpu)
    assert torch.equal(first.inputs["x"], second.inputs["x"])
    assert not torch.equal(first.inputs["x"], first.decoy["x"])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12 bytes"), "out_of_memory"),
        (ImportError("no libfoo"), "unsupported"),
        (NotImplementedError("no backward on CPU"), "unsupported"),
        (type("OutOfResources", (Exception,), {})("shared memory, Required: 300000"), "unsupported"),
        (RuntimeError("boom"), "crashed"),
    ],
)
def test_exceptions_become_typed_statuses(error: BaseException, status: str) -> None:
    """tritonbench 873: OutOfResources ended the run (case 12)."""
    assert screen.failure(error).status == status


def test_peak_memory_sees_what_is_freed_on_the_way_and_inside_operators(cpu: Device) -> None:
    size = 1 << 20

    def call() -> torch.Tensor:
        first = torch.empty(2 * size, dtype=torch.uint8)
        second = torch.empty(3 * size, dtype=torch.uint8)
        del first, second
        return torch.empty(size, dtype=torch.uint8)

    assert memory.peak(call, cpu).allocated == 5 * size


class Counter:
    """A stateful contender: every call adds x to its sum."""

    def __init__(self, inputs: Tensors, keeps_state: bool) -> None:
        self._x, self._sum, self._keeps = inputs["x"], torch.zeros_like(inputs["x"]), keeps_state

    def __call__(self) -> Tensors:
        self._sum = self._sum + self._x @ self._x
        return {"out": self._sum, "measure.state_bytes": torch.tensor(float(self._sum.nbytes))}

    def reset(self) -> None:
        if not self._keeps:
            self._sum = torch.zeros_like(self._x)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_stateful_contender_is_judged_from_its_start_and_its_measures_are_kept(keeps: bool, cpu: Device) -> None:
    contender = Contender("counter", "planted", "bancada", lambda case, inputs: Counter(inputs, keeps))
    suite = dataclasses.replace(sound()[0].with_contenders([contender]), stateful=True)
    if keeps:  # one that does not go back is told: its answer goes on from the decoy's
        with pytest.raises(Failed, match="off by"):
            screen.screen(contender, question(suite, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
        return
    passed = screen.screen(contender, question(suite, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
    assert passed.facts["measure.state_bytes"] == 192 * 192 * 4


def test_static_inputs_may_be_worked_on_before_the_first_call(cpu: Device) -> None:
    def build(case: Case, inputs: Tensors) -> Run:
        weight = inputs["x"].clone()
        return lambda: {"out": weight @ weight}

    contender = Contender("prepared", "planted", "bancada", build)
    plain = sound()[0].with_contenders([contender])
    with pytest.raises(Failed, match="off by"):
        screen.screen(contender, question(plain, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
    static = dataclasses.replace(plain, static=("x",))
    screen.screen(contender, question(static, cpu), cpu, CLOCK, QUICK, lambda step, limit: None)
