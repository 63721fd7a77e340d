"""Made-up runs and the verdict on them."""

from __future__ import annotations

from typing import Any

import _synthetic as made
from _asked import raced

from bancada.verdicts import Verdict, verdicts

NARROW = made.Recipe().grid | {"dtype": ["fp32"], "causal": [True]}


def judge(**changes: Any) -> Verdict:
    """The verdict on `attention.forward` of a made-up run over seven lengths."""
    recipe = made.Recipe(**({"grid": NARROW, "suites": ("attention.forward",)} | changes))
    (found,) = verdicts(list(made.make_rows(recipe)), made.plan(recipe), made.catalogue(recipe))
    return found


def rules(times: dict[str, dict[str, float]], width: int = 256) -> list[dict[str, Any]]:
    """An optimizer's step by rule: each rule has contenders of its own, those named `my-*` are ours."""
    technique = {one: one for by_rule in times.values() for one in by_rule}
    mine = [one for one in technique if one.startswith("my-")]
    return [
        row
        for rule, one in times.items()
        for row in raced("optimizers.step", {"rule": rule, "width": width}, one, technique, reference="loop", ours=mine)
    ]
