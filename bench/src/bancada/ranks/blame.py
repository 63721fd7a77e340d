"""Whose fault the end of a pool is: the rank, its step, and the typed status of its row.

When one rank fails, the others' collectives fail too, with `connection closed by peer` and no more. So the guilty is
sought in this order: who raised something of his own; who died of a signal, or left with a code; who was gone before
the others complained; and only then a collective that failed with nobody known behind it. A hang is whose main thread
does not wait in a collective while others do; where all wait, whose collectives are behind the others'.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from bancada.heartbeat import Current
from bancada.parent import End, exit_status
from bancada.ranks.words import Listener, Word

_STOPPED = (-signal.SIGTERM, -signal.SIGINT)  # how a launcher ends the ranks that are left


def ended(listener: Listener, first_gone: Sequence[int], code: int | None) -> End:
    """Why a pool has ended.

    Args:
        listener: the ranks' files.
        first_gone: the ranks whose processes were seen gone first.
        code: the launcher's exit status, or None while it lives.
    """
    currents = {rank: listener.current(rank) for rank in range(listener.ranks)}
    failures, codes = listener.failures(), listener.exit_codes() or {}
    own = {rank: failure for rank, failure in failures.items() if not failure.communication}
    if not failures and not codes and all(current and current.step == "done" for current in currents.values()):
        return End("", "", currents[0])
    for rank, failure in own.items():
        return _end(currents[rank], rank, failure.status, failure.text)
    for rank, left_with in codes.items():
        if rank not in failures and left_with not in _STOPPED:
            return _end(currents.get(rank), rank, *exit_status(left_with))
    for rank in first_gone:
        current = currents[rank]
        if rank not in failures and current is not None and current.step != "done":
            return _end(current, rank, "crashed", "ended by itself before the others")
    for rank, failure in failures.items():
        reason = f"{failure.text} (no other rank is known to have failed)"
        return _end(currents[rank], rank, failure.status, reason)
    launcher = "ended the ranks" if code is None else exit_status(code)[1]
    return End("crashed", f"the launcher {launcher}; no rank says why", None)


def hanging(currents: Mapping[int, Current], words: Mapping[int, Word], ranks: int) -> End:
    """Who keeps the others waiting, once a step has taken longer than its limit.

    Args:
        currents: what each rank is doing.
        words: what the ranks that answer say.
        ranks: how many there are.
    """
    guilty = _guilty(words, ranks)
    latest = max(currents.values(), key=lambda current: current.since)
    if not guilty:
        overdue = next((current for current in currents.values() if current.overdue), latest)
        reason = f"every rank waits for another in step '{overdue.step}' for more than {overdue.limit_s:.0f} s"
        return End("timeout", reason, overdue)
    rank = guilty[0]
    at = currents.get(rank, latest)
    where = f", at {words[rank].where}" if rank in words and words[rank].where else ""
    others = f" (so do ranks {', '.join(map(str, guilty[1:]))})" if guilty[1:] else ""
    return _end(at, rank, "timeout", f"takes longer than {at.limit_s:.0f} s{where}{others}")


def _guilty(words: Mapping[int, Word], ranks: int) -> list[int]:
    silent = [rank for rank in range(ranks) if rank not in words]
    if silent:
        return silent
    busy = [rank for rank, word in words.items() if not word.waits]
    if busy:
        return busy
    least = min(word.collectives for word in words.values())
    behind = [rank for rank, word in words.items() if word.collectives == least]
    return behind if len(behind) < ranks else []


def _end(current: Current | None, rank: int, status: str, what: str) -> End:
    step = f"step '{current.step}'" if current else "before its first step"
    return End(status, f"rank {rank}, {step}: {what}", current)
