"""The techniques that the suites of several ranks compare."""

from __future__ import annotations

from collections.abc import Iterable

from bancada.ranks import RanksContender
from bancada.suite import Technique

_ZERO = "Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, arXiv 1910.02054"
_THAKUR = (
    "Thakur et al., Optimization of Collective Communication Operations in MPICH, 2005; in training: Ben-Nun and "
    "Hoefler, Demystifying Parallel and Distributed Deep Learning, arXiv 1802.09941"
)
_FOLDER = "packages/parallelism/src/bancada_parallelism"


def _zero(stage: int, sharded: str, title_pt: str, summary: str, formula: str) -> Technique:
    return Technique(
        id=f"zero-{stage}",
        title=f"ZeRO stage {stage}: {sharded} sharded",
        title_pt=title_pt,
        family="parallelism",
        summary=summary,
        formula=formula,
        paper=_ZERO,
        files=(f"{_FOLDER}/zero/stage{stage}.py",),
        snippet=f"""\
from bancada_parallelism import zero_sent_elements, zero_state_bytes

numels = [7_000_000] * 12  # elements of each unit
for ranks in (1, 2, 8, 64):
    held, sent = zero_state_bytes({stage}, numels, ranks), zero_sent_elements({stage}, numels, ranks)
    print(f"{{ranks}} ranks: each holds {{held.total / 1e6:,.0f}} MB and sends {{4 * sent / 1e6:,.0f}} MB a step")
""",
    )


def _pipeline(name: str, title: str, title_pt: str, summary: str, formula: str, paper: str) -> Technique:
    return Technique(
        id=name,
        title=title,
        title_pt=title_pt,
        family="parallelism",
        summary=summary,
        formula=formula,
        paper=paper,
        files=(f"{_FOLDER}/pipeline/schedule.py", f"{_FOLDER}/pipeline/run.py"),
        snippet=f"""\
from bancada_parallelism import pipeline_schedule, simulate_pipeline

table = pipeline_schedule("{name}", stages=4, micro_batches=8)
found = simulate_pipeline(table, forward=1, backward=2)
print(f"idle {{found.idle}}, micro-batches held by each stage at most: {{found.most_held}}")
print("stage 0:", *table[0])
""",
    )


def _all_reduce(name: str, title: str, title_pt: str, summary: str, formula: str, paper: str) -> Technique:
    return Technique(
        id=name,
        title=title,
        title_pt=title_pt,
        family="parallelism",
        summary=summary,
        formula=formula,
        paper=paper,
        files=(f"{_FOLDER}/collectives/table.py", f"{_FOLDER}/collectives/run.py"),
        snippet=f"""\
import torch
from bancada_parallelism import all_reduce_cost, simulate_all_reduce

vectors = [torch.full((8,), float(rank)) for rank in range(4)]
print(simulate_all_reduce(vectors, "{name}")[3])  # what rank 3 holds in the end
print(all_reduce_cost("{name}", ranks=4, nbytes=32))
""",
    )


