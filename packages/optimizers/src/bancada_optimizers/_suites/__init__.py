"""The optimizer suites, registered under the entry-point group `bancada.suites`.

This folder alone imports the harness, and nothing in the package imports this folder.

`optimizers.step` is one update of a Transformer's parameters that have taken two before. `optimizers.state` is the
first update of a new optimizer, after which the bytes of its state are counted. `optimizers.convergence` trains.
`optimizers.accumulation` makes the gradient of one batch from micro-batches.
`optimizers.compile` asks the compiler about the fused step's kernel.
"""

from __future__ import annotations

from bancada.compiled import CompileSuite
from bancada.suite import KernelSuite, Metric
from bancada.training import TrainingSuite
from bancada_optimizers._suites import accumulation, compiled, convergence, problem
from bancada_optimizers._suites.catalogue import TECHNIQUES
from bancada_optimizers._suites.contenders import STATE_EXCLUDED, STEP_EXCLUDED, WAYS

_CLASS = "a class, and the check sees functions only: contenders of optimizers.step and optimizers.state step with it"
_REFERENCE = "the reference behind a class's for-loop, which optimizers.step races; the suites' answer is made with it"
_PLAIN = "arithmetic on a number or a list, next to nothing beside a step: held by the package's tests"
_TRAINING = "acts on a training loop and not on a step: held by the package's tests"

EXCLUDED = {
    **dict.fromkeys(("AdamW", "AdamW8bit", "Lion", "Muon", "SGD"), _CLASS),
    **dict.fromkeys(("adamw_step", "lion_step", "muon_step", "newton_schulz", "sgd_step"), _REFERENCE),
    **dict.fromkeys(("dequantize_blockwise", "quantize_blockwise", "dynamic_map"), "steps of AdamW8bit, raced with it"),
    **dict.fromkeys(("Constant", "Cosine", "InverseSqrt", "Linear", "Scheduler", "WarmupStableDecay"), _PLAIN),
    **dict.fromkeys(("decay_groups", "muon_groups", "windows"), _PLAIN),
    **dict.fromkeys(("Clipped", "NonFiniteGradientError"), "what clip_gradients returns and raises"),
    **dict.fromkeys(("DynamicLossScaler", "clip_gradients"), _TRAINING),
}
"""Public names of `bancada_optimizers` that no suite measures by name, each with the reason."""


def suites() -> list[KernelSuite | TrainingSuite | CompileSuite]:
    """The suites of optimizers' cost, and of what they are worth."""
    return [
        KernelSuite(
            id="optimizers.step",
            title="Optimizer step",
            family="optimizers",
            question="What does one update cost, by rule and by implementation?",
            axes=problem.STEP_AXES,
            defaults={"rule": "adamw", **problem.DEFAULTS},
            inputs=problem.step_inputs,
            oracle=problem.step_oracle,
            tolerance=problem.step_tolerance,
            work=problem.step_work,
            techniques=TECHNIQUES,
            contenders=tuple(way.step() for way in WAYS if way.id not in STEP_EXCLUDED),
            x_axis="width",
            stateful=True,
            small=problem.SMALL,
        ),
        KernelSuite(
            id="optimizers.state",
            title="Optimizer state",
            family="optimizers",
            question="How much memory does an optimizer keep beside the parameters?",
            axes=problem.SIZES,
            defaults=problem.DEFAULTS,
            inputs=problem.state_inputs,
            oracle=problem.state_oracle,
            tolerance=problem.state_tolerance,
            work=problem.state_work,
            techniques=TECHNIQUES,
            contenders=tuple(way.state() for way in WAYS if way.id not in STATE_EXCLUDED),
            metrics=(Metric("bytes_per_parameter", "bytes of state a parameter", "", "lower", "log"),),
            weighs=("bytes_per_parameter",),
            x_axis="width",
            small=problem.SMALL,
        ),
        convergence.suite(),
        accumulation.suite(),
        compiled.suite(),
    ]
