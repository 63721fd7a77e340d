"""Recorded races of identical contenders, and what the rules of this harness say of them.

A trace holds the seconds of every round of every contender of such a race. Every pair of one race is a comparison whose
right answer is known, 1; and 1.05 where one of the two is multiplied by it. Replaying the looks of a race over them
shows how often a verdict would have been false, and how often a planted difference would have been found, with the
noise of a real machine and always the same figures. A race that was recorded for fewer rounds than the cap is over
where its record ends, as one is whose time is up. Pairs of one race share its rounds, so they are not independent of
one another; races are.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bancada.looks import IN_BETWEEN, further
from bancada.rows import Row, head
from bancada.settings import Settings
from bancada.stability import unstable
from bancada.stats import CONFIDENCE, Floats, decided, sides, trimmed

FILE = Path(__file__).parent / "recorded" / "identical.npz"
DRIFT = 1.3
HUMP = 1.6


@dataclass(frozen=True)
class Traces:
    """Races, each as seconds a call, [contenders, rounds], and where they were taken: device, versions, date."""

    races: tuple[Floats, ...]
    facts: dict[str, Any]

    def log_ratios(self) -> list[Floats]:
        """Of every pair, [pairs, rounds]; races of equally many rounds together."""
        found: dict[int, list[Floats]] = {}
        for times in self.races:
            first, second = np.triu_indices(len(times), k=1)
            logs = np.log(times)
            found.setdefault(times.shape[1], []).append(logs[first] - logs[second])
        return [np.concatenate(of_one_length) for of_one_length in found.values()]


@dataclass(frozen=True)
class Replayed:
    """What the looks of a race say of each comparison (-1, 0 or 1, as `stats.sides`), and after how many rounds."""

    said: NDArray[np.int64]
    rounds: NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """`part` of `whole`."""

    part: int
    whole: int

    @property
    def value(self) -> float:
        """Between 0 and 1."""
        return self.part / self.whole

    def __str__(self) -> str:
        return f"{self.value:.1%}"


def replay(log_ratios: Floats, settings: Settings) -> Replayed:
    """Each pair of [pairs, rounds] as a race of its own: looked at as `looks` does, over where it is decided.

    Raises:
        ValueError: fewer rounds than the least of the settings.
    """
    pairs, rounds = log_ratios.shape
    if rounds < settings.least_rounds:
        raise ValueError(f"log_ratios: {rounds} rounds, must be at least least_rounds={settings.least_rounds}")
    cap = min(rounds, settings.most_rounds)
    said, used = np.zeros(pairs, dtype=np.int64), np.zeros(pairs, dtype=np.int64)
    going, goal = np.arange(pairs), (first := min(settings.rounds, cap))
    while len(going):
        last = goal >= cap
        _, low, high = trimmed(log_ratios[going, :goal], CONFIDENCE if last else IN_BETWEEN)
        said[going], used[going] = sides(low, high), goal
        going = going[:0] if last else going[~decided(low, high)]
        goal = min(cap, further(goal, first, settings.most_rounds))
    return Replayed(said, used)


def planted(log_ratios: Floats, factor: float) -> tuple[Floats, NDArray[np.int64]]:
    """The same with every other first, and every other second, contender `factor` slower; and what is right to say."""
    right = np.where(np.arange(len(log_ratios)) % 2, -1, 1)
    return log_ratios + right[:, None] * math.log(factor), right


@dataclass(frozen=True)
class Figures:
    """What the rules say of recorded races.

    `false` verdicts between identical contenders; verdicts of a planted 5% that are right, `found`, and wrong,
    `turned`; verdicts of a planted 0.5%, which is not worth one, `called`; steady contenders
    called `unstable`; contenders with a planted drift or second hump called so. `rounds` are the mean
    rounds of an identical pair and of one with the 5%.
    """

    false: Share
    found: Share
    turned: Share
    called: Share
    unstable: Share
    drifting: Share
    humped: Share
    rounds: tuple[float, float]
    races: int


def figures(traces: Traces, settings: Settings) -> Figures:
    """Replays everything over recorded races."""
    counted = {"pairs": 0, "false": 0, "found": 0, "turned": 0, "called": 0, "rounds": 0, "rounds with 5%": 0}
    for ratios in traces.log_ratios():
        same = replay(ratios, settings)
        with_five, right = planted(ratios, 1.05)
        five = replay(with_five, settings)
        half = replay(planted(ratios, 1.005)[0], settings)
        counted["pairs"] += len(ratios)
        counted["false"] += int((same.said != 0).sum())
        counted["found"] += int((five.said == right).sum())
        counted["turned"] += int((five.said == -right).sum())
        counted["called"] += int((half.said != 0).sum())
        counted["rounds"] += int(same.rounds.sum())
        counted["rounds with 5%"] += int(five.rounds.sum())
    pairs = counted["pairs"]
    false, found, turned, called = (Share(counted[name], pairs) for name in ("false", "found", "turned", "called"))
    steady, drifting, humped = _shapes([times[:, : settings.most_rounds] for times in traces.races])
    rounds = counted["rounds"] / pairs, counted["rounds with 5%"] / pairs
    return Figures(false, found, turned, called, steady, drifting, humped, rounds, len(traces.races))


def _shapes(races: Sequence[Floats]) -> tuple[Share, Share, Share]:
    """Contenders called unstable: as they are, one a race with a planted drift, one with a planted second hump."""
    steady = sum(bool(reason) for times in races for reason in unstable(times))
    rng = np.random.default_rng(0)
    told = {"drift": 0, "hump": 0}
    for number, times in enumerate(races):
        contenders, rounds = times.shape
        ramp = np.linspace(1.0, DRIFT, rounds)
        hump = np.where(rng.random(rounds) < 0.5, HUMP, 1.0)
        for name, factor in (("drift", ramp), ("hump", hump)):
            bent = times.copy()
            bent[number % contenders] *= factor
            told[name] += bool(unstable(bent)[number % contenders])
    number = len(races)
    return Share(steady, sum(map(len, races))), Share(told["drift"], number), Share(told["hump"], number)


def pack(found: Sequence[Row]) -> Traces:
    """The races of identical contenders among a run's rows: of `harness.aa`, and either half of `harness.planted`.

    Raises:
        ValueError: there is none.
    """
    races: dict[tuple[str, str, str], list[list[float]]] = {}
    for row in found:
        if row["kind"] == "cell" and row["suite"] in ("harness.aa", "harness.planted") and "samples" in row:
            races.setdefault((row["suite"], row["case"], row["contender"].partition("-")[0]), []).append(row["samples"])
    whole = tuple(np.array(race) for race in races.values() if len(race) > 1 and len(set(map(len, race))) == 1)
    if not whole:
        raise ValueError("found: no race of identical contenders among these rows")
    told = head(found)
    names = ("device_name", "time", "env.cores", "env.threads", "env.os", "version.torch")
    return Traces(whole, {name: told[name] for name in names if name in told})


def save(traces: Traces, path: Path) -> None:
    """As a compressed `.npz` of single precision, without pickles."""
    path.parent.mkdir(parents=True, exist_ok=True)
    races: dict[str, Any] = {f"race{number}": times.astype(np.float32) for number, times in enumerate(traces.races)}
    with path.open("wb") as file:
        np.savez_compressed(file, facts=np.array(json.dumps(traces.facts)), **races)


def load(path: Path = FILE) -> Traces:
    """What `save` saved; by default the races recorded for this distribution.

    Raises:
        ValueError: no such file, or not one of recorded races.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            facts = json.loads(str(found["facts"]))
            races = tuple(found[name].astype(np.float64) for name in found.files if name != "facts")
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"recorded={str(path)!r}: cannot be read as recorded races: {error}") from None
    sound = all(
        times.ndim == 2 and len(times) > 1 and np.isfinite(times).all() and (times > 0).all() for times in races
    )
    if not races or not sound or not isinstance(facts, dict):
        raise ValueError(
            f"recorded={str(path)!r}: must hold facts and races of 2 or more, [contenders, rounds] above 0"
        )
    return Traces(races, facts)
