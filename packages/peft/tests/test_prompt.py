"""Prompt tuning against the plain computation on given embeddings; padding and caches; HF peft's files; refusals."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft_models import Network, bert, gpt2, library, llama, logits, perturb, roberta, tokens
from torch import Tensor, nn

import bancada_peft as bp
from bancada_peft.prompt import with_prompt

N = 3
PADDED = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0, 0]])


def prompted(model: Any, **options: Any) -> tuple[Any, Tensor]:
    """A model with a prompt, and the prompt."""
    bp.adapt(model, bp.PromptTuning(n=N, **options))
    perturb(model, 0.05)
    prompt = next(p for name, p in model.named_parameters() if name.endswith(".prompt"))
    return model, prompt


def plain(make: Callable[[], Any], prompt: Tensor, ids: Tensor, mask: Tensor | None = None, **more: Any) -> Any:
    """The unadapted model's output on the prompt and the tokens' embeddings, nothing cut off."""
    model = make()
    embedded = with_prompt(prompt, model.get_input_embeddings()(ids))
    if mask is not None:
        more["attention_mask"] = torch.cat([torch.ones(len(ids), N, dtype=torch.long), mask], dim=1)
    return model(inputs_embeds=embedded, **more)


@pytest.mark.parametrize("make", [llama, gpt2])
def test_logits_loss_and_gradient_are_those_of_the_plain_computation(make: Callable[[], Any]) -> None:
    """float64; the labels of the virtual tokens are -100, so they add nothing to the loss."""

    def double() -> Any:
        return make().double()

    model, prompt = prompted(double())
    ids, labels = tokens(), tokens().where(PADDED == 1, -100)
    padded = torch.cat([torch.full((2, N), -100), labels], dim=1)
    right = plain(double, prompt, ids, PADDED, labels=padded)
    out = model(input_ids=ids, attention_mask=PADDED, labels=labels)
    assert out.logits.shape == (2, 9, 64)
    torch.testing.assert_close(out.logits[PADDED == 1], right.logits[:, N:][PADDED == 1], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(out.loss, right.loss, rtol=1e-12, atol=1e-12)
    mine, theirs = (torch.autograd.grad(loss, prompt)[0] for loss in (out.loss, right.loss))
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
    assert mine.abs().max() > 0 and all(p.grad is None for p in model.parameters())
    assert not torch.allclose(out.logits, make().double()(input_ids=ids, attention_mask=PADDED).logits)


@pytest.mark.parametrize("part", [lambda: bert(), lambda: bert().bert, roberta])
def test_encoders_take_token_types_and_return_one_state_a_token(part: Callable[[], Any]) -> None:
    model, prompt = prompted(part())
    ids = tokens().clamp(min=2)
    kinds = torch.zeros_like(ids)
    with torch.no_grad():
        right = plain(part, prompt, ids, PADDED, output_hidden_states=True)
        out = model(ids, PADDED, token_type_ids=kinds, output_hidden_states=True)
    if "logits" in out:
        torch.testing.assert_close(out.logits, right.logits)
        return
    real = PADDED == 1
    assert out.last_hidden_state.shape == (2, 9, 16) and len(out.hidden_states) == 3
    torch.testing.assert_close(out.last_hidden_state[real], right.last_hidden_state[:, N:][real])
    torch.testing.assert_close(out.hidden_states[1][real], right.hidden_states[1][:, N:][real])


@pytest.mark.parametrize("make", [llama, gpt2])
def test_left_and_right_padding_and_a_cache_give_the_same_logits(make: Callable[[], Any]) -> None:
    """Case 19; with a mask, and for the longer sequence without one."""
    model, _ = prompted(make())
    ids, real = tokens(), 6
    short = ids[1:, :real]
    alone = logits(model, short)
    pads = torch.zeros(1, 9 - real, dtype=torch.long)
    ones = torch.ones(1, real, dtype=torch.long)
    left = logits(model, torch.cat([pads, short], 1), attention_mask=torch.cat([pads, ones], 1))
    right = logits(model, torch.cat([short, pads], 1), attention_mask=torch.cat([ones, pads], 1))
    torch.testing.assert_close(left[:, -real:], alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(right[:, :real], alone, rtol=1e-4, atol=1e-5)
    explicit = logits(model, short, position_ids=torch.arange(real)[None])
    torch.testing.assert_close(explicit, alone, rtol=1e-4, atol=1e-5)

    for pad, asked in ((0, False), (0, True), (3, True)):
        cache, got = library("transformers").DynamicCache(), []
        whole = torch.cat([pads[:, :pad], short], 1)
        mask = torch.cat([pads[:, :pad], ones], 1)
        for begin, end in ((0, pad + 3), (pad + 3, pad + 4), (pad + 4, pad + real)):
            more = {"attention_mask": mask[:, :end]} if asked else {}
            got.append(logits(model, whole[:, begin:end], cache=cache, **more))
        torch.testing.assert_close(torch.cat(got, 1)[:, pad:], alone, rtol=1e-4, atol=1e-5)
        assert cache.get_seq_length() == N + pad + real


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_every_document_of_a_packed_row_has_the_prompt_before_it(attention: str) -> None:
    """Positions that start again, as transformers reads them: each document's logits are those that it has alone."""
    model, _ = prompted(llama(attn_implementation=attention))
    ids = tokens(12)[:1]
    positions = torch.cat([torch.arange(k) for k in (5, 1, 6)])[None]
    packed = logits(model, ids, position_ids=positions)
    alone = torch.cat([logits(model, part) for part in ids.split((5, 1, 6), 1)], 1)
    torch.testing.assert_close(packed, alone, rtol=1e-4, atol=1e-5)
    both = logits(model, ids.expand(2, -1), position_ids=torch.cat([positions, torch.arange(12)[None]]))
    torch.testing.assert_close(both, torch.cat([alone, logits(model, ids)]), rtol=1e-4, atol=1e-5)
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="documents packed into one row; with a prompt they need attention sdpa or"):
        model(input_ids=ids, position_ids=positions)