ALL = (
    Technique(
        id="data-parallel",
        title="Data parallelism",
        title_pt="Paralelismo de dados",
        family="parallelism",
        summary=(
            "Every rank has the whole model and its own part of the batch. Gradients are averaged in buckets while "
            "backward still runs, so that sending hides behind computing."
        ),
        formula="g = (1/n) sum_r g_r; a rank sends 2(n-1)/n P elements and holds all 16P bytes (fp32, AdamW)",
        paper="Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, arXiv 2006.15704",
        files=(f"{_FOLDER}/data/data_parallel.py", f"{_FOLDER}/data/buckets.py"),
        snippet="""\
import torch
from bancada_parallelism import average_gradients

model = torch.nn.Linear(3, 1, bias=False)  # what DataParallel computes on many ranks, on one
batches = [torch.ones(2, 3), 3 * torch.ones(6, 3)]  # of two ranks, uneven
loss, gradients = average_gradients(model, lambda m, x: (m(x).sum(), len(x)), batches)
print(gradients["weight"])  # (2 x 1 + 6 x 3) / 8 in each place
""",
    ),
    _zero(
        1,
        "optimizer states",
        "ZeRO estágio 1: estados do otimizador particionados",
        "A rank keeps and steps 1/n of AdamW's states, and sends its new parameters to the others. "
        "It costs no more traffic than data parallelism.",
        "holds 8P + 8P/n bytes (fp32), sends 2(n-1)/n P elements",
    ),
    _zero(
        2,
        "gradients and states",
        "ZeRO estágio 2: gradientes e estados particionados",
        "Gradients too are reduced to their shards as soon as backward has made them. Parameters stay whole.",
        "holds 4P + 12P/n bytes (fp32), sends 2(n-1)/n P elements",
    ),
    _zero(
        3,
        "parameters, gradients and states",
        "ZeRO estágio 3: parâmetros, gradientes e estados particionados",
        "A block's parameters are gathered for its forward and again for its backward, and are shards otherwise. "
        "Half as much traffic again buys a model state that shrinks with every rank.",
        "holds 16P/n bytes (fp32), sends 3(n-1)/n P elements",
    ),
    Technique(
        id="tensor-parallel",
        title="Tensor parallelism",
        title_pt="Paralelismo de tensores",
        family="parallelism",
        summary=(
            "Each rank computes some heads of the attention and some features of the feed-forward, from its columns "
            "and rows of the matrices. Activations are summed twice a layer each way, so ranks must be close."
        ),
        formula="Y = sum_r f(X A_r) B_r; 2 all-reduces of bsh elements a layer forward, 2 backward",
        paper="Shoeybi et al., Megatron-LM, arXiv 1909.08053",
        files=(f"{_FOLDER}/tensor/linear.py", f"{_FOLDER}/tensor/vocabulary.py", f"{_FOLDER}/tensor/functions.py"),
        snippet="""\
import torch
from bancada_parallelism import cross_entropy_of_shards

logits, labels = torch.randn(4, 10), torch.tensor([1, 7, 0, 9])
cut = cross_entropy_of_shards(logits.split(5, dim=1), labels)  # a half of the vocabulary a rank
print(cut - torch.nn.functional.cross_entropy(logits, labels, reduction="none"))
""",
    ),
    _pipeline(
        "gpipe",
        "Pipeline parallelism, GPipe",
        "Paralelismo de pipeline, GPipe",
        "Each rank has some layers; micro-batches go forward through all of them, then backward. "
        "A stage holds the activations of all m micro-batches.",
        "idle fraction (p-1)/(m+p-1); activations held: m",
        "Huang et al., GPipe, arXiv 1811.06965",
    ),
    _pipeline(
        "1f1b",
        "Pipeline parallelism, 1F1B",
        "Paralelismo de pipeline, 1F1B",
        "After a few forwards each stage runs one backward and one forward in turn. "
        "It idles as much as GPipe and holds fewer activations.",
        "idle fraction (p-1)/(m+p-1); activations held by stage s: min(m, p-s)",
        "Narayanan et al., PipeDream, arXiv 1806.03377",
    ),
    _all_reduce(
        "ring",
        "All-reduce in a ring",
        "All-reduce em anel",
        "Parts go around a ring, summed on the way, and once more around to everybody. "
        "It sends the least bytes, in the most steps.",
        "2(n-1) steps, 2(n-1)/n S bytes a rank",
        "Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms, 2009; in training: Horovod, arXiv 1802.05799",
    ),
    _all_reduce(
        "tree",
        "All-reduce in a binomial tree",
        "All-reduce em árvore binomial",
        "Sums go up a tree to one rank, and the result goes down again. It takes few steps, and suits small messages.",
        "2 ceil(log2 n) steps, 2(n-1)S bytes in all, up to ceil(log2 n) S for the root",
        _THAKUR,
    ),
    _all_reduce(
        "halving-doubling",
        "All-reduce by halving and doubling",
        "All-reduce por divisão e duplicação recursivas",
        "Partners at doubling distances exchange halves of what is left, then gather back the same way. "
        "It sends as little as the ring, in as few steps as the tree.",
        "2 log2 n steps, 2(n-1)/n S bytes a rank, for powers of two",
        _THAKUR,
    ),
)


def used_by(contenders: Iterable[RanksContender]) -> tuple[Technique, ...]:
    """The techniques of some contenders, in the catalogue's order."""
    used = {contender.technique for contender in contenders}
    return tuple(technique for technique in ALL if technique.id in used)
