"""plotly.js as a page carries it: of its kinds of charts, only those that the page draws are set up on loading."""

from __future__ import annotations

import re

_KINDS = re.compile(r"(\.register\(\[[\w$]+\(\))((?:,[\w$]+\(\)){20,})(?=\]\))")
"""The bundle's one list of what to set up: bars come first in it, lines and points belong to the core."""


def only_drawn(source: str) -> str:
    """plotly.js without setting up its forty-odd kinds of charts besides lines, points and bars.

    Setting up all of them (maps, meshes, ...) takes three quarters of the time that a browser spends on the bundle. A
    bundle that is written in another way is left as it is: the page is the same, and opens later.
    """
    return _KINDS.sub(r"\1", source, count=1)
