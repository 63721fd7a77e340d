"""The repository's layout, its requirements, and the nox sessions that people type."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
from nox.command import CommandFailed

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("attention", "compression", "optimizers", "parallelism", "peft")
PROJECTS = ("bench", *(f"packages/{name}" for name in PACKAGES))
TOP_LEVEL = {
    ".ci", ".gitattributes", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "LICENSE", "README.md", "bench",
    "constraints.txt", "noxfile.py", "packages", "pyproject.toml", "reports", "tests",
}  # fmt: skip


def project(path: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def tracked() -> list[str]:
    """The files under version control."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.splitlines()


def test_the_top_level_is_what_the_design_says() -> None:
    found = {path.split("/")[0] for path in tracked()}
    assert found <= TOP_LEVEL, f"new at the top level: {sorted(found - TOP_LEVEL)}"
    assert found >= TOP_LEVEL - {"reports"}, f"gone from the top level: {sorted(TOP_LEVEL - found)}"


def test_nothing_generated_is_tracked() -> None:
    generated = [path for path in tracked() if re.search(r"__pycache__|^reports/runs/|\.egg-info|/\.nox/", path)]
    assert generated == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_laid_out_alike(name: str) -> None:
    folder = ROOT / "packages" / name
    module = importlib.import_module(f"bancada_{name}")
    assert (folder / "README.md").is_file() and (folder / "src" / f"bancada_{name}" / "py.typed").is_file()
    assert project(f"packages/{name}")["name"] == f"bancada-{name}"
    assert project(f"packages/{name}")["version"] == module.__version__
    assert module.__doc__


