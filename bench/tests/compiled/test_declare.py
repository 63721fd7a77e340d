"""What a compile suite refuses, by the name of what is wrong; its code, and the guess of its time."""

from __future__ import annotations

import dataclasses
from typing import Any

import _planted_compiled as planted
import pytest
from _compiled_rows import CPU

from bancada import sweep
from bancada.compiled.declare import target_axis
from bancada.compiled.estimate import COMPILE_S
from bancada.settings import Settings

SUITE = planted.suite(planted.SOUND)
_, *OTHERS = SUITE.axes


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"axes": tuple(OTHERS)}, "needs an axis target"),
        ({"configuration": ("block", "tile")}, r"configuration names tile, its axes are \['block', 'dtype'"),
        ({"sizes": ("width",)}, r"sizes names width, its axes are \["),
        ({"configuration": ()}, r"configuration=\(\): at least one axis"),
    ],
)
def test_what_a_suite_lacks_is_named(changed: dict[str, Any], word: str) -> None:
    if "axes" in changed:
        changed["defaults"] = {name: value for name, value in SUITE.defaults.items() if name != "target"}
    with pytest.raises(ValueError, match=f"suite planted.compile: .*{word}"):
        dataclasses.replace(SUITE, **changed)


def test_a_target_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"targets=\('sm_80', 'sm_42'\): allowed are sm_80, sm_90, gfx942"):
        target_axis("sm_80", "sm_42")


def test_the_code_is_what_neither_target_nor_configuration_nor_size_is() -> None:
    assert SUITE.code == ("dtype",) and SUITE.kind == "compile"


def test_a_guess_of_the_time_counts_who_can_be_compiled() -> None:
    suite = planted.suite()
    names = tuple(contender.id for contender in suite.contenders)
    guess = sweep.estimate_s(sweep.Planned(suite, suite.case(), names, 9.0), Settings(), 1e11, CPU)
    assert guess == COMPILE_S * (len(names) - 1), "one says that it cannot"
