"""`compression.quality`: what whole models lose when they are compressed, and what that saves.

One measured call is a forward over held-out examples. What is lost (KL divergence, perplexity, cosine, accuracy) is
measured and not judged; the arithmetic is: see `judge.py`.
"""

from __future__ import annotations

import functools
import importlib.util

import torch

from bancada.suite import Axis, Case, Contender, Device, KernelSuite, Metric, Run, Scalar, Tensors, Work
from bancada_compression._suites.catalogue import TECHNIQUES
from bancada_compression._suites.quality import judge
from bancada_compression._suites.quality.compressions import COMPRESSIONS, Compression
from bancada_compression._suites.quality.subjects import SUBJECTS, Subject

AXES = (
    Axis("workload", "{}", str),
    Axis("keep", "keep{:g}", float, minimum=0.0, unit="share of the weights that pruning and factorisation keep"),
)
DEFAULTS: dict[str, Scalar] = {"workload": "tiny-lm", "keep": 0.5}
SMALL: dict[str, Scalar] = {"workload": "digits", "keep": 0.5}
METRICS = (
    Metric("kl", "KL to the uncompressed model", "nats", "lower", "log"),
    Metric("perplexity", "perplexity", "", "lower", "log", drawn=False),
    Metric("cosine", "cosine to the uncompressed model's embeddings", "", "higher"),
    Metric("accuracy", "accuracy", "", "higher"),
    Metric("output_sqnr_db", "signal to noise of the outputs", "dB", "higher", drawn=False),
    Metric("sqnr_db", "signal to noise of the weights", "dB", "higher", drawn=False),
    Metric("bytes", "bytes of the model", "bytes", "lower", "log"),
)


def valid(case: Case) -> str | None:
    """Why axis values make no case."""
    if case.word("workload") not in SUBJECTS:
        return f"workload={case.word('workload')!r}: allowed are {', '.join(SUBJECTS)}"
    if not 0 < float(case["keep"]) <= 1:
        return f"keep={case['keep']!r}: must be above 0 and at most 1"
    return None


def _subject(case: Case) -> Subject:
    return SUBJECTS[case.word("workload")]


def inputs(case: Case, device: str, seed: int) -> dict[str, torch.Tensor]:
    """Held-out examples drawn by the seed, and what the uncompressed model makes of them."""
    return {name: tensor.to(device) for name, tensor in _subject(case).inputs(seed).items()}


def oracle(case: Case, given: Tensors) -> dict[str, torch.Tensor]:
    """`off` = 0: no distance from the float64 forward of the weights that a model says it has."""
    return {"off": torch.zeros(given[judge.DENSE].shape, dtype=torch.float64)}


def tolerance(case: Case, given: Tensors, answer: Tensors) -> dict[str, float]:
    """`off` is a share of what rounding may make."""
    return {"off": 1.0}


def work(case: Case) -> Work:
    """The products of the compressed layers, with the weights that are kept; each of these read once at 3 bits."""
    subject, keep = _subject(case), float(case["keep"])
    return Work(flops=2.0 * subject.positions * subject.weights * keep, bytes=subject.weights * keep * 3 / 8)


def _build(way: Compression, case: Case, given: Tensors) -> Run:
    subject, keep = _subject(case), float(case["keep"])
    device = given[judge.DENSE].device
    model = subject.load().to(device)
    before = {name: judge.weight_of(model.get_submodule(name)).clone() for name in subject.layers()}
    way.compress(model, subject, keep)
    model.eval().requires_grad_(False)

    @torch.no_grad()
    def found(out: torch.Tensor) -> dict[str, torch.Tensor]:
        weights = {name: judge.weight_of(model.get_submodule(name)) for name in before}
        exact = judge.with_weights(subject.load().to(device), weights)
        own = subject.answer(exact, given)
        rounded = subject.answer(judge.rounding_inputs(exact, tuple(before)), given) if way.rounds_inputs else None
        measures = {
            **subject.measures(out, given),
            "sqnr_db": judge.weights_decibels(before, weights),
            "bytes": float(judge.stored_bytes(model)),
        }
        return {
            "off": judge.share_of_allowed(out, own, given[judge.ROUNDING], rounded),
            **{f"measure.{name}": torch.tensor(value, dtype=torch.float64) for name, value in measures.items()},
        }

    def run() -> judge.Outputs:
        with torch.no_grad():
            return judge.Outputs(functools.partial(found, subject.answer(model, given)))

    return run


def _supports(way: Compression, case: Case, device: Device) -> str | None:
    for module, distribution in _subject(case).needs:
        if importlib.util.find_spec(module) is None:
            return f"{distribution} is not installed"
    if way.half_only and case["keep"] != 0.5:
        return f"keep={case['keep']:g}: two of four are half"
    return None


def quality_suite() -> KernelSuite:
    """The suite with all its contenders."""
    return KernelSuite(
        id="compression.quality",
        title="What a compressed model loses",
        family="compression",
        question="How much quality does each way of compressing a model cost, for how many bytes and how much time?",
        axes=AXES,
        defaults=DEFAULTS,
        inputs=inputs,
        oracle=oracle,
        tolerance=tolerance,
        work=work,
        techniques=TECHNIQUES,
        contenders=tuple(
            Contender(
                id=way.id,
                technique=way.technique,
                origin=way.origin,
                label=way.label,
                build=functools.partial(_build, way),
                requires=way.requires,
                supports=functools.partial(_supports, way),
                reference=way.id == "torch-dense",
                precision=way.precision,
                backend="torch operators",
            )
            for way in COMPRESSIONS
        ),
        x_axis="keep",
        metrics=METRICS,
        weighs=("bytes", "kl", "cosine", "accuracy"),
        small=SMALL,
        valid=valid,
    )
