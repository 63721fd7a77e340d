"""The rules of a race over recorded races: how often a verdict would be false, and what would be found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bancada import rows, stats, traces
from bancada.looks import IN_BETWEEN, Looks
from bancada.settings import Settings

SETTINGS = Settings()


@pytest.fixture(scope="module")
def recorded() -> traces.Traces:
    return traces.load()


@pytest.fixture(scope="module")
def found(recorded: traces.Traces) -> traces.Figures:
    return traces.figures(recorded, SETTINGS)


def test_verdicts_between_identical_contenders_are_false_in_2_percent_at_most(found: traces.Figures) -> None:
    """nvbench 316, warp 1142: identical code called slow or fast in 11-30% (case 8)."""
    assert found.false.whole >= 500 and found.false.value <= 0.02


def test_a_planted_5_percent_is_found_in_90_percent_and_never_turned_round(found: traces.Figures) -> None:
    assert found.found.whole >= 500 and found.found.value >= 0.90
    assert found.turned.part == 0


def test_a_planted_half_percent_is_called_in_2_percent_at_most(found: traces.Figures) -> None:
    assert found.called.whole >= 500 and found.called.value <= 0.02


def test_steady_contenders_are_hardly_ever_called_unstable_and_drifting_ones_are(found: traces.Figures) -> None:
    """nvbench 206: clocks drop in a run (case 5)."""
    assert found.unstable.whole >= 100 and found.unstable.value <= 0.01
    assert found.drifting.value >= 0.90
    assert found.humped.value >= 0.5


def test_racing_on_while_undecided_is_what_finds_the_5_percent(recorded: traces.Traces) -> None:
    longest = max(recorded.log_ratios(), key=len)
    ratios, right = traces.planted(longest, 1.05)
    once = dataclasses.replace(SETTINGS, most_rounds=SETTINGS.rounds)
    on, off = (traces.replay(ratios, settings) for settings in (SETTINGS, once))
    assert (on.said == right).mean() > (off.said == right).mean() + 0.1
    assert set(off.rounds) == {SETTINGS.rounds} and on.rounds.max() == min(SETTINGS.most_rounds, ratios.shape[1])
    assert on.rounds.mean() < 0.75 * on.rounds.max(), "clear differences must not be raced to the cap"


def test_a_replay_says_what_a_race_would(recorded: traces.Traces) -> None:
    """The replay is vectorised; here the race's own objects go through some of the same rounds, one pair at a time."""
    race = max(recorded.races, key=lambda times: times.shape[1])
    settings = dataclasses.replace(SETTINGS, most_rounds=min(SETTINGS.most_rounds, race.shape[1]))
    (ratios,) = traces.Traces((race,), {}).log_ratios()
    replayed = traces.replay(ratios, settings)
    words = {-1: "faster", 0: "too close to call", 1: "slower"}
    for place, (a, b) in enumerate([(0, 1), (0, 2), (0, 3)]):
        times, looks = race[[a, b]], Looks(settings.rounds, settings.most_rounds, float("inf"))
        goal, rounds = settings.rounds, 0
        while goal > rounds:
            rounds = goal
            goal = looks.next_goal(rounds, lambda sure, n=rounds, t=times: stats.compare(t[:, :n], ["a", "b"], sure))
        (said,) = stats.compare(times[:, :rounds], ["a", "b"], looks.confidence)
        assert (said.verdict, said.rounds) == (words[int(replayed.said[place])], replayed.rounds[place])


def test_looks_in_between_are_surer_than_the_last() -> None:
    """An interval of 98% would call this at the first look, one of 99.8% does not: looking often makes no winners."""
    rng = np.random.default_rng(5)
    edge = 0.01 + 0.0075 + rng.normal(0, 0.03, (400, SETTINGS.most_rounds))
    first = traces.replay(edge, dataclasses.replace(SETTINGS, most_rounds=SETTINGS.rounds))
    on = traces.replay(edge, SETTINGS)
    stopped = on.rounds == SETTINGS.rounds
    assert 0 < (on.said[stopped] != 0).sum() < 0.5 * (first.said != 0).sum()
    assert IN_BETWEEN > stats.CONFIDENCE