@pytest.mark.filterwarnings("ignore")
def test_generation_is_the_same_with_either_padding_with_and_without_a_cache() -> None:
    """Case 19, by transformers' own `generate`, and by hand: one token after the other, no cache and no padding."""
    model, _ = prompted(llama(pad_token_id=0, eos_token_id=None))
    short = tokens()[1:, :5]
    pads = torch.zeros(1, 4, dtype=torch.long)
    mask = torch.cat([pads, torch.ones_like(short)], 1)
    by_hand = short
    for _ in range(6):
        by_hand = torch.cat([by_hand, logits(model, by_hand)[:, -1:].argmax(-1)], 1)
    for cached in (True, False):
        options = {"max_new_tokens": 6, "do_sample": False, "use_cache": cached}
        assert torch.equal(model.generate(short, attention_mask=torch.ones_like(short), **options), by_hand)
        padded = model.generate(torch.cat([pads, short], 1), attention_mask=mask, **options)
        assert torch.equal(padded[:, 4:], by_hand)
    with bp.disabled(model):
        assert not torch.equal(model.generate(short, **options), by_hand)
    beams = model.generate(short, max_new_tokens=6, num_beams=3, do_sample=False)
    again = model.generate(short, max_new_tokens=6, num_beams=3, do_sample=False, use_cache=False)
    assert torch.equal(beams, again)


