"""Finds the suites that installed packages register under the entry-point group `bancada.suites`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from bancada.suite import AnySuite

GROUP = "bancada.suites"


class DuplicateSuite(ValueError):
    """Two registrations of one suite id."""


def discover(points: Iterable[EntryPoint] | None = None, extra: Sequence[str] = ()) -> dict[str, AnySuite]:
    """Every registered suite by id. Two suites of one id are an error, never an overwrite.

    Args:
        points: the entry points; those of the installed packages where None.
        extra: further `module:function` registrations, for suites of one's own.

    Raises:
        DuplicateSuite, BrokenSuites: each a ValueError that names the registration.
    """
    found: dict[str, AnySuite] = {}
    owners: dict[str, str] = {}
    named = list(points if points is not None else entry_points(group=GROUP))
    named += [EntryPoint(name=one, value=one, group=GROUP) for one in extra]
    for point in sorted(named, key=lambda point: point.value):
        for suite in _load(point):
            if suite.id in found:
                raise DuplicateSuite(
                    f"suite {suite.id!r} is registered twice: by {owners[suite.id]} and by {point.value}"
                )
            found[suite.id] = suite
            owners[suite.id] = point.value
    return found


class BrokenSuites(ValueError):
    """A registration that cannot be loaded."""


def _load(point: EntryPoint) -> Sequence[AnySuite]:
    try:
        return list(point.load()())
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise BrokenSuites(f"the suites of {point.value} cannot be loaded: {told}") from error


def unknown(what: str, name: str, known: Sequence[str]) -> ValueError:
    """The error for an unknown name, with the near ones listed."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
    return ValueError(f"{what} {name!r} is not known: {hint}")


def choose(suites: Mapping[str, AnySuite], suite_id: str) -> AnySuite:
    """The suite of that id; ValueError with near names where there is none."""
    if suite_id not in suites:
        raise unknown("suite", suite_id, list(suites))
    return suites[suite_id]
