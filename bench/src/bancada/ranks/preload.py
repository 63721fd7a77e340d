"""What the server that ranks are forked from imports, once for all ranks and pools. It computes nothing, ever.

Imported by that server alone (its parent is the launcher): it dies with the launcher, and the ranks die with it.
"""

from __future__ import annotations

import os
from importlib import import_module

from bancada.limits import PARENT, die_with_parent

die_with_parent()
os.environ[PARENT] = str(os.getpid())
for name in ("torch.distributed.fsdp", "bancada.ranks.item", "bancada.registry"):
    import_module(name)  # the first brings the compiler with it, which torch's optimizers import at their first step
