"""The attention suites, registered under the entry-point group `bancada.suites`.

This folder alone imports the harness, and nothing in the package imports this folder.

`attention.forward` is one call of the forward pass. `attention.training` is the forward pass and the gradients
of q, k and v for a random gradient of the output, taken by `torch.autograd.grad`. `attention.compile` and
`attention.configurations` ask how the Triton kernels should cut their work.
"""

from __future__ import annotations

from bancada.compiled import CompileSuite
from bancada.suite import KernelSuite
from bancada_attention._suites import answer, compiled, problem
from bancada_attention._suites.catalogue import TECHNIQUES
from bancada_attention._suites.contenders import contenders

EXCLUDED: dict[str, str] = {}
"""Public names of `bancada_attention` that no suite measures, each with the reason."""


def suites() -> list[KernelSuite | CompileSuite]:
    """The suites of exact attention."""
    return [
        KernelSuite(
            id="attention.forward",
            title="Attention, forward",
            family="attention",
            question="Which attention should I run where no gradient is needed, at which length, at what cost?",
            axes=problem.AXES,
            defaults=problem.DEFAULTS,
            inputs=problem.forward_inputs,
            oracle=answer.forward_oracle,
            tolerance=answer.tolerance,
            work=problem.forward_work,
            techniques=TECHNIQUES,
            contenders=contenders(training=False),
            x_axis="seq_len",
            small=problem.SMALL,
            valid=problem.valid,
        ),
        KernelSuite(
            id="attention.training",
            title="Attention, forward and backward",
            family="attention",
            question="Which attention should I train with, at which length, at what cost?",
            axes=problem.AXES,
            defaults=problem.DEFAULTS,
            inputs=problem.training_inputs,
            oracle=answer.training_oracle,
            tolerance=answer.tolerance,
            work=problem.training_work,
            techniques=TECHNIQUES,
            contenders=contenders(training=True),
            x_axis="seq_len",
            small=problem.SMALL,
            valid=problem.valid,
        ),
        compiled.configurations_suite(),
        compiled.compile_suite(),
    ]
