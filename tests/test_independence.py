"""Each package stands alone: in its imports, in its metadata, and installed into an environment of its own."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
OURS = {"bancada", *(f"bancada_{name}" for name in PACKAGES)}
MAY_REQUIRE = {"torch", "triton"}
MAY_IMPORT = {"torch", "triton", "jaxtyping"}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, as full dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def sources(package: str) -> list[Path]:
    """A package's files, but those of its suites."""
    folder = ROOT / "packages" / package / "src" / f"bancada_{package}"
    suites = {"_suites", "_suites.py"}
    return [path for path in folder.rglob("*.py") if not suites & set(path.relative_to(folder).parts)]


def foreign(package: str, modules: set[str]) -> set[str]:
    """Which of the modules a package must not import: the harness, another package, its own suites, other libraries."""
    own = f"bancada_{package}"
    wrong = {name for name in modules if name.split(".")[0] in OURS - {own}}
    wrong |= {name for name in modules if re.match(rf"{own}\._suites\b", name)}
    known = MAY_IMPORT | OURS | set(sys.stdlib_module_names)
    return wrong | {name for name in modules if name.split(".")[0] not in known}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_torch_and_itself_only(package: str) -> None:
    assert sources(package)
    for path in sources(package):
        assert foreign(package, imported(path)) == set(), f"{path.relative_to(ROOT)}"


def test_a_foreign_import_is_noticed() -> None:
    wrong = {"bancada.suite.Case", "bancada_peft.lora", "bancada_attention._suites.suites", "numpy"}
    assert foreign("attention", {*wrong, "math", "torch.nn", "bancada_attention.flash.tiled"}) == wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_requires_torch_only(package: str) -> None:
    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {re.split(r"[^A-Za-z0-9_.-]", requirement)[0] for requirement in project["dependencies"]}
    assert required <= MAY_REQUIRE and "torch" in required
    for requirement in project["dependencies"]:
        if requirement.startswith("triton"):
            assert "sys_platform == 'linux'" in requirement
    assert project["requires-python"] == ">=3.11"


IMPORTED_ALONE = """
import importlib, importlib.util, sys, threading
threads = threading.active_count()
package = importlib.import_module({package!r})
import torch
assert package.__version__ == {version!r}, package.__version__
assert {folder!r} not in package.__file__, package.__file__
assert importlib.util.find_spec("bancada") is None, "the harness is in this environment"
assert not any(name.split(".")[0] in {others!r} for name in sys.modules), "another package was imported"
assert not torch.cuda.is_initialized(), "CUDA was initialised"
assert not {{"torch._inductor", "torch._dynamo"}} & set(sys.modules), "a compiler was loaded"
assert threading.active_count() == threads, "a thread was started"
"""


@pytest.mark.install
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_installs_and_imports_alone(package: str, tmp_path: Path) -> None:
    """A new environment with this one's torch, the package, and nothing else of ours; it imports in silence."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    interpreter = environment / folder / name
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([interpreter, "-c", where], check=True, capture_output=True, text=True).stdout.strip())
    # A folder named by a .pth file is searched, but its own .pth files (our editable installations) are not read.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--quiet", "--no-index"]
    source = ROOT / "packages" / package
    installed = subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--ignore-installed", str(source)], capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    assert (site / f"bancada_{package}" / "py.typed").is_file()
    version = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    program = IMPORTED_ALONE.format(
        package=f"bancada_{package}", version=version, folder=str(ROOT), others=OURS - {f"bancada_{package}"}
    )
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TRITON", "COV_"))}
    imports = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=clean)
    assert imports.returncode == 0 and imports.stdout + imports.stderr == "", imports.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_where_triton_is_missing(package: str) -> None:
    program = f"import sys; sys.modules['triton'] = None; import bancada_{package}"
    imports = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert imports.returncode == 0 and imports.stdout + imports.stderr == "", imports.stderr
