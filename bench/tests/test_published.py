"""Published figures: every line of the file is whole, a broken one is named, and the page shows them apart."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from _synthetic import Recipe, write

from bancada.cli import root
from bancada.registry import discover
from bancada.report import data
from bancada.report.load import load as load_run
from bancada.report.recorded import published_figures
from bancada.runs.published import Figure, PublishedError, device_family, load

FILE = root() / "reports" / "baselines" / "published.jsonl"
ONE: dict[str, Any] = {
    "id": "a.b", "family": "attention", "technique": "flash-attention", "system": "S", "what": "forward",
    "value": 3.5, "unit": "TFLOP/s", "device": "H100", "source": "arXiv 1", "note": "",
}  # fmt: skip
BESIDE = {"suite": "attention.forward", "measure": "flops_per_s", "scale": 1e12, "axis.seq_len": 16384}


def lines(folder: Path, *found: Any) -> Path:
    path = folder / "published.jsonl"
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in found))
    return path


def test_the_figures_of_the_repository_fit() -> None:
    found = load(FILE)
    suites = discover()
    families = {suite.family for suite in suites.values()} - {"harness"}
    assert len(found) > 100 and {one.family for one in found} == families
    for one in found:
        assert one.id.startswith(f"{one.family}."), one.id
        if one.suite:
            suites[one.suite].case(**one.axes)  # raises for an axis or a value that the suite does not have
            assert one.device_family and one.measure == "flops_per_s"


def test_a_figure_is_read_whole(tmp_path: Path) -> None:
    (one,) = load(lines(tmp_path, ONE | BESIDE | {"high": 4}))
    rest = {name: value for name, value in (ONE | BESIDE).items() if not name.startswith("axis.")}
    assert one == Figure(**rest, high=4, axes={"seq_len": 16384})
    assert load(tmp_path / "none.jsonl") == []
    axes = {"axis.a": True, "axis.b": 0.5, "axis.c": "d"}
    one, other = load(lines(tmp_path, ONE | {"device": "", "note": "n"}, "", "  ", ONE | BESIDE | axes | {"id": "2"}))
    assert (one.device, one.note, one.value, one.device_family) == ("", "n", 3.5, "")
    assert other.axes == {"seq_len": 16384, "a": True, "b": 0.5, "c": "d"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "line 2: not JSON"),
        ([1], "line 2: must be an object"),
        (ONE | {"id": "A b"}, "line 2: id='A b': allowed are"),
        (ONE | {"id": "a b"}, "line 2: id='a b': allowed are"),
        (ONE | {"id": ".a"}, "line 2: id='.a': allowed are"),
        (ONE | {"id": "a\n"}, "line 2: id=.*: allowed are"),
        (ONE | {"id": ""}, "line 2: id='': must be a text, not empty"),
        (ONE | {"value": math.nan}, "line 2: value=nan: must be a finite number"),
        (ONE | {"high": "9"}, "line 2: high='9': must be a finite number"),
        (ONE | BESIDE | {"scale": None}, "line 2: scale=None: must be a finite number"),
        (ONE | {"suite": "x"}, "line 2: suite and measure: both are needed"),
        (ONE | {"measure": "x"}, "line 2: suite and measure: both are needed"),
        (ONE | BESIDE | {"suite": " "}, "line 2: suite=' ': must be a text, not empty"),
        (ONE | BESIDE | {"measure": 1}, "line 2: measure=1: must be a text, not empty"),
        (ONE | {"device": None}, "line 2: device=None: must be a text$"),
        (ONE, "line 2: id='a.b': is there already"),
        (ONE | {"source": " "}, "line 2: source=' ': must be a text, not empty"),
        ({name: value for name, value in ONE.items() if name != "note"}, "line 2: note=None: must be a text"),
        (ONE | {"value": "3.5"}, "line 2: value='3.5': must be a finite number"),
        (ONE | {"value": True}, "line 2: value=True"),
        (ONE | {"high": 3.5}, "line 2: high=3.5: must be above value, 3.5"),
        (ONE | {"colour": "red"}, "line 2: colour: no such field"),
        (ONE | {"axis.seq_len": 1}, "line 2: suite and measure: both are needed"),
        (ONE | BESIDE | {"axis.shape": [1, 2]}, r"line 2: axis.shape=\[1, 2\]: must be a scalar"),
    ],
)
def test_a_line_that_does_not_fit_is_named_with_its_field(tmp_path: Path, wrong: Any, said: str) -> None:
    with pytest.raises(PublishedError, match=said):
        load(lines(tmp_path, ONE, wrong))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("NVIDIA H200", "Hopper"),
        ("H100", "Hopper"),
        ("NVIDIA A100-SXM4-80GB", "Ampere"),
        ("A10", "Ampere"),
        ("NVIDIA L40S", "Ada"),
        *((name, "Hopper") for name in ("H800", "NVIDIA H20", "GH200 480GB")),
        *((name, "Ampere") for name in ("A800", "NVIDIA A10G", "A30", "NVIDIA A40", "RTX A6000", "GeForce RTX 3090")),
        *((name, "Ada") for name in ("NVIDIA L4", "L40", "GeForce RTX 4090")),
        *((name, "Blackwell") for name in ("B100", "NVIDIA B200", "GB200", "GeForce RTX 5090")),
        *((name, "CDNA 3") for name in ("AMD Instinct MI300X", "MI300A", "MI300", "MI325X")),
        ("H2000", ""),
        ("AMD EPYC", ""),
        ("Intel(R) Xeon(R) Platinum A1000", ""),
    ],
)
def test_devices_of_one_architecture_belong_together(name: str, family: str) -> None:
    assert device_family(name) == family


def test_the_page_gets_the_figures_of_its_families_and_the_architecture_of_its_devices(tmp_path: Path) -> None:
    run = load_run(write(tmp_path / "run", Recipe(device_name="NVIDIA H200")))
    found = load(FILE)
    shown = data.payload([run], [], (), found)["published"]
    assert shown["devices"] == {"NVIDIA H200": "Hopper"}
    assert len(shown["figures"]) == sum(one.family == "attention" for one in found)
    (one,) = [one for one in shown["figures"] if one["system"] == "FlashAttention-3" and one["value"] == 648]
    assert one["axes"] == {"seq_len": 16384, "head_dim": 128, "causal": False, "dtype": "fp16"}
    assert one["device_family"] == "Hopper" and one["scale"] == 1e12
    assert published_figures(found, [{"family": "peft", "device_name": "AMD EPYC"}])["devices"] == {}


def test_a_broken_file_of_figures_is_told_before_a_page_is_written(tmp_path: Path) -> None:
    from bancada.report import build

    run = write(tmp_path / "runs" / "a", Recipe())
    (tmp_path / "baselines").mkdir()
    lines(tmp_path / "baselines", "{")
    with pytest.raises(ValueError, match="line 1: not JSON"):
        build([run])
    assert not (run / "report.html").exists()
