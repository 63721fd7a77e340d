"""The questions people ask, answered from rows: each a declared object, and no sentence without its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bancada.questions.accumulating import ACCUMULATION
from bancada.questions.adapting import DISTILLED, FORGETS
from bancada.questions.attention import FLASH
from bancada.questions.checkpointing import CHECKPOINTING
from bancada.questions.compiling import COMPILE
from bancada.questions.compression import QUANTISED
from bancada.questions.declare import Answer, Chart, Point, Question
from bancada.questions.evidence import Evidence, gather
from bancada.questions.optimizers import EIGHT_BITS, MUON
from bancada.questions.peft import FREEZING, LORA_MEMORY, LORA_SPEED
from bancada.questions.pruning import PRUNED
from bancada.questions.ranks import DATA_PARALLEL, SHARDED_LIBRARIES

__all__ = ["QUESTIONS", "Answer", "Asked", "Chart", "Evidence", "Point", "Question", "Told", "ask", "gather"]

QUESTIONS: tuple[Question, ...] = (
    FLASH,
    COMPILE,
    EIGHT_BITS,
    MUON,
    ACCUMULATION,
    QUANTISED,
    PRUNED,
    DISTILLED,
    LORA_SPEED,
    LORA_MEMORY,
    FREEZING,
    FORGETS,
    DATA_PARALLEL,
    SHARDED_LIBRARIES,
    CHECKPOINTING,
)
"""In the order of the families."""


@dataclass(frozen=True)
class Told:
    """An answer, whose rows it rests on, and the suites that they are of."""

    run: str
    device: str
    answer: Answer
    suites: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A question with what each run's rows say to it; nothing where none holds the rows it needs."""

    question: Question
    told: tuple[Told, ...]


def ask(evidence: Sequence[Evidence]) -> list[Asked]:
    """Every question, put to the rows of each run and device."""
    asked = []
    for question in QUESTIONS:
        found = ((one, question.put(one)) for one in evidence)
        told = tuple(
            Told(one.run, one.device, answer, one.suites_of(answer.rows)) for one, answer in found if answer is not None
        )
        asked.append(Asked(question, told))
    return asked