PARTS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "CAUSAL_LM": (llama, ()),
    "SEQ_CLS": (bert, ("classifier",)),
    "FEATURE_EXTRACTION": (lambda: bert().bert, ()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", PARTS)
def test_files_of_hf_peft_are_read_and_ours_are_read_by_it(task: str, tmp_path: Path) -> None:
    """Cases 20 and 6: both ways, outputs within 1e-5. HF peft also returns the logits of the virtual tokens."""
    make, saved = PARTS[task]
    peft, ids = library("peft"), tokens()

    def output(model: Any, cut: int) -> Tensor:
        with torch.no_grad():
            out = model(input_ids=ids, attention_mask=PADDED)
        if task == "SEQ_CLS":
            return out.logits  # type: ignore[no-any-return]
        whole = out.logits if task == "CAUSAL_LM" else out.last_hidden_state
        return whole[:, cut:][PADDED == 1]  # type: ignore[no-any-return]

    theirs = peft.get_peft_model(make(), peft.PromptTuningConfig(task_type=task, num_virtual_tokens=N)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = make()
    bp.load_adapter(ours, tmp_path / "theirs", trainable=True)
    assert (output(ours, 0) - output(theirs, N)).abs().max() <= 1e-5
    assert (output(ours, 0) - output(make(), 0)).abs().max() > 1e-3, "the prompt must do something"
    if task == "CAUSAL_LM":
        mine, other = (model(input_ids=ids, attention_mask=PADDED, labels=ids).loss for model in (ours, theirs))
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)

    perturb(ours, 0.1)
    bp.save_adapter(ours, tmp_path / "ours")
    back = peft.PeftModel.from_pretrained(make(), tmp_path / "ours").eval()
    assert (output(back, N) - output(ours, 0)).abs().max() <= 1e-5
    again = make()
    bp.load_adapter(again, tmp_path / "ours")
    assert torch.equal(output(again, 0), output(ours, 0))
    assert bp.adapters_of(again)["default"] == bp.PromptTuning(n=N, modules_to_save=saved)


def test_beginnings_are_random_of_the_models_size_or_tokens_or_given() -> None:
    embed = llama().get_input_embeddings().weight.detach()
    model = llama()
    bp.adapt(model, bp.PromptTuning(n=2000), "random")
    drawn = model.adapters["random"].prompt.detach()
    torch.testing.assert_close(drawn.square().mean(), embed.square().mean(), rtol=0.06, atol=0)
    bp.adapt(model, bp.PromptTuning(n=5, token_ids=(7, 3)), "text")
    assert torch.equal(model.adapters["text"].prompt, embed[[7, 3, 7, 3, 7]])
    bp.adapt(model, bp.PromptTuning(n=1, token_ids=(7, 3)), "cut")
    assert torch.equal(model.adapters["cut"].prompt, embed[[7]])
    given = torch.randn(N, 32)
    bp.adapt(model, bp.PromptTuning(n=N, embeddings=given), "given")
    assert torch.equal(model.adapters["given"].prompt, given)
    with torch.no_grad():
        model.adapters["given"].prompt.zero_()
        model.adapters["text"].prompt.zero_()
    assert given.abs().max() > 0 and torch.equal(model.get_input_embeddings().weight, embed), "copies, not views"


def test_prompts_and_layers_adapters_are_switched_between() -> None:
    model, ids = llama(), tokens()
    right = logits(model, ids)
    bp.adapt(model, bp.PromptTuning(n=N), "prompt")
    prompt = logits(model, ids)
    bp.adapt(model, bp.Lora(("q_proj",), r=2), "lora")
    torch.testing.assert_close(logits(model, ids), right)
    bp.use_adapter(model, "prompt")
    assert torch.equal(logits(model, ids), prompt) and bp.trainable_summary(model).trainable == N * 32
    bp.merge(model, "lora")
    bp.unmerge(model)
    for name in ("prompt", "lora"):
        bp.delete_adapter(model, name)
    assert torch.equal(logits(model, ids), right) and type(model) is type(llama())


def test_a_prompt_goes_on_the_encoder_inside_a_model_of_ones_own(tmp_path: Path) -> None:
    """A mean over the caller's tokens alone: the encoder's output and the mask keep their length."""

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = bert().bert
            self.head = nn.Linear(16, 4)

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            h = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            return self.head((h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))  # type: ignore[no-any-return]

    model = Mean()
    summary = bp.adapt(model, bp.PromptTuning(n=N, modules_to_save=("head",)))
    assert set(summary.names) == {
        "encoder.adapters.default.prompt",
        "head.adapters.default.module.weight",
        "head.adapters.default.module.bias",
    }
    out = model(tokens(), PADDED)
    short = model(tokens()[1:, :6], PADDED[1:, :6])
    torch.testing.assert_close(out[1:], short)
    with pytest.raises(ValueError, match=r"the prompt is on 'encoder'; HF peft has prompts on whole models only"):
        bp.save_adapter(model, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def judge() -> Any:
    """A Llama that classifies sequences, of whose last token it is."""
    transformers = library("transformers")
    torch.manual_seed(3)
    return transformers.LlamaForSequenceClassification(transformers.LlamaConfig(**llama().config.to_dict() | LABELS))


LABELS = {"num_labels": 3, "pad_token_id": 0}


def test_a_decoder_that_classifies_takes_the_last_token_and_not_the_padding(tmp_path: Path) -> None:
    """Given embeddings in place of ids, transformers takes the last place, whatever stands there."""
    model = judge().eval()
    bp.adapt(model, bp.PromptTuning(n=N, modules_to_save=("score",)))
    perturb(model, 0.1)
    ids = tokens()
    padded = torch.cat([ids[:, :6], torch.zeros(2, 3, dtype=torch.long)], 1)
    mask = torch.cat([torch.ones(2, 6, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long)], 1)
    right = logits(model, ids[:, :6])
    torch.testing.assert_close(logits(model, padded, attention_mask=mask), right, rtol=1e-4, atol=1e-5)
    bp.save_adapter(model, tmp_path)
    again = judge().eval()
    bp.load_adapter(again, tmp_path)
    assert torch.equal(logits(again, ids[:, :6]), right)
    peft = library("peft")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = peft.PeftModel.from_pretrained(judge().eval(), tmp_path).eval()
        assert (logits(theirs, ids[:, :6]) - right).abs().max() <= 1e-5


def test_half_precision_models_have_float32_prompts() -> None:
    model, prompt = prompted(llama().to(torch.bfloat16))
    assert prompt.dtype == torch.float32 and logits(model, tokens()).dtype == torch.bfloat16
    model(input_ids=tokens(), labels=tokens()).loss.backward()
    assert prompt.grad is not None and prompt.grad.dtype == torch.float32
    half, prompt = prompted(llama(), dtype=torch.bfloat16)
    assert prompt.dtype == torch.bfloat16 and logits(half, tokens()).dtype == torch.float32


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: bp.PromptTuning(n=0), r"n=0: must be a whole number of at least 1"),
    (lambda: bp.PromptTuning(token_ids=(1, -2)), r"token_ids=\(1, -2\)"),
    (lambda: bp.PromptTuning(n=2, token_ids=(1,), embeddings=torch.ones(2, 6)), r"token_ids, embeddings: a prompt has"),
    (lambda: bp.PromptTuning(n=2, embeddings=torch.ones(3, 6)), r"embeddings: .* \[3, 6\]; must be \[n=2, dim\]"),
    (lambda: bp.adapt(Network(), bp.PromptTuning(n=2, embeddings=torch.ones(2, 5))), r"5 features; 'the model' has 6"),
    (lambda: bp.adapt(Network(), bp.PromptTuning(token_ids=(11,))), r"token_ids: 11 is beyond the model's 11 tokens"),
    (lambda: bp.adapt(nn.Linear(2, 2), bp.PromptTuning()), r"no module of it takes inputs_embeds"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_settings_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_encoder_decoders_are_refused_and_left_as_they_were() -> None:
    transformers = library("transformers")
    config = transformers.T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=16)
    model = transformers.T5ForConditionalGeneration(config)
    kinds = [type(module) for module in model.modules()]
    with pytest.raises(ValueError, match="is an encoder-decoder model"):
        bp.adapt(model, bp.PromptTuning())
    assert [type(module) for module in model.modules()] == kinds and not bp.adapters_of(model)


def test_calls_that_a_prompt_does_not_fit_are_refused_before_the_model_runs() -> None:
    model, _ = prompted(gpt2())  # of 32 places
    ids = tokens()
    calls: list[tuple[dict[str, Any], str]] = [
        ({"input_ids": ids, "attention_mask": torch.ones(2, 1, 9, 9)}, r"attention_mask: of shape \[2, 1, 9, 9\]"),
        ({"input_ids": ids, "attention_mask": torch.ones(2, 12)}, r"shape \[2, 12\]; .* must be of shape \[2, 9\]"),
        ({"input_ids": ids, "attention_mask": {}}, r"attention_mask: a dict"),
        ({}, r"input_ids, inputs_embeds: one of the two must be given"),
        ({"input_ids": ids, "inputs_embeds": torch.ones(2, 9, 16)}, r"and not both"),
        ({"input_ids": ids[None]}, r"input_ids: of shape \[1, 2, 9\]"),
        ({"input_ids": tokens(30)}, r"3 \+ 30 tokens with the prompt's; the model has 32 places"),
        ({"input_ids": ids, "cache": ((ids, ids),)}, r"cache: a tuple"),
        ({"input_ids": ids, "return_dict": False}, r"return_dict: the model returned a tuple"),
    ]
    for arguments, message in calls:
        with pytest.raises(ValueError, match=message):
            model(**arguments)
    assert model(input_ids=tokens(29)).logits.shape == (2, 29, 64)
    with pytest.raises(TypeError, match="multiple values for argument 'input_ids'"):
        model(ids, input_ids=ids)
