"""What this machine is: device, cores, memory, caches, versions, commit."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bancada.suite import Device

PACKAGES = (
    "torch", "triton", "numpy", "scipy", "pandas", "pytest", "pytest-benchmark", "deepspeed", "accelerate",
    "transformers", "peft", "torchao", "bitsandbytes", "pytorch-optimizer", "schedulefree",
    "bancada", "bancada-attention", "bancada-parallelism", "bancada-optimizers", "bancada-compression", "bancada-peft",
)  # fmt: skip


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def cores() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def cpu_model() -> str:
    """The processor's name, as the system tells it."""
    if match := re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE):
        return match.group(1).strip()
    if platform.system() == "Darwin":
        named = _output("sysctl", "-n", "machdep.cpu.brand_string")
        if named:
            return named
    return platform.processor() or platform.machine() or "unknown CPU"


@functools.cache
def memory_bytes() -> int:
    """Main memory this process may use: the machine's, or less where a control group says so."""
    total = 0
    if match := re.search(r"^MemTotal:\s*(\d+) kB", _text("/proc/meminfo"), re.MULTILINE):
        total = int(match.group(1)) * 1024
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [_text("/sys/fs/cgroup/memory.max"), _text("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    allowed = [int(text) for text in limits if text.strip().isdigit()]
    return min([total, *allowed]) if total else min(allowed, default=0)


def available_bytes() -> int:
    """Main memory free for a new tensor now."""
    if match := re.search(r"^MemAvailable:\s*(\d+) kB", _text("/proc/meminfo"), re.MULTILINE):
        return min(int(match.group(1)) * 1024, memory_bytes())
    return memory_bytes()


@functools.cache
def last_cache_bytes() -> int:
    """Size of the last cache of the first processor; 32 MiB where the system does not tell."""
    sizes = []
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if match := re.fullmatch(r"(\d+)([KM])", _text(str(index / "size")).strip()):
            sizes.append(int(match.group(1)) * (1024 if match.group(2) == "K" else 1024**2))
    return max(sizes, default=32 * 1024**2)


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit(root: Path) -> str:
    """The checkout's commit, with `+` where it holds changes; `unknown` outside a checkout."""
    found = _output("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if not found:
        return "unknown"
    return found + ("+" if _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no") else "")


def versions() -> dict[str, str]:
    """Versions of every package involved that is installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@functools.cache
def driver() -> str:
    """The GPU driver's version, or an empty text where there is no GPU."""
    lines = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()
    return lines[0] if lines else ""


def device(kind: str = "auto", threads: int | None = None) -> Device:
    """The device to measure on.

    Args:
        kind: `auto` (CUDA where there is one), `cpu` or `cuda`.
        threads: for CPU operations; all usable cores where None.

    Raises:
        ValueError: an unknown kind, a CUDA device that is not there, or a number of threads that no core is there for.
    """
    if kind not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device={kind!r}: allowed are auto, cpu, cuda")
    if threads is not None and not 1 <= threads <= cores():
        raise ValueError(f"threads={threads}: must lie between 1 and {cores()}, the usable cores")
    import torch

    threads = threads or cores()
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda': torch sees no CUDA device here")
    if kind == "cpu" or not torch.cuda.is_available():
        return Device("cpu", cpu_model(), memory_bytes(), threads)
    properties = torch.cuda.get_device_properties(0)
    return Device("cuda", properties.name, properties.total_memory, threads, (properties.major, properties.minor))


def environment(chosen: Device) -> dict[str, str | int]:
    """The facts a reader needs to judge a figure, as flat `env.*` and `version.*` fields."""
    facts: dict[str, str | int] = {
        "env.cpu_model": cpu_model(),
        "env.cores": cores(),
        "env.threads": chosen.threads,
        "env.memory_bytes": memory_bytes(),
        "env.last_cache_bytes": last_cache_bytes(),
        "env.os": f"{platform.system()} {platform.release()}",
        "env.python": platform.python_version(),
        "env.gpu_name": chosen.name if chosen.type == "cuda" else "",
        "env.gpu_memory_bytes": chosen.memory_bytes if chosen.type == "cuda" else 0,
        "env.driver": driver(),
    }
    return facts | {f"version.{name}": found for name, found in versions().items()}
