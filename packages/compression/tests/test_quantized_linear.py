"""What every format and its layer keep to: awkward groups, strides, gradients, casts, saved states."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from formats import FORMATS, normal, sqnr
from torch import nn

from bancada_compression import NF4, W8A8, Groupwise, Int8, QuantizedLinear
from bancada_compression import quantized as module
from bancada_compression.quantized import Format

LAYERS: list[Format] = [
    Int8(),
    W8A8(),
    Groupwise(4, 16),
    Groupwise(3, 16),
    Groupwise(4, 16, True),
    NF4(),
    NF4(16, False),
]


@pytest.fixture(params=LAYERS, ids=lambda one: one.name)
def chosen(request: pytest.FixtureRequest) -> Format:
    return request.param


@pytest.mark.parametrize("name", FORMATS)
def test_a_group_of_zeros_gives_zeros_and_finite_scales_coremltools2853(name: str) -> None:
    weight = normal(4, 64)
    weight[1], weight[2, :32] = 0, 0
    found = FORMATS[name](weight)
    back = found.dequantize()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in found.tensors().values())
    assert torch.equal(back[weight == 0], torch.zeros(int((weight == 0).sum())))
    assert torch.equal(FORMATS[name](torch.zeros(3, 64)).dequantize(), torch.zeros(3, 64))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-38, 1e-20, 1e30])
def test_groups_near_zero_are_finite_llamacpp7313(name: str, size: float) -> None:
    weight = normal(4, 64).double() * size
    back = FORMATS[name](weight.float()).dequantize()
    assert bool(torch.isfinite(back).all())
    assert float((back.double() - weight).abs().max()) <= float(weight.abs().max()) * 0.51 + 1e-38


@pytest.mark.parametrize("name", FORMATS)
def test_a_non_contiguous_weight_is_as_a_contiguous_one_bnb1690(name: str) -> None:
    wide = normal(66, 140)
    for view in (wide.T, wide[::2], wide[:, 1::2], wide[:1].expand(5, 140)):
        found, right = FORMATS[name](view), FORMATS[name](view.contiguous())
        for key, tensor in right.tensors().items():
            assert torch.equal(found.tensors()[key], tensor), key


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 65), (2, 130), (7, 300)], ids=str)
def test_a_last_block_that_is_partial_keeps_shape_and_numbers_bnb1884(name: str, shape: tuple[int, int]) -> None:
    weight = normal(*shape)
    found = FORMATS[name](weight)
    assert found.dequantize().shape == shape == found.shape
    bits = 2 if "int2" in name else 3 if "int3" in name else 4
    assert sqnr(weight, found.dequantize()) > {2: 1.5, 3: 9, 4: 15}[bits]
    for first in range(shape[0]):
        assert torch.equal(
            found.dequantize_rows(first, first + 1, torch.float32), found.dequantize()[first : first + 1]
        )


@pytest.mark.parametrize("name", FORMATS)
def test_constant_single_and_outlier_groups(name: str) -> None:
    outlier = torch.full((2, 16), 0.01)
    outlier[:, 3] = 8.0
    for weight in (torch.full((2, 16), -0.3), torch.tensor([[0.7]]), outlier):
        back = FORMATS[name](weight).dequantize()
        torch.testing.assert_close(back.abs().amax(), weight.abs().amax(), rtol=1e-6, atol=0)


def test_the_product_is_that_of_the_dequantised_weight(chosen: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_NUMBERS", 3 * 70)  # blocks of three rows: the last has one
    weight, x = normal(10, 70, dtype=torch.float64), normal(2, 5, 70, seed=1, dtype=torch.float64)
    bias = nn.Parameter(normal(10, seed=2, dtype=torch.float64))
    layer = chosen.layer(weight, bias)
    leaf = x.clone().requires_grad_()
    out = layer(leaf)
    right = F.linear(x, layer.weight, bias)
    if isinstance(chosen, W8A8):
        assert sqnr(right, out) > 35
    else:
        torch.testing.assert_close(out, right, rtol=0, atol=1e-12)
    grad = normal(2, 5, 10, seed=3, dtype=torch.float64)
    dx, dbias = torch.autograd.grad(out, (leaf, bias), grad)
    torch.testing.assert_close(dx, grad @ layer.weight, rtol=0, atol=1e-12)
    torch.testing.assert_close(dbias, grad.sum((0, 1)), rtol=0, atol=1e-12)


def test_gradcheck_of_the_linear_formats() -> None:
    for chosen in LAYERS:
        if not isinstance(chosen, W8A8):
            layer = chosen.layer(normal(3, 6, dtype=torch.float64))
            assert torch.autograd.gradcheck(layer, normal(2, 6, seed=1, dtype=torch.float64).requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_product_is_in_the_dtype_of_x(chosen: Format, dtype: torch.dtype) -> None:
    layer = chosen.layer(normal(12, 64), nn.Parameter(torch.zeros(12)))
    x = normal(4, 64, seed=1)
    found = layer(x.to(dtype))
    assert found.dtype == dtype
    assert sqnr(layer(x), found) > 35
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


def test_a_cast_of_the_module_rounds_no_scale(chosen: Format) -> None:
    layer = chosen.layer(normal(12, 64), nn.Parameter(torch.zeros(12)))
    before = {name: tensor.clone() for name, tensor in layer.quantized.tensors().items()}
    layer.bfloat16()
    assert layer.bias is not None and layer.bias.dtype == torch.bfloat16
    for name, tensor in before.items():
        assert (
            torch.equal(layer.quantized.tensors()[name], tensor)
            and layer.quantized.tensors()[name].dtype == tensor.dtype
        )


def test_a_saved_state_is_taken_whole_or_refused_bnb1946(chosen: Format) -> None:
    layer, other = chosen.layer(normal(12, 64)), chosen.layer(normal(12, 64, seed=5))
    state = copy.deepcopy(layer.state_dict())
    other.load_state_dict(state)
    assert torch.equal(other.weight, layer.weight)
    for name in state:
        lacking = {key: value for key, value in state.items() if key != name}
        with pytest.raises(RuntimeError, match="Missing key"):
            other.load_state_dict(lacking)
    for wrong in (Groupwise(4, 32), Groupwise(8, 16), NF4(32, False)):
        with pytest.raises((ValueError, RuntimeError), match=r"quantised as|Error\(s\)"):
            wrong.layer(normal(12, 64)).load_state_dict(state)


def test_a_state_of_the_same_shapes_but_another_order_is_refused() -> None:
    from bancada_compression import quantize_groupwise

    little, big = (QuantizedLinear(quantize_groupwise(normal(4, 16), 4, 16, order=o)) for o in ("little", "big"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'order': 'little'"):
        big.load_state_dict(little.state_dict())


@pytest.mark.parametrize("x", [torch.ones(2, 63), torch.ones(2, 64, dtype=torch.int64), torch.tensor(1.0)])
def test_an_input_that_does_not_fit_is_refused(chosen: Format, x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"x: torch\..*in = 64"):
        chosen.layer(normal(12, 64))(x)
