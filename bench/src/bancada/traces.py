"""Recorded races of identical contenders, and what the rules of this harness say of them.

A trace is a race of identical contenders that never stopped early: seconds of every round of each. Every pair of one
race is a comparison whose right answer is known, 1; and 1.05 where one of the two is multiplied by it. Replaying the
looks of a race over them shows how often a verdict would have been false, and how often a planted difference would
have been found, with the noise of a real machine and always the same figures. Pairs of one race share its rounds, so
they are not independent of one another; races are.
"""

from __future__ import annotations

import itertools
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
from bancada.rows import Row
from bancada.settings import Settings
from bancada.stability import unstable
from bancada.stats import CONFIDENCE, Floats, decided, sides, trimmed

FILE = Path(__file__).parent / "recorded" / "identical.npz"
DRIFT = 1.3
HUMP = 1.6


@dataclass(frozen=True)
class Traces:
    """Seconds a call, [races, contenders, rounds], and where they were taken: device, versions, date."""

    times: Floats
    facts: dict[str, Any]

    def log_ratios(self) -> Floats:
        """Of every pair of every race, [pairs, rounds]."""
        first, second = np.triu_indices(self.times.shape[1], k=1)
        logs = np.log(self.times)
        return (logs[:, first] - logs[:, second]).reshape(-1, self.times.shape[2])


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
        ValueError: fewer rounds than the settings' cap.
    """
    pairs, rounds = log_ratios.shape
    if rounds < settings.most_rounds:
        raise ValueError(f"log_ratios: {rounds} rounds, must be at least most_rounds={settings.most_rounds}")
    said, used = np.zeros(pairs, dtype=np.int64), np.zeros(pairs, dtype=np.int64)
    going, goal = np.arange(pairs), settings.rounds
    while len(going):
        last = goal >= settings.most_rounds
        _, low, high = trimmed(log_ratios[going, :goal], CONFIDENCE if last else IN_BETWEEN)
        said[going], used[going] = sides(low, high), goal
        going = going[:0] if last else going[~decided(low, high)]
        goal = further(goal, settings)
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
    ratios = traces.log_ratios()
    pairs = len(ratios)
    same = replay(ratios, settings)
    with_five, right = planted(ratios, 1.05)
    five = replay(with_five, settings)
    half = replay(planted(ratios, 1.005)[0], settings)
    return Figures(
        Share(int((same.said != 0).sum()), pairs),
        Share(int((five.said == right).sum()), pairs),
        Share(int((five.said == -right).sum()), pairs),
        Share(int((half.said != 0).sum()), pairs),
        *_shapes(traces.times[..., : settings.most_rounds]),
        (float(same.rounds.mean()), float(five.rounds.mean())),
        len(traces.times),
    )


def _shapes(times: Floats) -> tuple[Share, Share, Share]:
    """Contenders called unstable: as they are, one a race with a planted drift, one with a planted second hump."""
    races, contenders, rounds = times.shape
    steady = sum(bool(reason) for race in times for reason in unstable(race))
    ramp = np.linspace(1.0, DRIFT, rounds)
    hump = np.where(np.random.default_rng(0).random((races, rounds)) < 0.5, HUMP, 1.0)
    told = {"drift": 0, "hump": 0}
    for number, race in enumerate(times):
        for name, factor in (("drift", ramp), ("hump", hump[number])):
            bent = race.copy()
            bent[number % contenders] *= factor
            told[name] += bool(unstable(bent)[number % contenders])
    return Share(steady, races * contenders), Share(told["drift"], races), Share(told["hump"], races)


def pack(found: Sequence[Row], rounds: int) -> Traces:
    """The races of identical contenders among a run's rows that went on for `rounds`.

    Raises:
        ValueError: there is none.
    """
    cells = [row for row in found if row["kind"] == "cell" and row["suite"] == "harness.aa" and "samples" in row]
    by_case = [list(group) for _, group in itertools.groupby(cells, key=lambda row: row["case"])]
    most = max((len(group) for group in by_case), default=0)
    whole = [
        [row["samples"][:rounds] for row in group]
        for group in by_case
        if len(group) == most and all(len(row["samples"]) >= rounds for row in group)
    ]
    if not whole or most < 2:
        raise ValueError(f"rounds={rounds}: no race of identical contenders among these rows went on for as many")
    head = next((row for row in found if row["kind"] == "run"), {})
    names = ("device_name", "time", "env.cores", "env.threads", "env.os", "version.torch")
    return Traces(np.array(whole), {name: head[name] for name in names if name in head})


def save(traces: Traces, path: Path) -> None:
    """As a compressed `.npz` of single precision, without pickles."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, times=traces.times.astype(np.float32), facts=np.array(json.dumps(traces.facts)))


def load(path: Path = FILE) -> Traces:
    """What `save` saved; by default the races recorded for this distribution.

    Raises:
        ValueError: no such file, or not one of recorded races.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            times, facts = found["times"].astype(np.float64), json.loads(str(found["facts"]))
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"recorded={str(path)!r}: cannot be read as recorded races: {error}") from None
    if times.ndim != 3 or not np.isfinite(times).all() or (times <= 0).any():
        raise ValueError(f"recorded={str(path)!r}: times must be positive, [races, contenders, rounds]")
    return Traces(times, facts)
