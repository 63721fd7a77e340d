"""Peak of what torch allocates during a call, from the profiler's memory events (it sees inside C++ operators too)."""

from __future__ import annotations

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes held at one time during `call`, above what was held before, results included."""
    # acc_events: without it some releases of torch warn that events of other cycles are dropped; there is one cycle.
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        kept = call()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    assert changes, "the profiler saw no allocation"
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    del kept
    return peak
