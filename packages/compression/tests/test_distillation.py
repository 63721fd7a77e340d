"""The soft-target loss against a scalar loop; students of models with ties, indices and configurations."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from formats import normal
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bancada_compression import soft_target_loss, student_of
from bancada_compression.distillation.reference import soft_target_reference

DIRECTIONS = ("forward", "reverse")


@given(
    tokens=st.integers(1, 5),
    classes=st.integers(1, 6),
    temperature=st.floats(0.3, 8),
    direction=st.sampled_from(DIRECTIONS),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_the_loss_is_that_of_the_definition_ld74_easydistill16(
    tokens: int, classes: int, temperature: float, direction: str, seed: int, data: st.DataObject
) -> None:
    """Summed over classes, averaged over tokens that count, times T^2; logits are normalised once."""
    student, teacher = (normal(tokens, classes, seed=seed + i, dtype=torch.float64) * 3 for i in range(2))
    counted = data.draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens))
    labels = torch.tensor([1 if use else -100 for use in counted])
    found = soft_target_loss(student, teacher, temperature, labels, direction=direction)  # type: ignore[arg-type]
    right = soft_target_reference(student.tolist(), teacher.tolist(), temperature, counted, direction)
    assert abs(float(found) - right) <= 1e-12 * max(1.0, right)


def test_two_classes_by_hand() -> None:
    """T = 1, p = (3/4, 1/4), q = (1/2, 1/2): KL(p || q) = 3/4 ln(3/2) + 1/4 ln(1/2), and the other way round."""
    teacher, student = torch.tensor([[3.0, 1.0]]).log(), torch.zeros(1, 2)
    p, q = (0.75, 0.25), (0.5, 0.5)
    forward = sum(a * torch.tensor(a / b).log().item() for a, b in zip(p, q, strict=True))
    reverse = sum(b * torch.tensor(b / a).log().item() for a, b in zip(p, q, strict=True))
    assert abs(float(soft_target_loss(student, teacher, 1.0)) - forward) < 1e-6
    assert abs(float(soft_target_loss(student, teacher, 1.0, direction="reverse")) - reverse) < 1e-6
    assert abs(forward - reverse) > 0.01


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradients_are_right_and_spare_the_teacher(direction: str) -> None:
    student, teacher = (normal(4, 5, seed=i, dtype=torch.float64).requires_grad_() for i in range(2))
    labels = torch.tensor([0, -100, 2, 3])
    loss = soft_target_loss(student, teacher, 3.0, labels, direction=direction)  # type: ignore[arg-type]
    loss.backward()
    assert teacher.grad is None and student.grad is not None
    assert bool((student.grad[1] == 0).all()) and bool((student.grad[0] != 0).any())
    fixed = teacher.detach()
    assert torch.autograd.gradcheck(
        lambda s: soft_target_loss(s, fixed, 3.0, labels, direction=direction),  # type: ignore[arg-type]
        student,
    )


def test_padding_is_in_no_loss_whatever_it_holds_optipfair34() -> None:
    student, teacher = normal(2, 3, 5, seed=0), normal(2, 3, 5, seed=1)
    labels = torch.tensor([[1, 2, -100], [3, -100, -100]])
    right = soft_target_loss(student[labels != -100], teacher[labels != -100])
    for rubbish in (7.0, float("nan"), float("inf")):
        student[labels == -100], teacher[labels == -100] = rubbish, rubbish
        leaf = student.clone().requires_grad_()
        found = soft_target_loss(leaf, teacher, labels=labels)
        torch.testing.assert_close(found.detach(), right)
        found.backward()
        assert leaf.grad is not None and bool(torch.isfinite(leaf.grad).all())


def test_no_token_gives_zero_and_masked_classes_are_no_nan() -> None:
    leaf = normal(2, 3).requires_grad_()
    loss = soft_target_loss(leaf, normal(2, 3, seed=1), labels=torch.full((2,), -100))
    loss.backward()
    assert float(loss.detach()) == 0 and leaf.grad is not None and bool((leaf.grad == 0).all())
    teacher = torch.tensor([[1.0, 2.0, -torch.inf]])
    assert bool(torch.isfinite(soft_target_loss(normal(1, 3), teacher)))
    for direction in DIRECTIONS:
        same = torch.tensor([[1.0, 2.0, -torch.inf]]).requires_grad_()
        found = soft_target_loss(same, teacher, direction=direction)  # type: ignore[arg-type]
        found.backward()
        assert float(found.detach()) == 0 and same.grad is not None and bool((same.grad.abs() < 1e-6).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_logits_are_summed_in_float32(dtype: torch.dtype) -> None:
    student, teacher = normal(50, 400).to(dtype), normal(50, 400, seed=1).to(dtype)
    found = soft_target_loss(student, teacher)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, soft_target_loss(student.float(), teacher.float()))


class Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.attention = nn.Linear(4, 4)
        self.attention.layer_idx = index  # type: ignore[assignment]
        self.layer_idx = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.attention(x)
        return out


class Model(nn.Module):
    def __init__(self, depth: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(
            num_hidden_layers=depth, layer_types=[f"kind{i}" for i in range(depth)], size=depth
        )
        self.embedding = nn.Embedding(9, 4)
        self.layers = nn.ModuleList(Block(i) for i in range(depth))
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        out: torch.Tensor = self.head(x)
        return out


def test_a_student_has_the_chosen_layers_and_the_teacher_stays() -> None:
    model = Model().eval()
    state, tokens = copy.deepcopy(model.state_dict()), torch.arange(9)
    right = model(tokens)
    student = student_of(model, [0, 2, 5])
    assert isinstance(student, Model) and len(student.layers) == 3 and not student.training
    for place, index in enumerate((0, 2, 5)):
        assert torch.equal(student.layers[place].attention.weight, model.layers[index].attention.weight)
        assert student.layers[place].layer_idx == student.layers[place].attention.layer_idx == place
        assert model.layers[index].layer_idx == index
    assert student.config.num_hidden_layers == 3 and student.config.layer_types == ["kind0", "kind2", "kind5"]
    assert model.config.num_hidden_layers == 6 and student.config.size == 6
    assert student.head.weight is student.embedding.weight and student.head.weight is not model.head.weight
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.zero_()
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in state.items())
    assert torch.equal(model(tokens), right)


def test_a_student_of_all_layers_is_the_model() -> None:
    model = Model()
    assert torch.equal(student_of(model, 6)(torch.arange(9)), model(torch.arange(9)))


@pytest.mark.parametrize(("count", "which"), [(1, [0]), (2, [0, 5]), (3, [0, 2, 5]), (6, [0, 1, 2, 3, 4, 5])])
def test_a_number_of_layers_is_taken_evenly(count: int, which: list[int]) -> None:
    model = Model()
    found = student_of(model, count)
    for layer, index in zip(found.layers, which, strict=True):  # type: ignore[arg-type]
        assert torch.equal(layer.attention.weight, model.layers[index].attention.weight)


def test_a_student_learns_from_its_teacher() -> None:
    teacher, tokens = Model(), torch.arange(9)
    student = student_of(teacher, 2)
    optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
    losses = []
    for _ in range(40):
        loss = soft_target_loss(student(tokens), teacher(tokens))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 4


def two_stacks() -> nn.Module:
    return nn.ModuleDict({name: nn.ModuleList(nn.Linear(2, 2) for _ in range(3)) for name in ("encoder", "decoder")})


def test_the_outer_of_nested_stacks_is_taken_and_a_named_one_where_there_are_several() -> None:
    nested = nn.Module()
    nested.blocks = nn.ModuleList(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]) for _ in range(3))
    assert len(student_of(nested, 2).get_submodule("blocks")) == 2  # type: ignore[arg-type]
    found = student_of(two_stacks(), 1, stack="decoder")
    assert len(found["decoder"]) == 1 and len(found["encoder"]) == 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: student_of(Model(), 7), "layers=7: must be a whole number from 1 to 6"),
        (lambda: student_of(Model(), 0), "layers=0"),
        (lambda: student_of(Model(), []), "layers=\\[\\]"),
        (lambda: student_of(Model(), [2, 1]), "ascending"),
        (lambda: student_of(Model(), [0, 6]), "from 0 to 5"),
        (lambda: student_of(Model(), 2, stack="blocks"), "stack='blocks': must be one of .*layers"),
        (lambda: student_of(two_stacks(), 2), "2 lists of like layers \\(encoder, decoder\\)"),
        (lambda: student_of(nn.Linear(2, 2), 1), "0 lists"),
        (lambda: soft_target_loss(torch.ones(2, 3), torch.ones(2, 4)), r"teacher: shape \[2, 4\]"),
        (lambda: soft_target_loss(torch.ones(2, 3), torch.ones(2, 3), 0.0), "temperature=0.0"),
        (lambda: soft_target_loss(torch.ones(2, 3).int(), torch.ones(2, 3)), "student: torch.int32"),
        (lambda: soft_target_loss(torch.ones(3), torch.ones(3)), "student: torch.float32"),
        (lambda: soft_target_loss(torch.ones(2, 3), torch.ones(2, 3), labels=torch.ones(2)), "labels: torch.float32"),
        (lambda: soft_target_loss(torch.ones(2, 3), torch.ones(2, 3), labels=torch.ones(3).int()), "labels: shape"),
        (lambda: soft_target_loss(torch.ones(2, 3), torch.ones(2, 3), direction="both"), "direction='both'"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
