"""`compression.pruned`: the masks are the library's and the definition's, and sizes are what each form keeps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bancada.suite import Case, Contender, Device, Tensors
from bancada_compression._suites import pruned

SUITE = pruned.pruned_suite()
CPU = Device("cpu", "a CPU", 16 << 30)


def share(contender: Contender, case: Case, seed: int = 0) -> float:
    inputs = SUITE.inputs(case, "cpu", seed)
    right = SUITE.oracle(case, inputs)
    off = contender.build(case, inputs)()["out"].double() - right["out"]
    return float(off.abs().max()) / SUITE.tolerance(case, inputs, right)["out"]


@pytest.mark.parametrize("pattern", ["matrix", "2of4", "neurons"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_zeroed_dense_is_physically_sliced_and_every_other_form_torchpruning287(pattern: str, dtype: str) -> None:
    """All forms of a pattern give one answer, well inside the limit; a last group of four may be narrower."""
    case = SUITE.case(tokens=16, features=50, hidden=200, pattern=pattern, dtype=dtype)
    ran = [one for one in SUITE.contenders if one.supports(case, CPU) is None]
    assert all(share(one, case) < 0.9 for one in ran) and len(ran) >= 3
    assert ("torch-sliced" in [one.id for one in ran]) == (pattern == "neurons")


def planted(change: float, of: str) -> Contender:
    """Zeros elsewhere: some of the weights that must stay are gone, or some that must go stay."""

    def build(case: Case, given: Tensors):  # type: ignore[no-untyped-def]
        up, down = (mask.clone() for mask in pruned.masks(case, given["up"], given["down"]))
        chosen = up if of == "up" else down
        chosen[: max(1, round(change * len(chosen)))] ^= True
        pair = given["up"] * up, given["down"] * down
        return lambda: {"out": torch.nn.functional.gelu(given["x"] @ pair[0].T) @ pair[1].T}

    return Contender("planted", "magnitude", "peer", build)


@pytest.mark.parametrize("of", ["up", "down"])
def test_other_weights_left_out_are_outside(of: str) -> None:
    case = SUITE.case(tokens=16, features=48, hidden=192)
    assert share(planted(0.0, of), case) > 10  # one row of many


def sizes(name: str, case: Case) -> tuple[float, float]:
    found = SUITE.contender(name).build(case, SUITE.inputs(case, "cpu", 0))()
    return float(found["measure.bytes"]), float(found["measure.zipped_bytes"])


def test_why_the_pruned_model_is_as_large_as_before_sparseml741_nni2225_torchpruning149() -> None:
    case = SUITE.case(features=64, hidden=256)
    numbers = 2 * 64 * 256
    zeros, permanent = sizes("torch-zeros", case), sizes("permanent", case)
    assert zeros[0] == permanent[0] == 4 * numbers  # every zero is kept
    assert permanent[1] < 0.65 * permanent[0]  # only a zipped file is smaller
    assert sizes("mask", case)[0] == 5 * numbers  # and a byte of mask a weight
    assert sizes("torch-mask", case)[0] == 8 * numbers  # masks as wide as weights
    assert sizes("torch-csr", case)[0] > zeros[0]  # an index costs more than a weight
    assert sizes("torch-sliced", SUITE.case(features=64, hidden=256, pattern="neurons"))[0] == zeros[0] / 2


@pytest.mark.parametrize("pattern", ["matrix", "2of4"])
def test_masks_are_those_of_prune(pattern: str) -> None:
    case = SUITE.case(features=30, hidden=70, pattern=pattern)
    given = SUITE.inputs(case, "cpu", 3)
    block, _ = pruned._ours(True, case, given)
    assert isinstance(block, torch.nn.Sequential)
    kept = pruned.masks(case, given["up"], given["down"])
    for layer, name, mask in zip((block[0], block[2]), ("up", "down"), kept, strict=True):
        weight: Tensor = layer.weight
        assert torch.equal(weight, torch.where(mask, given[name], 0.0))
        assert not torch.signbit(weight[weight == 0]).any()


def test_reasons_and_bad_cases() -> None:
    with pytest.raises(ValueError, match="two of four"):
        SUITE.case(pattern="2of4", keep=0.6)
    with pytest.raises(ValueError, match=r"keep=0\.0"):
        SUITE.case(keep=0.0)
    assert "neurons" in str(SUITE.contender("mask").supports(SUITE.case(pattern="neurons"), CPU))
    assert "GPUs" in str(SUITE.contender("torch-2-4").supports(SUITE.case(pattern="2of4"), CPU))
    gpu = Device("cuda", "a GPU", 80 << 30, capability=(9, 0))
    assert SUITE.contender("torch-2-4").supports(SUITE.case(pattern="2of4", dtype="bf16"), gpu) is None
    assert SUITE.work(SUITE.case(tokens=3, features=8, hidden=16)).flops == 2 * 3 * 2 * 8 * 16 * 0.5
