"""What every optimizer keeps to: gradients, closures, groups, state, copies, refusals."""

from __future__ import annotations

import copy
import io
import pickle
from types import NoneType
from typing import Any

import pytest
import torch
from rules import BLOCKWISE, CASES, LR, NATIVE, WD, WITHOUT_COMPILER, Case

from bancada_optimizers import SGD, AdamW, AdamW8bit, Lion, Muon, state_bytes

ALL = (*CASES, BLOCKWISE, *(() if WITHOUT_COMPILER else (NATIVE,)))
every = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)


def params(case: Case, dtype: torch.dtype = torch.float32, count: int = 3) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(7)
    shape = (13, 29)  # 377 elements: a whole block of 256 and a part of one
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for _ in range(count)]


def feed(ps: list[torch.nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for p in ps:
        p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)


def run(optimizer: Any, ps: list[torch.nn.Parameter], first: int, last: int) -> None:
    for t in range(first, last):
        feed(ps, t)
        optimizer.step()


def same(one: list[torch.nn.Parameter], two: list[torch.nn.Parameter]) -> bool:
    return all(torch.equal(p, q) for p, q in zip(one, two, strict=True))


@every
def test_case01_a_late_parameter_takes_its_own_first_step(case: Case) -> None:
    """Group-level step counters gave 0.1x to 0.64x of the step."""
    ps = params(case)
    optimizer = case.optimizer(ps[:2])
    for t in range(50):
        feed(ps[:1], t)
        optimizer.step()
    optimizer.add_param_group({"params": [ps[2]]})
    fresh = params(case)
    twin = case.optimizer(fresh[1:])
    for late, new in ((ps[1:], fresh[1:]),):
        feed(late, 99)
        feed(new, 99)
    ps[0].grad = None
    optimizer.step()
    twin.step()
    assert same(ps[1:], fresh[1:])


@every
def test_case02_gradients_are_read_only_and_none_is_untouched(case: Case) -> None:
    ps = params(case)
    optimizer = case.optimizer(ps)
    feed(ps, 0)
    ps[1].grad = None
    before, grads = ps[1].detach().clone(), [None if p.grad is None else p.grad.clone() for p in ps]
    optimizer.step()
    assert torch.equal(ps[1], before) and ps[1] not in optimizer.state
    assert all(p.grad is None if g is None else torch.equal(p.grad, g) for p, g in zip(ps, grads, strict=True))


@every
def test_case03_the_closure_runs_with_gradients(case: Case) -> None:
    ps = params(case, count=1)
    optimizer = case.optimizer(ps)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = ps[0].pow(2).sum()
        loss.backward()
        return loss

    first = float(optimizer.step(closure).detach())
    for _ in range(5):
        optimizer.step(closure)
    assert float(optimizer.step(closure).detach()) < first


def test_case05_rates_are_numbers_that_nobody_shares() -> None:
    """PT126854 and PT163098: LambdaLR compounded a tensor rate, and initial_lr was the same tensor."""
    p = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match=r"lr=tensor\(0\.1"):
        AdamW([p], lr=torch.tensor(0.1))  # type: ignore[arg-type]
    optimizer = AdamW([p], lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.5)
    for _ in range(5):
        optimizer.step()
        schedule.step()
        assert optimizer.param_groups[0]["lr"] == 0.05
    theirs = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))], lr=torch.tensor(0.2))
    optimizer.load_state_dict(theirs.state_dict())
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.2) and isinstance(optimizer.param_groups[0]["lr"], float)


@every
@pytest.mark.parametrize("dtype", [torch.complex64, torch.int32], ids=str)
def test_case07_other_parameters_are_refused(case: Case, dtype: torch.dtype) -> None:
    """PT59998: complex parameters, never silently something else."""
    p = torch.zeros(4, 4, dtype=dtype, requires_grad=dtype.is_complex)
    with pytest.raises(ValueError, match=r"complex|floating point"):
        case.optimizer([p])


@every
def test_case07_a_sparse_gradient_is_refused_with_nothing_changed(case: Case) -> None:
    ps = params(case)
    optimizer = case.optimizer(ps)
    run(optimizer, ps, 0, 2)
    before = copy.deepcopy(optimizer.state_dict())
    values = [p.detach().clone() for p in ps]
    feed(ps, 5)
    ps[2].grad = ps[2].grad.to_sparse()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"grad: layout torch.sparse_coo for a parameter of shape \[13, 29\]"):
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(ps, values, strict=True))
    for key, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, before["state"][key][name]) for name, value in state.items())