@pytest.mark.parametrize("path", PROJECTS)
def test_licence_and_readme_are_declared(path: str) -> None:
    assert project(path)["license"] == "Apache-2.0"
    assert project(path)["readme"] == "README.md"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def normal(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower().replace("_", "-")


def test_everything_required_is_pinned_for_ci() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==", 1) for line in lines if "==" in line)
    pinned = {normal(name) for name in pins}
    required = {
        normal(requirement)
        for path in PROJECTS
        for group in (project(path)["dependencies"], *project(path).get("optional-dependencies", {}).values())
        for requirement in group
    }
    assert required - pinned - {f"bancada-{name}" for name in PACKAGES} == set()
    assert pins["torch"] == "2.13.0"
    assert "sys_platform" in pins["triton"] and "linux" in pins["triton"]


@pytest.fixture(scope="module")
def noxfile() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("bancada_noxfile", ROOT / "noxfile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Session:
    """Stands in for nox's session: notes what was run, and fails where it is told to."""

    def __init__(self, failing: str = "", posargs: tuple[str, ...] = ()) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.said: list[str] = []
        self.posargs = list(posargs)
        self._failing = failing

    def run(self, *command: str, **_: Any) -> None:
        self.ran.append(command)
        if "virtualenv" in command:
            Path(command[-1], "bin").mkdir(parents=True)
            Path(command[-1], "bin", "python").touch()
        if self._failing and self._failing in command:
            raise CommandFailed(f"{self._failing} cannot be had")

    def log(self, text: str) -> None:
        self.said.append(text)

    warn = log

    def error(self, text: str) -> None:
        raise CommandFailed(text)


@pytest.fixture
def empty(noxfile: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The noxfile, with no environment yet."""
    monkeypatch.setattr(noxfile, "ENVIRONMENT", tmp_path / "environment")
    monkeypatch.setattr(noxfile, "ROOT", tmp_path)
    monkeypatch.setattr(noxfile, "PROJECTS", ("bench",))
    monkeypatch.setattr(noxfile, "CONSTRAINTS", tmp_path / "constraints.txt")
    (tmp_path / "bench").mkdir()
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    (tmp_path / "bench" / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[project.optional-dependencies]\npeers = ["rare", "usual"]\n'
    )
    return noxfile


def test_sessions_are_the_five_and_say_what_they_do(noxfile: types.ModuleType) -> None:
    for name in ("bench", "tests", "lint", "typecheck", "report"):
        session = getattr(noxfile, name)
        assert session.func.__doc__, f"{name} has no docstring"
        assert "posargs" in session.func.__code__.co_names, f"{name} takes nothing after --"


def test_each_path_has_an_e_of_its_own(noxfile: types.ModuleType) -> None:
    arguments = noxfile.editable()
    assert arguments[::2] == ("-e",) * 6
    assert arguments[1::2] == ("bench[report,machine]", *(f"packages/{name}" for name in noxfile.PACKAGES))


def test_extras_are_read_from_every_project(noxfile: types.ModuleType) -> None:
    named = {normal(requirement) for requirement in noxfile.extra("test")}
    assert named >= {"pytest-timeout", "playwright", "hypothesis", "beartype"}
    assert noxfile.extra("nothing of the kind") == []


def test_the_two_halves_are_all_tests(noxfile: types.ModuleType) -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    first, second = noxfile.HALVES
    elsewhere = {path.removeprefix("--ignore=") for path in second if path.startswith("--ignore=")}
    assert elsewhere <= set(first) and all((ROOT / path).is_file() for path in elsewhere)
    folders = [path for path in (*first, *second) if (ROOT / path).is_dir()]
    assert sorted(folders) == sorted(options["testpaths"])
    assert set(first) | set(second) == {*folders, *elsewhere, *(f"--ignore={path}" for path in elsewhere)}


@pytest.mark.parametrize(
    ("first", "second", "fails"), [("", "", ""), ("bad", "", "bad"), ("", "1", "1"), ("bad", "1", "bad")]
)
def test_what_is_run_side_by_side_fails_where_either_does_and_says_all(
    noxfile: types.ModuleType, capsys: pytest.CaptureFixture[str], first: str, second: str, fails: str
) -> None:
    session = Session(failing=first)
    told = (sys.executable, "-c", "import sys; print('told'); sys.exit('1' in sys.argv)", second)
    if fails:
        with pytest.raises(CommandFailed, match=rf"\b{fails}: failed"):
            noxfile.side_by_side(session, ("a command", first), told)
    else:
        noxfile.side_by_side(session, ("a command", first), told)
    assert "told" in capsys.readouterr().out and session.ran == [("a command", first)]


def test_a_warm_environment_is_left_as_it_is(empty: types.ModuleType) -> None:
    cold, warm = Session(), Session()
    empty.environment(cold, "bench", "-e", "bench", with_peers=True)
    assert any("virtualenv" in command for command in cold.ran)
    assert any("-e" in command for command in cold.ran)
    empty.environment(warm, "bench", "-e", "bench", with_peers=True)
    assert warm.ran == []


@pytest.mark.parametrize("changed", ["constraints.txt", "bench/pyproject.toml"])
def test_a_changed_requirement_is_installed_again(empty: types.ModuleType, changed: str) -> None:
    empty.environment(Session(), "bench", "-e", "bench")
    path = empty.ROOT / changed
    path.write_text(path.read_text() + "\n# a newer release\n")
    again = Session()
    empty.environment(again, "bench", "-e", "bench")
    assert [command for command in again.ran if "install" in command]
    assert not any("virtualenv" in command for command in again.ran), "the environment itself stays"


def test_an_environment_of_another_python_is_made_anew(empty: types.ModuleType) -> None:
    empty.environment(Session(), "bench", "-e", "bench")
    (empty.ENVIRONMENT / "made-by.txt").write_text("3.10")
    again = Session()
    empty.environment(again, "bench", "-e", "bench")
    assert any("virtualenv" in command for command in again.ran)


def test_a_peer_that_cannot_be_had_is_told_and_the_others_come(empty: types.ModuleType) -> None:
    session = Session(failing="rare")
    empty.environment(session, "bench", "-e", "bench", with_peers=True)
    assert any("usual" in command for command in session.ran)
    assert [said for said in session.said if "rare" in said and "rows" in said]


def test_a_failed_installation_is_tried_again(empty: types.ModuleType) -> None:
    with pytest.raises(CommandFailed):
        empty.environment(Session(failing="bench"), "bench", "-e", "bench")
    again = Session()
    empty.environment(again, "bench", "-e", "bench")
    assert any("-e" in command for command in again.ran)


def test_pip_keeps_to_the_constraints(empty: types.ModuleType) -> None:
    session = Session()
    empty.environment(session, "bench", "-e", "bench", with_peers=True)
    installs = [command for command in session.ran if "install" in command]
    assert installs and all("-c" in command and str(empty.CONSTRAINTS) in command for command in installs)
