"""Activation checkpointing: the same gradients, bit by bit, with what forward saved left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from parallel_model import HIDDEN, Block
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from bancada_parallelism import checkpoint


def blocks(count: int = 2, dropout: float = 0.3) -> nn.ModuleList:
    torch.manual_seed(1)
    return nn.ModuleList(Block(dropout) for _ in range(count)).double()


def gradients(layers: nn.ModuleList, x: Tensor, how: Any) -> tuple[list[Tensor], Tensor]:
    """Output and gradients, by autograd.grad; and the random numbers that come after."""
    torch.manual_seed(7)
    x = x.clone().requires_grad_()
    y = x
    for layer in layers:
        y = how(layer, y)
    found = torch.autograd.grad(y.square().sum(), [x, *layers.parameters()])
    return [y.detach(), *found], torch.rand(3)


X = torch.randn(2, 5, HIDDEN, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def plain(function: Any, *args: Any) -> Any:
    return function(*args)


def nested(layer: nn.Module, y: Tensor) -> Any:
    return checkpoint(lambda z: checkpoint(layer, z), y)


@pytest.mark.parametrize("how", [checkpoint, nested])
def test_dropout_and_the_random_state_after_are_the_same(how: Any) -> None:
    layers = blocks()
    right, after = gradients(layers, X, plain)
    found, after_too = gradients(layers, X, how)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, right, strict=True))
    assert torch.equal(after, after_too)
    assert not torch.equal(right[0], gradients(blocks(dropout=0.0), X, plain)[0][0]), "no dropout happened"


def test_second_derivatives() -> None:
    weight = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def function(w: Tensor) -> Tensor:
        return torch.tanh(w @ w).exp()

    assert torch.autograd.gradcheck(lambda w: checkpoint(function, w), weight)
    assert torch.autograd.gradgradcheck(lambda w: checkpoint(function, w), weight)


def test_a_graph_that_is_kept_is_walked_twice() -> None:
    x = X.clone().requires_grad_()
    y = checkpoint(blocks()[0], x).sum()
    first, second = (torch.autograd.grad(y, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def saved_bytes(how: Any, count: int) -> int:
    """Bytes of the distinct storages that autograd holds between forward and backward, but the parameters'."""
    layers, x = blocks(count), X.clone().requires_grad_()
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        kept.append(tensor)
        return tensor

    kept: list[Tensor] = []
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = x
        for layer in layers:
            kept.append(y)
            y = how(layer, y)
    parameters = {p.untyped_storage().data_ptr() for p in layers.parameters()}
    return sum(size for place, size in held.items() if place not in parameters)


def test_nothing_is_saved_but_the_arguments() -> None:
    assert saved_bytes(plain, 3) > 10 * 3 * X.numel() * 8
    assert saved_bytes(checkpoint, 3) == 0, "the frames hold the arguments, autograd holds numbers"


def test_autocast_is_as_it_was() -> None:
    layer = nn.Linear(HIDDEN, HIDDEN)
    x = X.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(lambda z: layer(torch.tanh(layer(z))), x)
        right = layer(torch.tanh(layer(x)))
    assert y.dtype == right.dtype == torch.bfloat16
    found, wanted = (torch.autograd.grad(out.float().sum(), layer.weight)[0] for out in (y, right))
    assert torch.equal(found, wanted)


def test_without_gradients_it_is_the_function() -> None:
    with torch.no_grad():
        assert torch.equal(checkpoint(torch.sin, X), torch.sin(X))
    tensor, number = checkpoint(lambda x, *, scale: (x * scale, scale), X.clone().requires_grad_(), scale=2)
    assert number == 2 and torch.equal(tensor, 2 * X)


def test_what_cannot_be_right_is_refused() -> None:
    with pytest.raises(ValueError, match="function=3: must be callable"):
        checkpoint(3)  # type: ignore[arg-type]
    x = X.clone().requires_grad_()
    changed = x * 1.0
    y = checkpoint(torch.exp, changed).sum()
    with torch.no_grad():
        changed.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()
    runs: list[int] = []

    def differs(z: Tensor) -> Tensor:
        runs.append(1)
        return z.sin() if len(runs) == 1 else z.sin().exp()

    with pytest.raises(RuntimeError, match="does not compute the same again"):
        checkpoint(differs, x).sum().backward()