def test_a_race_is_over_where_its_record_ends() -> None:
    undecided = np.random.default_rng(0).normal(0, 0.3, (20, 70))
    assert set(traces.replay(undecided, SETTINGS).rounds) == {70}
    assert set(traces.replay(undecided[:, :9], SETTINGS).rounds) == {9}
    with pytest.raises(ValueError, match="at least least_rounds=5"):
        traces.replay(undecided[:, :4], SETTINGS)


def cell(suite: str, case: str, contender: str, samples: list[float]) -> rows.Row:
    return {"kind": "cell", "suite": suite, "case": case, "contender": contender, "samples": samples}


def test_races_are_packed_saved_and_read_again(tmp_path: Path) -> None:
    head = {"kind": "run", "device_name": "a CPU", "env.cores": 2}
    found = [
        head,
        *(cell("harness.aa", case, f"same-{n}", [1e-3 * n + 1e-3] * 3) for case in ("r0", "r1") for n in (0, 1)),
    ]
    found += [cell("harness.planted", "r0", f"{kind}-{n}", [2e-3] * 2) for kind in ("same", "slow") for n in (0, 1, 2)]
    found += [cell("harness.aa", "cut-short", "same-0", [1.0]), cell("attention.forward", "c", "same-1", [1.0])]
    kept = traces.pack(found)
    assert [times.shape for times in kept.races] == [(2, 3), (2, 3), (3, 2), (3, 2)]
    assert [ratios.shape for ratios in kept.log_ratios()] == [(2, 3), (6, 2)]
    traces.save(kept, tmp_path / "deep" / "kept.npz")
    again = traces.load(tmp_path / "deep" / "kept.npz")
    assert again.facts == {"device_name": "a CPU", "env.cores": 2}
    assert all(one == pytest.approx(other) for one, other in zip(again.races, kept.races, strict=True))
    with pytest.raises(ValueError, match="no race of identical contenders"):
        traces.pack(found[:1])


def npy(folder: Path) -> bytes:
    """An array by itself, no archive."""
    np.save(folder / "one.npy", np.ones((2, 3)))
    return (folder / "one.npy").read_bytes()


@pytest.mark.parametrize(
    ("races", "facts"),
    [((np.ones((1, 9)),), "{}"), ((np.ones((2, 9)),), "[]"), ((), "{}"), ((np.zeros((2, 9)),), "{}")],
)
def test_an_archive_of_something_else_is_refused(tmp_path: Path, races: tuple[stats.Floats, ...], facts: str) -> None:
    held: dict[str, Any] = {f"race{number}": times for number, times in enumerate(races)}
    np.savez(tmp_path / "x.npz", facts=np.array(facts), **held)
    with pytest.raises(ValueError, match=r"recorded=.*must hold"):
        traces.load(tmp_path / "x.npz")
    (tmp_path / "y.npz").write_bytes(npy(tmp_path))
    with pytest.raises(ValueError, match="cannot be read as recorded races"):
        traces.load(tmp_path / "y.npz")


@pytest.mark.parametrize(
    ("ratio", "false", "found", "turned", "called"), [(1.006, 0, 1, 0, 1), (0.92, 1, 0, 1, 1), (1.0, 0, 1, 0, 0)]
)
def test_what_is_planted_is_counted_by_what_is_said_of_it(
    ratio: float, false: int, found: int, turned: int, called: int
) -> None:
    """One pair whose recorded times are not equal after all: 5% and 0.5% more are planted into its first."""
    told = traces.figures(traces.Traces((np.array([[ratio] * 120, [1.0] * 120]),), {}), SETTINGS)
    shares = (told.false, told.found, told.turned, told.called)
    assert [share.part for share in shares] == [false, found, turned, called] and {one.whole for one in shares} == {1}


def test_races_of_unequal_lengths_count_by_their_pairs() -> None:
    """Two pairs to the cap and one of eight rounds: shares and mean rounds are over the three pairs."""
    rng = np.random.default_rng(0)
    races = [np.exp(rng.normal(0, 0.5, (2, rounds))) for rounds in (120, 150, 8)]
    found = traces.figures(traces.Traces(tuple(races), {}), SETTINGS)
    assert found.false.whole == found.found.whole == 3 and found.races == 3 and found.unstable.whole == 6
    assert found.rounds[0] == pytest.approx((120 + 120 + 8) / 3)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_what_is_no_record_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "none.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="recorded="):
        traces.load(path)
