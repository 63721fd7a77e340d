"""The questions that the report answers: each names suites that are there and a command that measures its rows."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from bancada.cli import app
from bancada.questions import QUESTIONS, Question
from bancada.registry import discover

SUITES = discover()


def test_questions_are_named_apart_and_put_as_people_put_them() -> None:
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS) == 15
    assert all(question.text.endswith(("?", ")")) for question in QUESTIONS)
    assert {suite for question in QUESTIONS for suite in question.suites} <= set(SUITES)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_the_command_of_a_question_plans_the_rows_it_needs(question: Question) -> None:
    planned = CliRunner().invoke(app, ["sweep", *shlex.split(question.measure), "--dry-run", "--device", "cpu"])
    assert planned.exit_code == 0, planned.output
    assert any(suite in planned.output for suite in question.suites)