@pytest.mark.parametrize("case", [c for c in ALL if not c.matrices], ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_case08_every_layout_steps_alike(case: Case, dtype: torch.dtype) -> None:
    """0-dim, empty, strided and channels-last parameters, and gradients laid out otherwise."""
    torch.manual_seed(8)
    images = torch.randn(4, 3, 5, 6).to(dtype)
    start = [
        torch.randn(()).to(dtype),
        torch.zeros(0, dtype=dtype),
        images,
        images,
        torch.randn(300, 2).to(dtype)[:, 0],
    ]
    plain = [torch.nn.Parameter(x.clone(memory_format=torch.contiguous_format)) for x in start]
    odd = [torch.nn.Parameter(x.clone()) for x in start[:2]]
    odd += [torch.nn.Parameter(images.to(memory_format=torch.channels_last)) for _ in range(2)]
    odd.append(torch.nn.Parameter(start[4]))  # strides (2,)
    optimizers = case.optimizer(plain), case.optimizer(odd)
    for _ in range(3):
        for i, (p, q) in enumerate(zip(plain, odd, strict=True)):
            g = torch.randn(p.shape).to(dtype)
            p.grad = g
            q.grad = g.to(memory_format=torch.channels_last) if i == 2 else g.clone()
        for optimizer in optimizers:
            optimizer.step()
    eps = torch.finfo(dtype).eps
    for p, q in zip(plain, odd, strict=True):
        torch.testing.assert_close(p, q, rtol=2 * eps, atol=2 * eps)


@every
def test_case11_a_nan_in_a_gradient_touches_only_what_the_rule_says(case: Case) -> None:
    if case.matrices:
        pytest.skip("Newton-Schulz mixes all elements of a matrix: a NaN reaches all of it, and no other matrix")
    ps = params(case)
    optimizer = case.optimizer(ps)
    feed(ps, 0)
    assert ps[0].grad is not None
    ps[0].grad.view(-1)[3] = torch.nan
    optimizer.step()
    feed(ps, 1)
    optimizer.step()
    # The sign of a NaN is 0: Lion's parameter stays where it is, and its momentum is lost.
    seen = optimizer.state[ps[0]]["exp_avg"] if case.rule == "lion" else ps[0].detach()
    lost = ~torch.isfinite(seen.view(-1))
    spread = 256 if case in (BLOCKWISE, NATIVE) else 1
    assert int(lost.sum()) == spread and bool(lost[3]) and not lost[spread if spread > 1 else 4 :].any()
    assert all(torch.isfinite(p).all() for p in ps[1:])


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_case13_a_loaded_state_goes_on_bit_equal(case: Case, dtype: torch.dtype) -> None:
    """PT43706: dtypes kept; PT196083: nothing shared; files load with weights_only."""
    ps = params(case, dtype)
    optimizer = case.optimizer(ps)
    run(optimizer, ps, 0, 5)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    others = [torch.nn.Parameter(p.detach().clone()) for p in ps]
    resumed = case.optimizer(others)
    resumed.load_state_dict(loaded)
    for p, q in zip(ps, others, strict=True):
        assert {n: v.dtype for n, v in optimizer.state[p].items()} == {n: v.dtype for n, v in resumed.state[q].items()}
    third = case.optimizer([torch.nn.Parameter(p.detach().clone()) for p in ps])
    third.load_state_dict(optimizer.state_dict())
    own = {v.data_ptr() for s in optimizer.state.values() for v in s.values()}
    assert not own & {v.data_ptr() for s in third.state.values() for v in s.values()}
    run(optimizer, ps, 5, 15)
    run(resumed, others, 5, 15)
    assert same(ps, others)


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
@pytest.mark.parametrize("to_ours", [True, False], ids=["from-torch", "to-torch"])
@pytest.mark.parametrize("fused", [False, True])
def test_case13_states_of_torch_load_both_ways(name: str, to_ours: bool, fused: bool) -> None:
    options = {"lr": LR, "weight_decay": WD} | ({"momentum": 0.9, "nesterov": True} if name == "SGD" else {})
    made = {"AdamW": (AdamW, torch.optim.AdamW), "SGD": (SGD, torch.optim.SGD)}[name]
    source, target = (made[1], made[0]) if to_ours else made
    case = CASES[0]
    ps = params(case, torch.float64)
    one = source(ps, **options, **({"fused": True} if fused and to_ours else {}))
    run(one, ps, 0, 4)
    others = [torch.nn.Parameter(p.detach().clone()) for p in ps]
    two = target(others, lr=0.5, **({"fused": True} if fused and not to_ours else {}))
    two.load_state_dict(copy.deepcopy(one.state_dict()))  # torch's own loading shares the tensors (PT196083)
    run(one, ps, 4, 8)
    run(two, others, 4, 8)
    assert max(float((p - q).detach().abs().max()) for p, q in zip(ps, others, strict=True)) <= 1e-12


@every
def test_case14_state_mapped_to_a_cpu_steps_on_its_parameters_device(case: Case) -> None:
    """PT103256: a checkpoint read with map_location="cpu" failed at the first step. Meta stands for a GPU."""
    optimizer = case.optimizer(ps := params(case))
    run(optimizer, ps, 0, 2)
    there = [torch.nn.Parameter(torch.empty_like(p, device="meta")) for p in ps]
    try:
        loaded = case.optimizer(there)
    except ValueError as error:
        pytest.skip(str(error))
    loaded.load_state_dict(optimizer.state_dict())
    moments = [value for p in there for name, value in loaded.state[p].items() if name != "step"]
    assert {value.device.type for value in moments} <= {"meta"}
    for p in there:
        p.grad = torch.empty_like(p)
    loaded.step()
    assert all(float(loaded.state[p]["step"]) == 3 for p in there if "step" in loaded.state[p])


@every
def test_case14_copies_and_pickles_go_on_and_hold_plain_values(case: Case) -> None:
    """ms-swift 10161: only tensors and plain values, `backend` included."""
    ps = params(case)
    optimizer = case.optimizer(ps)
    run(optimizer, ps, 0, 3)
    for state in optimizer.state.values():
        assert all(isinstance(value, torch.Tensor) and type(value) is torch.Tensor for value in state.values())
    for group in optimizer.state_dict()["param_groups"]:
        assert all(isinstance(value, (str, int, float, bool, tuple, list, NoneType)) for value in group.values())
    twin = copy.deepcopy(optimizer)
    again = pickle.loads(pickle.dumps(optimizer))
    copies = [[p for group in one.param_groups for p in group["params"]] for one in (twin, again)]
    run(optimizer, ps, 3, 6)
    for one, owned in zip((twin, again), copies, strict=True):
        assert {k: v for k, v in one.param_groups[0].items() if k != "params"} == {
            k: v for k, v in optimizer.param_groups[0].items() if k != "params"
        }
        run(one, owned, 3, 6)
        assert same(ps, owned)


def test_a_state_of_another_optimizer_is_refused_with_nothing_changed() -> None:
    p, q = (torch.nn.Parameter(torch.ones(4, 4)) for _ in range(2))
    adamw, lion = AdamW([p]), Lion([q])
    feed([p, q], 0)
    adamw.step()
    lion.step()
    before = copy.deepcopy(lion.state_dict())
    with pytest.raises(ValueError, match=r"a state has .*must have"):
        lion.load_state_dict(adamw.state_dict())
    wrong = copy.deepcopy(before)
    wrong["state"][0]["exp_avg"] = torch.zeros(2)
    with pytest.raises(ValueError, match=r"exp_avg has shape \[2\]"):
        lion.load_state_dict(wrong)
    assert torch.equal(lion.state_dict()["state"][0]["exp_avg"], before["state"][0]["exp_avg"])
    amsgrad = torch.optim.AdamW([torch.nn.Parameter(torch.ones(4, 4))], amsgrad=True)
    with pytest.raises(ValueError, match="amsgrad=True: not offered"):
        adamw.load_state_dict(amsgrad.state_dict())


@every
def test_half_parameters_keep_their_moments_in_fp32(case: Case) -> None:
    """The rounded parameter is within one rounding of the fp32 step, not of a bf16 one."""
    half, full = params(case, torch.bfloat16, 1), params(case, torch.bfloat16, 1)
    full = [torch.nn.Parameter(p.detach().float()) for p in full]
    one, two = case.optimizer(half), case.optimizer(full)
    for p, q in zip(half, full, strict=True):
        p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(3)).bfloat16()
        q.grad = p.grad.float()
    one.step()
    two.step()
    assert all(value.dtype in (torch.float32, torch.uint8) for value in one.state[half[0]].values())
    assert torch.equal(half[0], full[0].bfloat16())


