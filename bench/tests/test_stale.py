"""Going on with a run: what is done stays, what depends on something that has changed is measured again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from _planted import sound
from _synthetic import Recipe, write

from bancada import isolate, rows, stale
from bancada.campaign import PLAN, Campaign, _head, _parts, finished, folder_for
from bancada.settings import Settings
from bancada.suite import Device, KernelSuite
from bancada.sweep import Planned

CPU = Device("cpu", "test CPU", 2**33, threads=1)


def suite_with(*requires: str) -> KernelSuite:
    """`planted.sound`, its second contender a library's."""
    (suite,) = sound()
    first, second = suite.contenders
    return suite.with_contenders([first, dataclasses.replace(second, requires=requires)])


def planned(suite: KernelSuite, *repeats: int, names: tuple[str, ...] = ("honest-a", "honest-b")) -> list[Planned]:
    return [Planned(suite, suite.case(repeat=repeat), names, 2.0) for repeat in repeats]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one family, with a few sources."""
    for place in (
        "bench/src/bancada/race.py",
        "bench/src/bancada/report/data.py",
        "bench/src/bancada/runs/show.py",
        "packages/attention/src/a/b.py",
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("x = 1\n")
    return tmp_path


def changes(checkout: Path, act: Callable[[], object], suite: KernelSuite | None = None) -> set[str]:
    """The contenders whose key is another after `act`."""
    asked = planned(suite or suite_with("numpy"), 0)
    before = stale.keys(asked, CPU, checkout)
    act()
    now = stale.keys(asked, CPU, checkout)
    return {name.partition(":")[2] for name in now if now[name] != before[name]}


BOTH = {"honest-a", "honest-b"}


@pytest.mark.parametrize(
    ("place", "whose"),
    [
        ("bench/src/bancada/race.py", BOTH),
        ("packages/attention/src/a/b.py", BOTH),
        ("packages/attention/src/a/new.cpp", BOTH),
        ("packages/attention/src/a/tuned.toml", BOTH),
        ("bench/src/bancada/workloads/data/model.safetensors", BOTH),
        ("bench/src/bancada/workloads/data/tokenizer.json", BOTH),
        ("packages/attention/src/a/notes.md", set()),
        ("bench/src/bancada/report/data.py", set()),
        ("bench/src/bancada/questions/tuning.py", set()),
        ("bench/src/bancada/verdicts/win.py", set()),
        ("bench/src/bancada/runs/show.py", set()),
        ("packages/peft/src/c.py", set()),
    ],
)
def test_a_key_follows_the_sources_it_depends_on(checkout: Path, place: str, whose: set[str]) -> None:
    def act() -> None:
        (checkout / place).parent.mkdir(parents=True, exist_ok=True)
        (checkout / place).write_text("x = 2\n")

    assert changes(checkout, act) == whose


def test_a_key_follows_the_versions_of_the_contender_s_own_libraries(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"torch": "2.0", "triton": "3.0", "numpy": "1.0", "peft": "0.1"}
    monkeypatch.setattr(stale, "_version", lambda name: known.get(name, "none"))
    suite = suite_with("peft")
    assert changes(checkout, lambda: known.update(peft="0.2"), suite) == {"honest-b"}
    for name in stale.EVERYBODY:
        assert changes(checkout, lambda name=name: known.update({name: "9.9"}), suite) == BOTH, name
    assert changes(checkout, lambda: known.update(rich="9"), suite) == set()
    assert changes(checkout, lambda: monkeypatch.setattr(stale.platform, "python_version", lambda: "9"), suite) == BOTH


def test_a_key_follows_the_names_of_sources_too(checkout: Path) -> None:
    """What was imported as one name is now imported as another, though all bytes are the same."""
    folder = checkout / "packages/attention/src/a"
    (folder / "c.py").write_text("y = 1\n")
    assert changes(checkout, lambda: (folder / "c.py").rename(folder / "d.py")) == BOTH
    assert stale._version("no-such-distribution") == "none"


def test_a_key_follows_the_device_and_suites_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = planned(suite_with(), 0)
    assert stale.keys(asked, CPU, tmp_path) != stale.keys(asked, dataclasses.replace(CPU, threads=2), tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "suites_of_mine.py").write_text("x = 1\n")
    before = stale.keys(asked, CPU, tmp_path, ("suites_of_mine:suites",))
    (tmp_path / "suites_of_mine.py").write_text("x = 2\n")
    assert stale.keys(asked, CPU, tmp_path, ("suites_of_mine:suites",)) != before


def test_a_case_is_measured_again_whole_where_one_of_its_contenders_changed() -> None:
    suite = suite_with()
    asked = planned(suite, 0) + planned(suite, 1, names=("honest-a",))
    now = {"planted.sound:honest-a": "1", "planted.sound:honest-b": "2"}
    assert stale.changed(asked, now, now) == []
    assert stale.changed(asked, now | {"planted.sound:honest-b": "0"}, now) == [("planted.sound", "r0-fp32")]
    assert len(stale.changed(asked, {}, now)) == 2
    assert stale.changed(asked, now | {"planted.other:x": "1"}, now) == []


def test_rows_of_changed_cases_are_set_aside_and_nothing_else_is_touched(tmp_path: Path) -> None:
    run = write(tmp_path / "run", Recipe(suites=("attention.forward",)))
    path = run / "rows.jsonl"
    with path.open("ab") as file:
        file.write(b'{"schema": 1, "kind": "ce')
    before = path.read_bytes().splitlines(keepends=True)
    case = ("attention.forward", "b1-h8-s512-d64-causal-fp32")
    number = stale.set_aside(run, [case])
    left, aside = path.read_bytes(), (run / stale.SUPERSEDED).read_bytes()
    assert number == 6 + 10 and len(aside.splitlines()) == number  # cells, and pairs of the five measured
    assert sorted(left.splitlines(keepends=True) + aside.splitlines(keepends=True)) == sorted(before)
    assert {row["kind"] for row in rows.read(path).rows} == {"run", "ceiling", "cell", "pair", "aa", "end"}
    assert case[1].encode() not in left and stale.set_aside(run, [case]) == 0 and stale.set_aside(run, []) == 0


def test_every_kind_of_row_of_a_case_is_set_aside_and_added_to_those_of_before(tmp_path: Path) -> None:
    kinds = ("cell", "pair", "trial", "curve", "contrast", "aa", "ceiling", "run")
    path = tmp_path / "rows.jsonl"
    other = json.dumps({"kind": "cell", "suite": "s", "case": "d"})
    odd = ['{"kind": "cell"}', '{"kind": "cell", "suite": ["s"], "case": {}}', "[1]", "[" * 100_000, "", "{"]
    for turn in (1, 2):
        mine = [json.dumps({"kind": kind, "suite": "s", "case": "c", "turn": turn}) for kind in kinds]
        path.write_text("\n".join([*odd, *mine, other]) + "\n")
        assert stale.set_aside(tmp_path, [("s", "c")]) == 5
        assert path.read_text().splitlines() == [*odd, *mine[5:], other]
        aside = [json.loads(line) for line in (tmp_path / stale.SUPERSEDED).read_text().splitlines()]
        assert [(row["kind"], row["turn"]) for row in aside[-5:]] == [(kind, turn) for kind in kinds[:5]]
        assert len(aside) == 5 * turn
    assert stale.set_aside(tmp_path / "nowhere", [("s", "c")]) == 0


def campaign(checkout: Path, **changes: object) -> Campaign:
    suite = suite_with("peft")
    asked = planned(suite, 0) + planned(suite, 1, names=("honest-a",))
    made = Campaign("mine", asked, {suite.id: suite}, CPU, Settings(), "bancada sweep mine", checkout)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def started(one: Campaign, runs: Path) -> Path:
    """A run of this campaign that was interrupted after its first row of each case."""
    run, resumed = folder_for(one, runs, fresh=False)
    assert not resumed
    run.mkdir(parents=True)
    _head(one, run, {"commit": "abc"})
    head = {"schema": 1, "run": run.name, "time": "t", "suite": "planted.sound", "device": "cpu"}
    whole = {"contender": "honest-a", "trial": 0, "seed": 0, "status": "ok", "reason": "", "updates": 1, "seconds": 1.0}
    rows.append(run / "rows.jsonl", [head | {"kind": "trial", "case": case} | whole for case in ("r0-fp32", "r1-fp32")])
    return run


def test_an_interrupted_run_goes_on_and_only_what_changed_is_measured_again(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """optimum-benchmark 78: a failure in mid-sweep loses all (case 11)."""
    known = {"peft": "0.1"}
    monkeypatch.setattr(stale, "_version", lambda name: known.get(name, "none"))
    runs = tmp_path / "runs"
    run = started(campaign(checkout), runs)
    assert folder_for(campaign(checkout), runs, fresh=False) == (run, True)
    assert campaign(checkout).changed(run) == []
    block = run / isolate.BLOCKS / "a-block" / "rows.jsonl"
    block.parent.mkdir(parents=True)
    block.write_text("")
    _head(campaign(checkout), run, {"commit": "abc"})
    assert block.exists()
    known["peft"] = "0.2"
    later = campaign(checkout)
    assert folder_for(later, runs, fresh=False) == (run, True) and later.changed(run) == [("planted.sound", "r0-fp32")]
    _head(later, run, {"commit": "def"})
    found = rows.read(run / "rows.jsonl").rows
    assert [row["case"] for row in found if row["kind"] == "trial"] == ["r1-fp32"]
    assert [row["commit"] for row in found if row["kind"] == "run"] == ["abc", "def"]
    assert not block.exists(), "a block of other code is part of no case"
    assert later.changed(run) == [] and json.loads((run / PLAN).read_text())["keys"] == later.keys


def test_a_price_given_on_going_on_is_kept_and_drops_nothing(checkout: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run = started(campaign(checkout, price=1.0), runs)
    block = run / isolate.BLOCKS / "rows.jsonl"
    block.parent.mkdir()
    block.write_text("")
    for price, kept, heads in ((None, 1.0, 1), (1.0, 1.0, 1), (2.5, 2.5, 2), (2.5, 2.5, 2)):
        _head(campaign(checkout, price=price), run, {"commit": "abc"})
        found = rows.read(run / "rows.jsonl").rows
        assert rows.head(found)["price_per_hour"] == kept and sum(row["kind"] == "run" for row in found) == heads
    assert block.exists() and sum(row["kind"] == "trial" for row in found) == 2


def test_a_line_of_parts_cut_short_does_not_keep_a_run_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "parts.jsonl").write_text('{"race": 1.5}\n{"race": 2.0, "scr\n{"race": 0.5}\n')
    assert _parts(tmp_path) == {"race": 2.0}


def test_a_run_of_which_nothing_would_stay_and_other_questions_make_a_new_run(checkout: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run = started(campaign(checkout), runs)
    for other in (
        campaign(checkout, settings=Settings(rounds=9)),
        campaign(checkout, device=dataclasses.replace(CPU, threads=2)),
        campaign(checkout, planned=campaign(checkout).planned[:1]),
    ):
        assert not folder_for(other, runs, fresh=False)[1]
    assert not folder_for(campaign(checkout), runs, fresh=True)[1]
    (checkout / "bench/src/bancada/race.py").write_text("x = 3\n")
    assert not folder_for(campaign(checkout), runs, fresh=False)[1] and not finished(run)


def test_a_plan_that_cannot_be_read_is_no_reason_to_stop(checkout: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run = started(campaign(checkout), runs)
    for text in ("{", "[]", "\xff"):
        (run / PLAN).write_text(text, encoding="latin-1")
        assert not folder_for(campaign(checkout), runs, fresh=False)[1]
