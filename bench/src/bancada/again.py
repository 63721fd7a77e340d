"""The command that measures a row again, as it was measured: case, contender, device, threads, settings, suites."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from bancada.registry import unknown
from bancada.settings import Settings
from bancada.suite import AnySuite, Case, Device, Entry

NO_FILE = "none"
"""The name of the sweep that is no file: what `--suite` names, at its defaults."""
_OPTIONS = {
    "rounds": "--rounds", "budget_s": "--budget", "seeds": "--seeds", "trials": "--trials", "isolate": "--isolate",
}  # fmt: skip
_OF_TRAINING = ("seeds", "trials")


def command(suite: AnySuite, case: Case, contender: Entry[Any], device: Device, stamp: Mapping[str, Any]) -> str:
    """The command line that measures `contender` at `case` again, beside the reference where that raced with it.

    Args:
        suite: the case's.
        case: every axis is named, so that a change of the suite's defaults changes nothing.
        contender: whose row it is.
        device: with its threads.
        stamp: of `Job.stamped`: `settings` as they held for this case, `raced` (its contenders), `extra` registrations.
    """
    words = ["python", "-m", "bancada", "sweep", NO_FILE, "--suite", suite.id]
    for name, value in case.axes:
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    raced = [one.id for one in suite.contenders if one.reference and one.id in stamp.get("raced", ())]
    words += ["--contender", ",".join(dict.fromkeys([contender.id, *raced]))]
    words += ["--device", device.type, "--threads", str(device.threads)]
    words += _set(stamp.get("settings", Settings()), suite.kind == "training")
    for one in stamp.get("extra", ()):
        words += ["--suites-from", one]
    return shlex.join(words)


def _set(settings: Settings, training: bool) -> list[str]:
    """The options that make the usual settings these."""
    usual = Settings()
    words: list[str] = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value == getattr(usual, field.name) or (field.name in _OF_TRAINING and not training):
            continue
        said = str(value).lower() if isinstance(value, bool) else str(value)
        option = _OPTIONS.get(field.name)
        words += [option, said] if option else ["--setting", f"{field.name}={said}"]
    return words


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """`["sample_s=0.002", "most_rounds=6"]` as values by name; ValueError for an unknown name or no such value."""
    usual = Settings()
    names = [field.name for field in dataclasses.fields(usual)]
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, word = text.partition("=")
        if not equals:
            raise ValueError(f"--setting {text!r}: write NAME=VALUE")
        if name not in names:
            raise unknown("setting", name, names)
        found[name] = _value(name, word, getattr(usual, name))
    return found


def _value(name: str, word: str, like: Any) -> Any:
    """A word as a value of the same kind as `like`."""
    kinds = {bool: "true or false", int: "a whole number", float: "a finite number"}
    try:
        if isinstance(like, bool):
            return {"true": True, "false": False}[word]
        value = type(like)(word)
    except (KeyError, ValueError):
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"--setting {name}={word}: must be {kinds.get(type(like), 'a word')}")
    return value
