"""The settings of a sweep and the job that a child process is handed, both as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bancada.suite import Device, Scalar

ISOLATE = ("none", "process")


def _check_number(name: str, value: object, whole: bool) -> None:
    """ValueError unless `value` is a finite number above 0, and an int where it must be `whole`."""
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    right = number and 0 < float(value) < math.inf  # type: ignore[arg-type]
    if not right:
        raise ValueError(f"{name}={value!r}: must be a {'whole' if whole else 'finite'} number above 0")


@dataclass(frozen=True)
class Settings:
    """How hard to measure.

    Args:
        rounds: paired rounds of a race, where the budget allows.
        least_rounds: rounds even where the budget does not.
        most_rounds: the cap while a comparison is undecided.
        sample_s: about how long one sample takes; shorter calls are looped.
        budget_s: time for one case's race.
        call_limit_s: a single call that takes longer is a hang.
        compile_limit_s: the same for building a contender and its first call.
        oracle_limit_s: the same for the float64 answer.
        seed: of inputs, shuffles and bootstraps.
        seeds: runs of a training suite, each with other first weights and batches.
        trials: points of its search space that each contender of a training suite tries.
        energy_s: about how long a contender is called in a row to read its energy, where the device tells it.
        isolate: `process` gives every contender of a kernel suite a fresh process for each block of rounds, `none` not.
        blocks: of rounds, each in a process of its own, that every contender gets then.
        block_rounds: rounds in one of them.
        update_limit_s: a training update, or a step of ranks, that takes longer is a hang.
    """

    rounds: int = 30
    least_rounds: int = 5
    most_rounds: int = 120
    sample_s: float = 0.0075
    budget_s: float = 15.0
    call_limit_s: float = 120.0
    compile_limit_s: float = 300.0
    oracle_limit_s: float = 900.0
    seed: int = 0
    seeds: int = 3
    trials: int = 4
    energy_s: float = 0.3
    isolate: str = "none"
    blocks: int = 8
    block_rounds: int = 10
    update_limit_s: float = 60.0

    def __post_init__(self) -> None:
        for field_ in dataclasses.fields(self):
            if field_.name not in ("seed", "isolate"):
                _check_number(field_.name, getattr(self, field_.name), whole=isinstance(field_.default, int))
        if self.isolate not in ISOLATE:
            raise ValueError(f"isolate={self.isolate!r}: allowed are {', '.join(ISOLATE)}")
        if self.isolate == "process" and self.blocks < 2:
            raise ValueError(f"blocks={self.blocks}: must be at least 2, or nothing tells how sure a verdict is")
        if not self.least_rounds <= self.rounds <= self.most_rounds:
            raise ValueError(
                f"rounds={self.rounds}: must lie between "
                f"least_rounds={self.least_rounds} and most_rounds={self.most_rounds}"
            )

    def affordable(self, budget_s: float, round_s: float) -> int:
        """Rounds of about `round_s` seconds that a budget pays for: the planned ones at most, the least in any case."""
        return max(self.least_rounds, min(self.rounds, int(budget_s / max(round_s, 1e-9))))


class Asked(Protocol):
    """A case as it was asked for."""

    @property
    def contenders(self) -> tuple[str, ...]:
        """Who races."""

    @property
    def budget_s(self) -> float:
        """For how long."""

    @property
    def seeds(self) -> int | None:
        """From how many seeds; as many as the settings say where None."""


@dataclass(frozen=True)
class JobCase:
    """One case for a child to measure: where it is, and who races."""

    suite: str
    axes: dict[str, Scalar]
    contenders: tuple[str, ...]
    budget_s: float
    seeds: int | None = None  # in place of the settings' own


@dataclass(frozen=True)
class Job:
    """All that a child process needs to know.

    `stamp` holds the fields that every row of the run carries; `ceilings` FLOP/s and bytes/s by dtype;
    `identical` asks for a single `aa` row a case in place of its cells.
    """

    run_dir: Path
    cases: tuple[JobCase, ...]
    device: Device
    settings: Settings
    stamp: dict[str, str | int]
    matmul_ceiling: dict[str, float] = field(default_factory=dict)
    copy_ceiling: dict[str, float] = field(default_factory=dict)
    extra_suites: tuple[str, ...] = ()
    identical: bool = False

    def stamped(self, asked: Asked) -> dict[str, Any]:
        """The stamp for the rows of a case, with what it takes to measure them again."""
        settings = dataclasses.replace(self.settings, budget_s=asked.budget_s, seeds=asked.seeds or self.settings.seeds)
        again = {"settings": settings, "raced": asked.contenders, "extra": self.extra_suites}
        return self.stamp | again

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self) | {"run_dir": str(self.run_dir)}), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Job:
        """The job that `write` wrote."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        capability = raw["device"]["capability"]
        return cls(
            run_dir=Path(raw["run_dir"]),
            cases=tuple(JobCase(**(case | {"contenders": tuple(case["contenders"])})) for case in raw["cases"]),
            device=Device(**(raw["device"] | {"capability": tuple(capability) if capability else None})),
            settings=Settings(**raw["settings"]),
            stamp=raw["stamp"],
            matmul_ceiling=raw["matmul_ceiling"],
            copy_ceiling=raw["copy_ceiling"],
            extra_suites=tuple(raw["extra_suites"]),
            identical=raw["identical"],
        )