@pytest.mark.parametrize(
    ("case", "formula"),
    [
        (Case("adamw", AdamW, "adamw"), 8),
        (Case("sgd", SGD, "sgd", {"momentum": 0.9}), 4),
        (Case("sgd-plain", SGD, "sgd"), 0),
        (Case("lion", Lion, "lion"), 4),
        (Case("muon", Muon, "muon"), 4),
        (Case("adamw8bit", AdamW8bit, "adamw"), 2 + 8 / 256),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_state_takes_the_bytes_of_the_formula(case: Case, formula: float) -> None:
    """Within 1% for 64k elements and more (figures: AdamW 8, momentum 4, 8-bit with blocks of 256 2.03)."""
    p = torch.nn.Parameter(torch.zeros(256, 257))
    p.grad = torch.ones_like(p)
    optimizer = case.optimizer([p])
    optimizer.step()
    assert state_bytes(optimizer) == pytest.approx(formula * p.numel(), rel=0.01)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (AdamW, {"lr": -1}, r"lr=-1: must be a finite number of at least 0"),
        (AdamW, {"lr": float("nan")}, r"lr=nan"),
        (AdamW, {"betas": (0.9, 1.0)}, r"betas\[1\]=1.0: .* below 1"),
        (AdamW, {"betas": 0.9}, r"betas=0.9: must be two numbers"),
        (AdamW, {"eps": 0}, r"eps=0: .* above 0"),
        (AdamW, {"weight_decay": -0.1}, r"weight_decay=-0.1"),
        (AdamW, {"backend": "cuda"}, r"backend='cuda': allowed are auto, for-loop"),
        (SGD, {"nesterov": True}, r"nesterov=True: needs momentum"),
        (SGD, {"momentum": 1}, r"momentum=1: "),
        (Lion, {"betas": (-0.1, 0.9)}, r"betas\[0\]=-0.1"),
        (Muon, {"scale": "rms"}, r"scale='rms': allowed are original, match_rms_adamw"),
        (Muon, {"ns_steps": 0}, r"ns_steps=0"),
        (AdamW8bit, {"min_8bit_size": -1}, r"min_8bit_size=-1"),
    ],
)
def test_wrong_options_are_refused_by_name(make: Any, options: dict[str, Any], message: str) -> None:
    p = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(ValueError, match=message):
        make([p], **options)
    optimizer = make([torch.nn.Parameter(torch.ones(2, 2))])
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": [p], **options})
    assert len(optimizer.param_groups) == 1
    optimizer.param_groups[0].update(options)
    with pytest.raises(ValueError, match=message):
        optimizer.step()


