"""How the libraries that race are made: torch.optim, bitsandbytes, torchao and pytorch_optimizer.

Options are the same numbers for all. Each library is imported when it is built, not before. The AdamW of
pytorch_optimizer is torch's own class.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from typing import Any

import torch

from bancada_optimizers._suites.problem import (
    ADAMW_BETAS,
    EPS,
    LION_BETAS,
    LR,
    MOMENTUM,
    MUON_MOMENTUM,
    WEIGHT_DECAY,
)

Params = list[torch.nn.Parameter]
Groups = list[dict[str, Any]]

ADAMW: dict[str, Any] = {"lr": LR, "betas": ADAMW_BETAS, "eps": EPS, "weight_decay": WEIGHT_DECAY}
SGD: dict[str, Any] = {"lr": LR, "momentum": MOMENTUM, "weight_decay": WEIGHT_DECAY, "nesterov": True}
LION: dict[str, Any] = {"lr": LR, "betas": LION_BETAS, "weight_decay": WEIGHT_DECAY}


def matrices_apart(params: Params) -> Groups:
    """Groups for Muon: the matrices, which it steps, and the rest, which is left to AdamW."""
    return [{"params": [p for p in params if (p.dim() == 2) is matrix], "use_muon": matrix} for matrix in (True, False)]


def torch_optim(options: dict[str, Any], params: Params, rule: str) -> list[torch.optim.Optimizer]:
    """torch.optim's optimizer of a rule; beside Muon, AdamW for the vectors."""
    if rule == "sgd":
        return [torch.optim.SGD(params, **SGD, **options)]
    if rule != "muon":
        return [torch.optim.AdamW(params, **ADAMW, **options)]
    matrices, vectors = (group["params"] for group in matrices_apart(params))
    muon = torch.optim.Muon(
        matrices, lr=LR, weight_decay=WEIGHT_DECAY, momentum=MUON_MOMENTUM, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(vectors, **ADAMW, **options)]


def library(name: str) -> Any:
    """A library, imported in silence: what it warns of while it is imported is no matter of the measurement's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def bitsandbytes(name: str, options: dict[str, Any], params: Params, rule: str) -> list[torch.optim.Optimizer]:
    """An optimizer of bitsandbytes."""
    return [getattr(library("bitsandbytes").optim, name)(params, **options)]


def pytorch_optimizer(name: str, options: dict[str, Any], params: Params, rule: str) -> list[torch.optim.Optimizer]:
    """An optimizer of pytorch_optimizer."""
    return [getattr(library("pytorch_optimizer"), name)(params, **options)]


def torchao(params: Params, rule: str) -> list[torch.optim.Optimizer]:
    """torchao's 8-bit AdamW."""
    logging.getLogger("torchao").setLevel(logging.ERROR)  # it tells at every import which of its GPU parts are missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [importlib.import_module("torchao.optim").AdamW8bit(params, **ADAMW)]


def muon_of_pytorch_optimizer(params: Params, rule: str) -> list[torch.optim.Optimizer]:
    """pytorch_optimizer's Muon, scaled as torch's is here, with its own AdamW for the vectors."""
    options: dict[str, Any] = {
        "lr": LR,
        "weight_decay": WEIGHT_DECAY,
        "momentum": MUON_MOMENTUM,
        "use_adjusted_lr": True,
        "adamw_lr": LR,
        "adamw_betas": ADAMW_BETAS,
        "adamw_wd": WEIGHT_DECAY,
        "adamw_eps": EPS,
    }
    return [library("pytorch_optimizer").Muon(matrices_apart(params), **options)]
