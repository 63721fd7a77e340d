"""The cards of the compression techniques in the report's catalogue."""

from __future__ import annotations

from bancada.suite import Technique

_HERE = "packages/compression/src/bancada_compression"


def _snippet(config: str) -> str:
    return f"""\
import torch
from bancada_compression import {config.split("(")[0]}, quantize

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
report = quantize(model, {config})
print(report)  # bytes and signal to noise of every layer
"""


def _model_snippet(names: str, call: str) -> str:
    return f"""\
import torch
from bancada_compression import {names}

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
for layer in {call}:
    print(layer)  # what became of it
"""


TECHNIQUES = (
    Technique(
        id="dense-linear",
        title="Linear layer, not compressed",
        title_pt="Camada linear sem compressão",
        family="compression",
        summary=(
            "The layer as it is trained: every weight a floating number of 32 or 16 bits. What compression has to beat "
            "in time and cannot beat in error."
        ),
        formula="Y = X W^T",
        paper="Vaswani et al., Attention Is All You Need, arXiv 1706.03762, whose projections these are",
    ),
    Technique(
        id="int8",
        title="int8 weights, one scale an output channel",
        title_pt="Pesos int8, uma escala por canal de saída",
        family="compression",
        summary=(
            "Each row of the weight is divided by its largest number and rounded to 127 steps each side. A quarter of "
            "the bytes of float32, with about 42 dB of signal to noise on normal weights."
        ),
        formula="W = s q, s = max|w| / 127 of each row, q = round(w / s)",
        paper="Dettmers et al., LLM.int8(), arXiv 2208.07339",
        files=(f"{_HERE}/int8/reference.py", f"{_HERE}/int8/weight.py"),
        snippet=_snippet("Int8()"),
    ),
    Technique(
        id="w8a8",
        title="Dynamic W8A8: int8 weights and activations",
        title_pt="W8A8 dinâmico: pesos e ativações int8",
        family="compression",
        summary=(
            "The rows of the input are rounded to int8 too, at each call, and integers are multiplied with exact sums. "
            "It pays where the hardware multiplies int8 faster than floats, and the input has few outliers."
        ),
        formula="Y = s_x s_w (Q_x Q_w^T), s_x = max|x| / 127 of each row at each call",
        paper="Dettmers et al., LLM.int8(), arXiv 2208.07339",
        files=(f"{_HERE}/w8a8/reference.py", f"{_HERE}/w8a8/linear.py"),
        snippet=_snippet("W8A8()"),
    ),
    Technique(
        id="groupwise",
        title="Group-wise int4 and int3",
        title_pt="int4 e int3 por grupos",
        family="compression",
        summary=(
            "Each row is cut into groups of columns with a scale and a zero-point of their own, and rounded to 16 or 8 "
            "even steps. A zero stays a zero, so that pruning survives."
        ),
        formula="W = s (q - z), s = (max - min) / (2^bits - 1) of each group, z = round(-min / s)",
        paper="Frantar et al., GPTQ, arXiv 2210.17323 (its round-to-nearest baseline)",
        files=(
            f"{_HERE}/groupwise/reference.py",
            f"{_HERE}/groupwise/weight.py",
            f"{_HERE}/packing/reference.py",
            f"{_HERE}/packing/packed.py",
        ),
        snippet=_snippet("Groupwise(bits=4, group_size=64)"),
    ),
    Technique(
        id="nf4",
        title="NF4, with double quantisation",
        title_pt="NF4, com dupla quantização",
        family="compression",
        summary=(
            "Sixteen levels at the quantiles of a normal distribution, with a scale for each block of 64 weights. "
            "Double quantisation stores the scales in 8 bits as well, for 4.127 bits a weight in place of 4.5."
        ),
        formula="W = a level[q], a = max|w| of each block of 64; a = a_0 + b dynamic[p], b = max|a - a_0| of each 256",
        paper="Dettmers et al., QLoRA, arXiv 2305.14314",
        files=(f"{_HERE}/nf4/reference.py", f"{_HERE}/nf4/weight.py", f"{_HERE}/nf4/double.py"),
        snippet=_snippet("NF4(block_size=64, double=True)"),
    ),
    Technique(
        id="magnitude",
        title="Magnitude pruning",
        title_pt="Poda por magnitude",
        family="compression",
        summary=(
            "The smallest weights of each matrix become zeros, which a mask can keep through training. Zeros are "
            "stored and multiplied like any number: the model is as large and as slow as before, but zips better."
        ),
        formula="W[i, j] = 0 where |W[i, j]| is among the lowest share of its matrix",
        paper="Han et al., Learning both Weights and Connections, arXiv 1506.02626",
        files=(f"{_HERE}/pruning/reference.py", f"{_HERE}/pruning/masks.py", f"{_HERE}/pruning/model.py"),
        snippet=_model_snippet("prune", "prune(model, sparsity=0.5, pattern='matrix')"),
    ),
    Technique(
        id="wanda",
        title="Wanda: pruning by weight and activation",
        title_pt="Wanda: poda por peso e ativação",
        family="compression",
        summary=(
            "A weight counts for its size times the norm of the input it multiplies, and the lowest of each output go. "
            "A few batches of calibration data are enough, and nothing is trained."
        ),
        formula="score[i, j] = |W[i, j]| ||X_j||_2, the lowest share of each row becomes 0",
        paper="Sun et al., A Simple and Effective Pruning Approach for Large Language Models, arXiv 2306.11695",
        files=(f"{_HERE}/pruning/reference.py", f"{_HERE}/pruning/scores.py", f"{_HERE}/pruning/calibrate.py"),
        snippet=_model_snippet(
            "activation_norms, prune",
            "prune(model, 0.5, 'wanda', activation_norms(model, [torch.randn(64, 256)]))",
        ),
    ),
    Technique(
        id="two-four",
        title="2:4 sparsity",
        title_pt="Esparsidade 2:4",
        family="compression",
        summary=(
            "Of every four neighbours in a row two become zeros: the pattern that the sparse tensor cores of GPUs "
            "since Ampere multiply at up to twice the speed. It costs more quality than any half of the weights does."
        ),
        formula="of each W[i, 4k .. 4k+3] the two highest scores stay",
        paper="Mishra et al., Accelerating Sparse Deep Neural Networks, arXiv 2104.08378",
        files=(f"{_HERE}/pruning/masks.py", f"{_HERE}/pruning/model.py"),
        snippet=_model_snippet("prune", "prune(model, pattern='2:4')"),
    ),
    Technique(
        id="svd",
        title="Truncated SVD",
        title_pt="SVD truncada",
        family="compression",
        summary=(
            "A weight becomes the product of two thin matrices, the nearest one of its rank: fewer parameters and "
            "fewer multiplications on any hardware. Trained weights fall off slowly, so that half of them costs much."
        ),
        formula="W = U S V^T, B = U_r S_r^(1/2), A = S_r^(1/2) V_r^T, y = B A x",
        paper="Eckart and Young (1936); for comparison see Wang et al., SVD-LLM, arXiv 2403.07378",
        files=(f"{_HERE}/lowrank/reference.py", f"{_HERE}/lowrank/factor.py", f"{_HERE}/lowrank/linear.py"),
        snippet=_model_snippet("factorize", "factorize(model, ratio=0.5)"),
    ),
    Technique(
        id="whitened-svd",
        title="Activation-whitened SVD",
        title_pt="SVD com ativações branqueadas",
        family="compression",
        summary=(
            "The rank is spent on what the layer is really given: the product's outputs on calibration data are the "
            "nearest of its rank, not its weights. The same size and speed as the truncated SVD."
        ),
        formula="G = X X^T = Q L Q^T, U S V^T = SVD(W Q L^(1/2)), B A = U_r S_r V_r^T L^(-1/2) Q^T",
        paper="Wang et al., SVD-LLM, arXiv 2403.07378",
        files=(f"{_HERE}/lowrank/reference.py", f"{_HERE}/lowrank/factor.py", f"{_HERE}/lowrank/linear.py"),
        snippet=_model_snippet(
            "factorize, input_grams", "factorize(model, 0.5, input_grams(model, [torch.randn(64, 256)]))"
        ),
    ),
)
