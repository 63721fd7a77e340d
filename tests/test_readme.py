"""What the READMEs tell people to type is right: commands are parsed, Python is run, links lead somewhere."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bancada.again import NO_FILE
from bancada.ceilings import ABOVE_CEILING
from bancada.cli import app
from bancada.stats import BAND, CONFIDENCE

ROOT = Path(__file__).resolve().parents[1]
READMES = sorted([ROOT / "README.md", ROOT / "bench" / "README.md", *ROOT.glob("packages/*/README.md")])
SESSIONS = set(re.findall(r"^@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.M))
PROMISED = (
    "python -m pip install nox && python -m nox -s bench",
    "python -m pip install nox && python -m nox -s tests",
)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Every fenced block of a language, with the README it stands in."""
    for path in READMES:
        for text in re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S):
            yield str(path.relative_to(ROOT)), text


def commands() -> list[tuple[str, str]]:
    """Every command line of the READMEs; those joined by && one by one."""
    return [
        (where, command.strip())
        for where, block in blocks("bash")
        for line in block.splitlines()
        for command in line.split("&&")
    ]


def parse_bancada(arguments: list[str]) -> None:
    """Parses arguments of `bancada` as its command line would, and runs nothing."""
    group: Any = typer.main.get_command(app)
    name, command, rest = group.resolve_command(group.make_context("bancada", [*arguments]), [*arguments])
    command.make_context(name, rest)


def parse_nox(arguments: list[str]) -> None:
    """`-s SESSION... [-- what the session's program takes]`."""
    assert arguments[0] == "-s", arguments
    own, passed = (
        (arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :])
        if "--" in arguments
        else (arguments, [])
    )
    assert set(own[1:]) <= SESSIONS, f"{own[1:]}: there are {sorted(SESSIONS)}"
    if own[1:] == ["bench"]:
        parse_bancada(["sweep", *passed])
    if own[1:] == ["report"]:
        parse_bancada(["report", *passed])


def test_the_two_commands_are_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in PROMISED:
        assert f"```bash\n{command}\n```" in text


def test_the_figures_are_those_of_the_code() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{CONFIDENCE:.0%} interval" in text
    assert f"beyond {math.expm1(BAND):.0%}" in text
    assert f"above {ABOVE_CEILING:.0%}" in text


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert PROMISED[1] in script
    assert "python -m nox -s lint typecheck" in script
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)


@pytest.mark.parametrize(("where", "command"), commands(), ids=lambda part: part)
def test_a_command_parses(where: str, command: str) -> None:
    subprocess.run(["bash", "-n", "-c", command], check=True)
    words = shlex.split(command)
    if words[:3] == ["python", "-m", "nox"] or words[:3] == ["pipx", "run", "nox"]:
        parse_nox(words[3:])
    elif words[:3] == ["python", "-m", "bancada"]:
        parse_bancada(words[3:])
    elif words[:3] == ["python", "-m", "pytest"]:
        assert all((ROOT / path).exists() for path in words[3:] if not path.startswith("-"))
    elif words[:4] == ["python", "-m", "pip", "install"]:
        paths = [re.sub(r"\[.*\]", "", word) for word in words[4:] if not word.startswith("-")]
        assert all(path == "nox" or (ROOT / path).exists() for path in paths), paths
    else:
        pytest.fail(f"{where}: no check for {command!r}: write one")


@pytest.mark.parametrize("wrong", ["-s brench", "-s bench -- --sweet smoke", "-s report -- --nope"])
def test_a_wrong_command_is_noticed(wrong: str) -> None:
    with pytest.raises(BaseException, match=r"brench|sweet|nope"):
        parse_nox(shlex.split(wrong))


def test_named_sweeps_exist() -> None:
    named = {shlex.split(command)[4] for _, command in commands() if command.startswith("python -m bancada sweep ")}
    assert named
    for name in named - {NO_FILE}:
        assert (ROOT / "bench" / "sweeps" / f"{name}.toml").is_file()


@pytest.mark.parametrize(("where", "snippet"), list(blocks("python")), ids=lambda part: part.splitlines()[0])
def test_a_python_snippet_runs(where: str, snippet: str) -> None:
    exec(compile(snippet, where, "exec"), {"__name__": "snippet"})
    assert "bancada" in snippet, "a snippet shows this project"


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (path.parent / target).exists(), target
