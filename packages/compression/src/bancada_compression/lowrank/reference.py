"""The error that theory gives a factorisation: the tail of the singular values, in float64.

Eckart and Young (1936): the best matrix of rank r has ||W - W_r||_F^2 = sum of the squares of the singular values after
the first r. With inputs X, the best W_r for ||(W - W_r) X||_F is that of W G^(1/2), G = X X^T (SVD-LLM, arXiv
2403.07378, theorem 3.2).
"""

from __future__ import annotations

import torch
from torch import Tensor


def tail_energy(weight: Tensor, rank: int) -> float:
    """sqrt(sum of s_i^2 for i > r) from the eigenvalues of W W^T."""
    squares = torch.linalg.eigvalsh(weight.double() @ weight.double().T).clamp_min(0)
    return float(squares.flip(0)[rank:].sum().sqrt())


def whitened_tail_energy(weight: Tensor, gram: Tensor, rank: int) -> float:
    """The same of W G^(1/2): its squares are the eigenvalues of W G W^T."""
    squares = torch.linalg.eigvalsh(weight.double() @ gram.double() @ weight.double().T).clamp_min(0)
    return float(squares.flip(0)[rank:].sum().sqrt())
