"""The cards of the optimizers in the report's catalogue."""

from __future__ import annotations

from bancada.suite import Technique

_HERE = "packages/optimizers/src/bancada_optimizers"
_MODEL = """\
import torch
from torch import nn
{imports}

model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64))
optimizer = {made}
for _ in range(10):
    optimizer.zero_grad()
    loss = (model(torch.ones(8, 64)) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def _snippet(names: str, made: str) -> str:
    return _MODEL.format(imports=f"from bancada_optimizers import {names}", made=made)


TECHNIQUES = (
    Technique(
        id="adamw",
        title="AdamW",
        title_pt="AdamW (Adam com decaimento desacoplado)",
        family="optimizers",
        summary=(
            "Each element moves by its mean gradient over the root of its mean squared gradient, and decays towards 0 "
            "apart from that. Two moments are kept: 8 bytes a parameter in fp32, twice what the parameter takes."
        ),
        formula="p <- p - lr (m_hat / (sqrt(v_hat) + eps) + wd p), m <- b1 m + (1-b1) g, v <- b2 v + (1-b2) g^2",
        paper="Loshchilov and Hutter, Decoupled Weight Decay Regularization, arXiv 1711.05101",
        files=(f"{_HERE}/adamw/reference.py", f"{_HERE}/adamw/foreach.py", f"{_HERE}/adamw/triton_kernel.py"),
        snippet=_snippet("AdamW, decay_groups", "AdamW(decay_groups(model, 0.1), lr=1e-3)"),
    ),
    Technique(
        id="adamw-8bit",
        title="AdamW, 8-bit states",
        title_pt="AdamW com estados de 8 bits",
        family="optimizers",
        summary=(
            "AdamW whose moments are kept as one byte each, with a scale for every 256 of them. State takes 2.03 bytes "
            "a parameter in place of 8, for the time of finding codes at every step."
        ),
        formula="m = scale[i // 256] * map[code[i]], codes at equal shares of each decade; the nearest is kept",
        paper="Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv 2110.02861",
        files=(f"{_HERE}/adamw8bit/reference.py", f"{_HERE}/adamw8bit/table.py", f"{_HERE}/adamw8bit/native.cpp"),
        snippet=_snippet("AdamW8bit", "AdamW8bit(model.parameters(), lr=1e-3, min_8bit_size=1024)"),
    ),
    Technique(
        id="sgd",
        title="SGD with momentum",
        title_pt="SGD com momento",
        family="optimizers",
        summary=(
            "The gradient, averaged over the last updates, times the rate. One buffer of 4 bytes a parameter; "
            "Transformers seldom train well with it, which makes it the yardstick of cost rather than of quality."
        ),
        formula="b <- mu b + g + wd p; p <- p - lr (g + mu b)",
        paper="Sutskever et al., ICML 2013; Loshchilov and Hutter on its decay, arXiv 1711.05101",
        files=(f"{_HERE}/sgd/reference.py", f"{_HERE}/sgd/api.py"),
        snippet=_snippet("SGD", "SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)"),
    ),
    Technique(
        id="lion",
        title="Lion",
        title_pt="Lion (momento com sinal)",
        family="optimizers",
        summary=(
            "Every element moves by the rate, in the direction of the sign of a momentum. One buffer, half of AdamW's "
            "state; rates are 3 to 10 times smaller and decays larger by as much."
        ),
        formula="p <- p (1 - lr wd) - lr sign(b1 m + (1-b1) g); m <- b2 m + (1-b2) g",
        paper="Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv 2302.06675",
        files=(f"{_HERE}/lion/reference.py", f"{_HERE}/lion/api.py"),
        snippet=_snippet("Lion", "Lion(model.parameters(), lr=1e-3, weight_decay=0.1)"),
    ),
    Technique(
        id="muon",
        title="Muon",
        title_pt="Muon (momento ortogonalizado)",
        family="optimizers",
        summary=(
            "The momentum of a hidden matrix is brought near to an orthogonal one by five Newton-Schulz steps, so that "
            "all its directions count alike. Embeddings, the output layer and vectors go to AdamW."
        ),
        formula="p <- p (1 - lr wd) - lr 0.2 sqrt(max(rows, cols)) NS5(m), X <- a X + (b A + c A^2) X, A = X X^T",
        paper="Jordan et al., Muon, 2024; Liu et al., Muon is Scalable for LLM Training, arXiv 2502.16982",
        files=(f"{_HERE}/muon/reference.py", f"{_HERE}/muon/api.py", f"{_HERE}/muon/groups.py"),
        snippet=_snippet("Muon, muon_groups", "Muon(muon_groups(model), lr=1e-3)"),
    ),
)
