"""Which parameters of a model are hidden matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from bancada_optimizers.groups import NORMS, known_names, within

HEADS = frozenset({"lm_head", "head", "heads", "classifier", "score", "output_projection", "qa_outputs", "cls"})
"""Names that models give the layer which makes their outputs."""


def muon_groups(model: nn.Module, *, rest: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Two groups for `Muon`: hidden matrices, and the rest for AdamW.

    The rest are parameters that are not 2-D; those of normalisations; embeddings, and what is tied to one; the output
    layer, as the model's `get_output_embeddings()` gives it or by its name (`lm_head`, `classifier`, `score`, `head`,
    ...); and `rest`. Frozen parameters are left out, a shared one is listed once. A group without parameters is not
    made.

    Args:
        model: any module.
        rest: names of further parameters or modules for AdamW (`"proj_out"`).

    Raises:
        ValueError: a name of `rest` that the model does not have; a model without trainable parameters.
    """
    others = known_names("rest", model, rest)
    excluded = {id(p) for module in model.modules() if isinstance(module, (nn.Embedding, nn.EmbeddingBag, *NORMS))
                for p in module.parameters()}  # fmt: skip
    output = getattr(model, "get_output_embeddings", lambda: None)()
    if isinstance(output, nn.Module):
        excluded |= {id(p) for p in output.parameters()}
    hidden: list[nn.Parameter] = []
    remaining: list[nn.Parameter] = []
    for name, p in model.named_parameters():  # a shared parameter comes once
        if not p.requires_grad:
            continue
        named = HEADS.intersection(name.split(".")) or any(within(name, other) for other in others)
        (remaining if p.dim() != 2 or id(p) in excluded or named else hidden).append(p)
    if not hidden and not remaining:
        raise ValueError("model: it has no trainable parameters")
    groups = [{"params": hidden, "use_muon": True}, {"params": remaining, "use_muon": False}]
    return [group for group in groups if group["params"]]
