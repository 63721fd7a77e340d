"""The commands of the repository: `python -m nox -s bench` measures, `python -m nox -s tests` checks.

`bench`, `tests`, `typecheck` and `report` share one environment, `.nox/bancada`, because torch's CUDA build takes
gigabytes: it is made at the first call, and brought up to date only when a requirement, a constraint or the Python
version has changed. Whatever follows `--` goes to the program that a session runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (whoever starts nox may well have an older one)
    sys.exit(f"Bancada needs Python 3.11 or newer, this is {sys.version.split()[0]}: start nox with a newer one")

import tomllib

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "typecheck", "tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".nox" / "bancada"
PACKAGES = ("attention", "parallelism", "optimizers", "compression", "peft")
PROJECTS = ("bench", *(f"packages/{name}" for name in PACKAGES))
CONSTRAINTS = ROOT / "constraints.txt"
TYPECHECK = ("mypy", "pandas-stubs", "types-psutil", "jaxtyping", "beartype", "nox")
LONGEST_TEST_S = 300
WITH_PACKAGES = tuple(f"tests/test_report_{name}.py" for name in ("browser", "choices", "figures"))
HALVES = (
    (*(f"packages/{name}/tests" for name in PACKAGES), *WITH_PACKAGES),
    ("bench/tests", "tests", *(f"--ignore={path}" for path in WITH_PACKAGES)),
)
"""The tests in two parts that take about as long, run side by side: they often wait, for processes and a browser."""


def editable() -> tuple[str, ...]:
    """pip's arguments for the harness and every package, each with a `-e` of its own: one covers one path only."""
    paths = ["bench[report,machine]", *(f"packages/{name}" for name in PACKAGES)]
    return tuple(argument for path in paths for argument in ("-e", path))


def extra(name: str) -> list[str]:
    """What all projects require for an extra: `test`, the libraries measured beside ours, `peers`, or `workloads`."""
    wanted: set[str] = set()
    for project in PROJECTS:
        declared = tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted.update(declared.get("optional-dependencies", {}).get(name, ()))
    return sorted(wanted)


def python_of(environment: Path) -> str:
    """The interpreter of a virtual environment."""
    return str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def fingerprint(arguments: tuple[str, ...]) -> str:
    """What an installation depends on, as one word: it is done again when this changes, and only then."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix} {ROOT} {arguments}".encode())
    for path in (CONSTRAINTS, *(ROOT / project / "pyproject.toml" for project in PROJECTS)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def install(session: nox.Session, *arguments: str) -> None:
    """pip, in the shared environment and under the constraints."""
    pip = (python_of(ENVIRONMENT), "-m", "pip", "install", "--disable-pip-version-check")
    quiet = () if sys.stdout.isatty() else ("-qq",)  # a person sees the download's progress, a log holds errors only
    session.run(*pip, *quiet, "-c", str(CONSTRAINTS), *arguments, external=True)


def install_peers(session: nox.Session) -> None:
    """Every peer and workload by itself: one that this system cannot have is told and left out, and its rows say so."""
    for peer in sorted({*extra("peers"), *extra("workloads")}):
        try:
            install(session, peer)
        except CommandFailed:
            session.warn(f"{peer} cannot be installed here: it is left out, and its rows in the report will say so")


def environment(session: nox.Session, group: str, *arguments: str, with_peers: bool = False) -> str:
    """The shared environment's interpreter, with `arguments` installed for `group` where that is not so yet."""
    interpreter, made_by = python_of(ENVIRONMENT), ENVIRONMENT / "made-by.txt"
    maker = f"{sys.version} {sys.base_prefix}"
    if not made_by.is_file() or made_by.read_text(encoding="utf-8") != maker or not Path(interpreter).exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        session.log(f"Making {ENVIRONMENT.relative_to(ROOT)}: the first time downloads torch, which takes minutes")
        session.run(sys.executable, "-m", "virtualenv", "--quiet", str(ENVIRONMENT), external=True)
        made_by.write_text(maker, encoding="utf-8")
    stamp, current = ENVIRONMENT / f"installed-{group}.txt", fingerprint(arguments)
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != current:
        session.log(f"Installing what {group} needs")
        install(session, *arguments)
        if with_peers:
            install_peers(session)
        stamp.write_text(current, encoding="utf-8")
    return interpreter


def runtime(session: nox.Session) -> str:
    """The interpreter with the harness, every package and the peers."""
    return environment(session, "bench", *editable(), with_peers=True)


def side_by_side(session: nox.Session, first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """Runs two commands at once; what the second has to say is printed when both are done. Fails where either does."""
    with tempfile.TemporaryFile() as said:
        beside = subprocess.Popen(second, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT)
        failed = []
        try:
            session.run(*first, external=True)
        except CommandFailed:
            failed.append(first)
        except BaseException:
            beside.terminate()
            raise
        finally:
            if beside.wait():
                failed.append(second)
            said.seek(0)
            sys.stdout.write(said.read().decode(errors="replace"))
            sys.stdout.flush()
    if failed:
        session.error("; ".join(f"{' '.join(command)}: failed" for command in failed))


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Measure this machine and write the report; `-- smoke --set seq_len=512 --dry-run` goes to `bancada sweep`."""
    session.run(runtime(session), "-m", "bancada", "sweep", *session.posargs, external=True)


@nox.session(python=False)
def report(session: nox.Session) -> None:
    """Build the report of the newest run again, or of the run named after `--`."""
    session.run(runtime(session), "-m", "bancada", "report", *session.posargs, external=True)


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run the tests, but the slow ones (`-- -m slow`); after `--` comes anything that pytest takes."""
    runtime(session)
    interpreter = environment(session, "tests", *extra("test"))
    pytest = (interpreter, "-m", "pytest", f"--timeout={LONGEST_TEST_S}")
    if session.posargs:
        session.run(*pytest, *session.posargs, external=True)
    else:
        side_by_side(session, *((*pytest, *half) for half in HALVES))


@nox.session(python=False)
def typecheck(session: nox.Session) -> None:
    """Check the types of the harness, the packages and this file with mypy --strict."""
    runtime(session)
    interpreter = environment(session, "typecheck", *TYPECHECK)
    session.run(interpreter, "-m", "mypy", *session.posargs, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format with ruff (`-- --fix` mends what it can)."""
    session.install("-qq", "-c", str(CONSTRAINTS), "ruff")
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", *([] if "--fix" in session.posargs else ["--check"]), ".")