def test_muon_refuses_what_is_no_matrix() -> None:
    with pytest.raises(ValueError, match=r"shape \[3\] in a group with use_muon=True"):
        Muon([torch.nn.Parameter(torch.ones(3))])


def test_muon_steps_its_rest_by_adamw() -> None:
    torch.manual_seed(9)
    matrix, vector = torch.nn.Parameter(torch.randn(4, 6)), torch.nn.Parameter(torch.randn(6))
    twin = torch.nn.Parameter(vector.detach().clone())
    both = Muon([{"params": [matrix], "use_muon": True}, {"params": [vector], "use_muon": False, "lr": 0.02}])
    alone = AdamW([twin], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    for t in range(4):
        feed([matrix, vector], t)
        assert vector.grad is not None
        twin.grad = vector.grad.clone()
        both.step()
        alone.step()
    assert torch.equal(vector, twin)
    assert set(both.state[matrix]) == {"momentum_buffer"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_backend_that_cannot_run_here_is_refused() -> None:
    with pytest.raises(ValueError, match="backend='triton': needs a GPU"):
        AdamW([torch.nn.Parameter(torch.ones(2))], backend="triton")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_auto_on_a_cpu_is_the_fused_operator(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = torch._fused_adamw_
    monkeypatch.setattr(torch, "_fused_adamw_", lambda *a, **k: (calls.append(1), original(*a, **k)))
    ps = params(CASES[0], dtype)
    feed(ps, 0)
    AdamW(ps).step()
    assert calls


@every
def test_case06_decay_takes_the_parameter_from_before_the_update(case: Case) -> None:
    """transformers 14539, bnb 2010. Without a gradient's push what is left of a step is lr wd p, p the old one."""
    (p,) = params(case, count=1)
    optimizer, start = case.optimizer([p]), p.detach().clone()
    # L2 goes through SGD's momentum, of which Nesterov's first step takes 1 + mu.
    share = LR * WD * (1.9 if case.options.get("nesterov") and case.rule == "sgd" else 1.0)
    p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.testing.assert_close(p.detach(), start * (1 - share), rtol=1e-6, atol=0)
    decayed, bare = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = case.optimizer([decayed]), case.optimizer([bare])
    optimizers[1].param_groups[0]["weight_decay"] = 0.0
    for one, by in zip((decayed, bare), optimizers, strict=True):
        one.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(6))
        by.step()
    torch.testing.assert_close(decayed.detach(), bare.detach() - share * start, rtol=2e-6, atol=2e-6)


@every
def test_case15_bias_is_corrected_by_each_parameters_own_steps(case: Case) -> None:
    """DeepSpeed 7819: two parameters in one group, one of them with gradients at every other update."""
    ps = params(case, count=2)
    both, alone = case.optimizer(ps), params(case, count=2)
    seldom = case.optimizer([alone[1]])
    for t in range(6):
        feed(ps, t)
        if t % 2:
            alone[1].grad = None if ps[1].grad is None else ps[1].grad.clone()
            seldom.step()
        else:
            ps[1].grad = None
        both.step()
    assert torch.equal(ps[1], alone[1])
