"""The compression suites, registered under the entry-point group `bancada.suites`.

This folder alone imports the harness, and nothing in the package imports this folder.

`compression.speed` is one product of a linear layer whose weight was compressed before the first call.
`compression.size` is the compression itself: what it takes, and how many bytes and how much noise it leaves.
`compression.pruned` is a pruned block in several forms: which of them are smaller or faster than before.
`compression.quality` is a whole model, compressed, on held-out data: what it loses, and its bytes and time.
`compression.distillation` trains half a model alone, and by its teacher.
"""

from __future__ import annotations

from bancada.suite import AnySuite, KernelSuite, Metric
from bancada_compression._suites import problem
from bancada_compression._suites.catalogue import TECHNIQUES
from bancada_compression._suites.contenders import size_contenders, speed_contenders
from bancada_compression._suites.distillation import distillation_suite
from bancada_compression._suites.pruned import pruned_suite
from bancada_compression._suites.quality import quality_suite

_PART = "a step of prune or factorize, which compression.quality measures"

EXCLUDED: dict[str, str] = {
    "FactoredLayer": "a report",
    "LayerReport": "a report",
    "ModelReport": "a report",
    "PrunedLayer": "a report",
    "QuantizedLinear": "the common part of the layers that compression.speed measures",
    "LowRankLinear": "what factorize makes, which compression.quality measures",
    "Groupwise": "a format's settings: compression.speed measures the layers it makes",
    "Int8": "a format's settings: compression.speed measures the layers it makes",
    "NF4": "a format's settings: compression.speed measures the layers it makes",
    "W8A8": "a format's settings: compression.speed measures the layers it makes",
    "quantize_int8": "compression.size measures it at 8 bits",
    "int8_matmul": "the product inside W8A8, which compression.speed measures",
    "pack": "a step of quantize_groupwise and quantize_nf4, which compression.size measures",
    "unpack": "a step of every packed layer's product, which compression.speed measures",
    "keep_mask": _PART,
    "magnitude_scores": _PART,
    "n_of_m_mask": _PART,
    "rank_for": _PART,
    "svd_factor": _PART,
    "wanda_scores": _PART,
    "whitened_svd_factor": _PART,
}
"""Public names of `bancada_compression` that no suite measures, each with the reason."""


def suites() -> list[AnySuite]:
    """The suites of compressed linear layers and models."""
    return [
        KernelSuite(
            id="compression.speed",
            title="Quantised linear layer, one product",
            family="compression",
            question="Does a compressed weight make a linear layer faster here, for how many tokens, at which error?",
            axes=problem.SPEED_AXES,
            defaults=problem.SPEED_DEFAULTS,
            inputs=problem.speed_inputs,
            oracle=problem.speed_oracle,
            tolerance=problem.speed_tolerance,
            work=problem.speed_work,
            techniques=TECHNIQUES,
            contenders=speed_contenders(),
            x_axis="tokens",
            static=("weight",),
            metrics=(Metric("bytes", "bytes of the weight", "bytes", "lower", "log"),),
            small=problem.SMALL,
        ),
        KernelSuite(
            id="compression.size",
            title="Quantising a weight: bytes and noise",
            family="compression",
            question="How many bytes does a format take for the same weights, and how much noise does it add?",
            axes=problem.SIZE_AXES,
            defaults=problem.SIZE_DEFAULTS,
            inputs=problem.size_inputs,
            oracle=problem.size_oracle,
            tolerance=problem.size_tolerance,
            work=problem.size_work,
            techniques=TECHNIQUES,
            contenders=size_contenders(),
            x_axis="in_features",
            metrics=(
                Metric("sqnr_db", "signal to noise", "dB", "higher"),
                Metric("bits_per_weight", "bits a weight", "bits", drawn=False),
                Metric("bytes", "bytes of the weight", "bytes", "lower", "log"),
            ),
            weighs=("bytes", "sqnr_db"),
            small={name: value for name, value in problem.SMALL.items() if name != "tokens"},
        ),
        pruned_suite(),
        quality_suite(),
        distillation_suite(),
    ]
