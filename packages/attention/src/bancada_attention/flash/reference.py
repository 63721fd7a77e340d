"""FlashAttention-2 for one head, line by line beside the paper: pure mathematics, no regard for speed.

Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", arXiv 2307.08691.
The paper's symbols: blocks Q_i of B_r queries and K_j, V_j of B_c keys; S scores, P probabilities, m running
row maximum, l running row sum, L log-sum-exp, D = rowsum(dO * O). Every query must see at least one key.
"""

# ruff: noqa: F722  (axis names in jaxtyping strings are no Python expressions)

from __future__ import annotations

import math

import torch

from bancada_attention._typing import Float, Tensor


def flash_forward(
    Q: Float[Tensor, "q_len head_dim"],
    K: Float[Tensor, "k_len head_dim"],
    V: Float[Tensor, "k_len head_dim"],
    *,
    causal: bool,
    scale: float,
    block_q: int,
    block_k: int,
) -> tuple[Float[Tensor, "q_len head_dim"], Float[Tensor, " q_len"]]:
    """Algorithm 1: O = softmax(scale * Q K^T) V and L = logsumexp(scale * Q K^T), one block of scores at a time."""
    O, L = torch.empty_like(Q), Q.new_empty(Q.shape[0])
    for i in _blocks(Q, block_q):
        O_i = torch.zeros_like(Q[i])
        l = Q.new_zeros(O_i.shape[0], 1)
        m = Q.new_full((O_i.shape[0], 1), -math.inf)
        for j in _blocks(K, block_k):
            S = _scores(Q, K, i, j, causal, scale)
            m_new = torch.maximum(m, S.amax(1, keepdim=True))
            P = torch.exp(S - m_new)
            l = torch.exp(m - m_new) * l + P.sum(1, keepdim=True)
            O_i = torch.exp(m - m_new) * O_i + P @ V[j]
            m = m_new
        O[i] = O_i / l
        L[i] = (m + torch.log(l)).squeeze(1)
    return O, L


def flash_backward(
    dO: Float[Tensor, "q_len head_dim"],
    Q: Float[Tensor, "q_len head_dim"],
    K: Float[Tensor, "k_len head_dim"],
    V: Float[Tensor, "k_len head_dim"],
    O: Float[Tensor, "q_len head_dim"],
    L: Float[Tensor, " q_len"],
    *,
    causal: bool,
    scale: float,
    block_q: int,
    block_k: int,
) -> tuple[Float[Tensor, "q_len head_dim"], Float[Tensor, "k_len head_dim"], Float[Tensor, "k_len head_dim"]]:
    """Algorithm 2: dQ, dK, dV, with P computed again from L instead of kept."""
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    D = (dO * O).sum(1, keepdim=True)
    for j in _blocks(K, block_k):
        for i in _blocks(Q, block_q):
            P = torch.exp(_scores(Q, K, i, j, causal, scale) - L[i, None])
            dV[j] += P.T @ dO[i]
            dP = dO[i] @ V[j].T
            dS = P * (dP - D[i])
            dQ[i] += scale * dS @ K[j]
            dK[j] += scale * dS.T @ Q[i]
    return dQ, dK, dV


def _blocks(x: Tensor, size: int) -> list[slice]:
    return [slice(start, min(start + size, x.shape[0])) for start in range(0, x.shape[0], size)]


def _scores(Q: Tensor, K: Tensor, i: slice, j: slice, causal: bool, scale: float) -> Tensor:
    """S_ij; with `causal`, query a sees key b where b <= a + k_len - q_len."""
    S = scale * Q[i] @ K[j].T
    if causal:
        a = torch.arange(i.start, i.stop, device=Q.device)[:, None]
        b = torch.arange(j.start, j.stop, device=Q.device)[None, :]
        S = S.masked_fill(b > a + K.shape[0] - Q.shape[0], -math.inf)
    return S
