"""Answers on the report's page: sentences in its text, charts in its data, and the rest with the commands."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import _synthetic_kinds as kinds
import pytest

from bancada.questions import QUESTIONS
from bancada.report import build

HOSTILE = "<img src=x onerror=alert(1)>"


def page(*folders: Path) -> tuple[str, dict[str, Any]]:
    """The page's text, and the charts of its answers by question."""
    text = build(folders, folders[0] / "report.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="bancada-data">(.*?)</script>', text, re.DOTALL)
    return text, {one["id"]: one["charts"] for one in json.loads(data)["questions"]}


def test_what_the_rows_answer_is_told_and_the_rest_is_named_with_its_command(tmp_path: Path) -> None:
    text, charts = page(kinds.write(tmp_path / "run"))
    assert set(charts) == {"muon", "fsdp-or-deepspeed"}
    said = unescape(text)
    assert '<details class="qa" id="q-muon"' in text and "the loss of Muon is 0.310 [0.290, 0.330] nats better" in said
    rest = [one for one in QUESTIONS if one.id not in charts]
    assert f"{len(rest)} more questions whose rows this page does not hold" in text
    assert all(f"<dt>{one.text}</dt><dd><code>{one.command}</code></dd>" in unescape(text) for one in rest)
    assert not any(f'id="q-{one.id}"' in text for one in rest)


def test_points_name_rows_of_the_page(tmp_path: Path) -> None:
    folder = kinds.write(tmp_path / "run")
    _, charts = page(folder)
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    known = {row["row_id"] for row in rows if row["kind"] == "cell"}
    for [chart] in charts.values():
        assert chart["run"] == "kinds" and chart["points"] and {point["row"] for point in chart["points"]} <= known
    [bars] = charts["fsdp-or-deepspeed"]
    assert bars["kind"] == "bars" and bars["points"][0]["parts"]["optimizer"] == pytest.approx(1_600_000)


def test_each_run_answers_for_itself(tmp_path: Path) -> None:
    one = kinds.write(tmp_path / "one")
    other = kinds.write(tmp_path / "other", kinds.Effects(final={"muon": 5.5}))
    for name in ("rows.jsonl", "plan.json"):
        kept = (other / name).read_text().replace('"kinds"', '"others"')
        (other / name).write_text(kept.replace(kinds.DEVICE["device_name"], "another machine"))
    text, charts = page(one, other)
    assert [chart["run"] for chart in charts["muon"]] == ["kinds", "others"]
    said = unescape(text)
    assert "Xeon(R) 6975P-C, kinds:</b>" in said and "<b>another machine, others:</b>" in said
    assert re.search(r"the loss of Muon is 0\.310 \[[^]]*\] nats better", said)
    assert re.search(r"the loss of Muon is 0\.98\d* \[[^]]*\] nats worse", said)


def test_a_label_with_markup_cannot_leave_its_sentence(tmp_path: Path) -> None:
    folder = kinds.write(tmp_path / "run")
    for name in ("rows.jsonl", "catalogue.json"):
        kept = (folder / name).read_text().replace('"label": "Muon"', f'"label": "{HOSTILE}"')
        (folder / name).write_text(kept)
    text, _ = page(folder)
    assert "<img src=x" not in text and "&lt;img src=x" in text


@pytest.mark.parametrize("name", ["measure.seeds", "measure.final.loss", "axis.world_size", "flops", "precision"])
def test_rows_that_lack_a_field_cost_the_answers_that_need_it_and_nothing_else(tmp_path: Path, name: str) -> None:
    folder = kinds.write(tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    rows = [{field: value for field, value in row.items() if field != name} for row in rows]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text, charts = page(folder)
    lost = {"measure.seeds": "muon", "measure.final.loss": "muon", "axis.world_size": "fsdp-or-deepspeed"}
    assert set(charts) == {"muon", "fsdp-or-deepspeed"} - {lost.get(name)}
    assert "Best loss" in text or name == "measure.final.loss"


def test_a_run_of_nothing_asks_nothing(tmp_path: Path) -> None:
    folder = kinds.write(tmp_path / "run")
    kept = [line for line in (folder / "rows.jsonl").read_text().splitlines() if json.loads(line)["kind"] != "cell"]
    (folder / "rows.jsonl").write_text("\n".join(kept) + "\n")
    (folder / "plan.json").unlink()
    text, charts = page(folder)
    assert charts == {} and 'id="questions"' not in text
