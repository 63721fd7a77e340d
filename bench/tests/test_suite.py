"""Suites, axes, cases and their registration."""

from __future__ import annotations

import dataclasses
from importlib.metadata import EntryPoint

import pytest
from _planted import honest, sound

from bancada import registry
from bancada.suite import Axis, Contender, KernelSuite

SIZE = Axis("seq_len", "s{}", int, minimum=1)
CAUSAL = Axis("causal", "causal|full", bool)
DTYPE = Axis("dtype", "{}", str, choices=("fp32", "bf16"))
SCALE = Axis("scale", "x{}", float)


def test_values_from_text() -> None:
    assert [SIZE.parse("4"), CAUSAL.parse("False"), DTYPE.parse("bf16"), SCALE.parse("2")] == [4, False, "bf16", 2.0]


@pytest.mark.parametrize(
    ("axis", "text", "message"),
    [
        (SIZE, "four", "seq_len='four': not a whole number"),
        (SIZE, "0", "seq_len=0: must be at least 1"),
        (SIZE, "1.5", "seq_len='1.5'"),
        (CAUSAL, "perhaps", "causal='perhaps': allowed are true, false"),
        (DTYPE, "fp4", "dtype='fp4': allowed are fp32, bf16"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(axis: Axis, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        axis.parse(text)


def test_true_is_not_the_number_one() -> None:
    with pytest.raises(ValueError, match="seq_len=True"):
        SIZE.check(True)


def test_a_case_id_is_readable_and_in_the_order_of_the_axes() -> None:
    suite = sound()[0]
    assert suite.case(repeat=3).id == "r3-fp32"
    assert suite.case()["repeat"] == 0
    with pytest.raises(ValueError, match="has no axis 'repeats'"):
        suite.case(repeats=3)


def test_two_contenders_of_one_id_are_refused() -> None:
    suite = sound()[0]
    with pytest.raises(ValueError, match="twice: same"):
        suite.with_contenders([honest("same"), honest("same")])


def test_a_contender_of_an_undeclared_technique_is_refused() -> None:
    suite = sound()[0]
    with pytest.raises(ValueError, match="technique='magic'"):
        suite.with_contenders([Contender("a", "magic", "peer", suite.contenders[0].build)])


def _points(*values: str) -> list[EntryPoint]:
    return [EntryPoint(name=value, value=value, group=registry.GROUP) for value in values]


def test_a_contender_of_cases_that_cannot_be_is_refused() -> None:
    suite = sound()[0]
    for only, message in (({"repeats": (0,)}, "has no axis 'repeats'"), ({"repeat": ("a",)}, "repeat='a'")):
        with pytest.raises(ValueError, match=message):
            suite.with_contenders([dataclasses.replace(suite.contenders[0], only=only)])


def test_two_suites_of_one_id_are_an_error_never_an_overwrite() -> None:
    with pytest.raises(registry.DuplicateSuite, match=r"planted\.sound.*registered twice"):
        registry.discover(_points("_planted:sound"), extra=["_planted:sound"])


def test_suites_are_found_through_entry_points() -> None:
    found = registry.discover(_points("_planted:sound", "_planted:faulty"))
    assert sorted(found) == ["planted.faults", "planted.sound"]
    assert all(isinstance(suite, KernelSuite) for suite in found.values())


def test_an_unknown_suite_lists_near_names() -> None:
    with pytest.raises(ValueError, match=r"did you mean planted\.sound"):
        registry.choose(registry.discover(_points("_planted:sound")), "planted.sund")
