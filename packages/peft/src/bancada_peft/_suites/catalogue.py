"""The cards of the techniques in the report's catalogue."""

from __future__ import annotations

from bancada.suite import Technique

_HERE = "packages/peft/src/bancada_peft"
_MODEL = """\
import torch
from torch import nn
import bancada_peft as bp

model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
"""


def _card(
    id: str, title: str, title_pt: str, summary: str, formula: str, paper: str, folder: str | None, use: str
) -> Technique:
    files = () if folder is None else (f"{_HERE}/{folder}",)
    return Technique(id, title, title_pt, "peft", summary, formula, paper, files, _MODEL + use)


FULL = _card(
    "full-fine-tuning",
    "Full fine-tuning",
    "Ajuste fino completo",
    "Every weight is trained. It needs a gradient and the optimizer's state for each, and a whole model for each task.",
    "W <- W - update(dL/dW)",
    "Howard and Ruder, ULMFiT, arXiv 1801.06146",
    None,
    "print(bp.trainable_summary(model))\n",
)
LORA = _card(
    "lora",
    "LoRA and rsLoRA",
    "LoRA e rsLoRA",
    "Beside a frozen weight two thin matrices are trained, whose product is added to it. They can be merged into the "
    "weight, so that the adapted model costs no more to run; rsLoRA's scale keeps large ranks effective.",
    "h = W x + s B A x, s = alpha / r (rsLoRA: alpha / sqrt(r)); r (in + out) parameters",
    "Hu et al., LoRA, arXiv 2106.09685; Kalajdzievski, rsLoRA, arXiv 2312.03732",
    "lora/reference.py",
    'print(bp.adapt(model, bp.Lora(("0", "2"), r=8, alpha=16)))\nbp.merge(model)\n',
)
DORA = _card(
    "dora",
    "DoRA",
    "DoRA",
    "The weight is split into the length of each row and its direction: lengths are trained as they are, directions by "
    "LoRA. It often needs a smaller rank than LoRA, and each step costs more, for the rows' norms.",
    "h = m (V / ||V||) x, V = W + s B A, the norm by row; r (in + out) + out parameters",
    "Liu et al., DoRA, arXiv 2402.09353",
    "dora/reference.py",
    'print(bp.adapt(model, bp.Dora(("0", "2"), r=8, alpha=16)))\n',
)
IA3 = _card(
    "ia3",
    "(IA)³",
    "(IA)³",
    "Keys, values and the inner features of the feed-forward network are scaled by learned factors. It trains the "
    "fewest parameters of all, and can be merged.",
    "h = l * (W x), and W (l * x) for feed-forward layers; one parameter a feature",
    "Liu et al., (IA)^3 and T-Few, arXiv 2205.05638",
    "ia3/reference.py",
    'print(bp.adapt(model, bp.Ia3(("0", "2"), feedforward_modules=("2",))))\n',
)
BOTTLENECK = _card(
    "bottleneck-adapters",
    "Bottleneck adapters",
    "Adaptadores de gargalo",
    "A small network behind a layer narrows its output to r features and widens it again. It is no change of a weight: "
    "it cannot be merged and stays in the model's path.",
    "h + U relu(D h + d) + u; 2 r dim + r + dim parameters",
    "Houlsby et al., Parameter-Efficient Transfer Learning, arXiv 1902.00751",
    "bottleneck/reference.py",
    'print(bp.adapt(model, bp.Bottleneck(("2",), r=8)))\n',
)
_ENCODER = """\
import torch
from torch import nn
import bancada_peft as bp


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(100, 16), nn.Linear(16, 2)

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids=None, inputs_embeds=None):
        return self.head((self.table(input_ids) if inputs_embeds is None else inputs_embeds).mean(1))


model = Mean()
"""
PROMPT = Technique(
    "prompt-tuning",
    "Prompt tuning",
    "Ajuste de prompt",
    "peft",
    "A few learned embeddings stand before every input; the model itself does not change. One model serves many tasks "
    "in one batch. Each input gets longer by them, and small models gain less from it than large ones.",
    "[P; E(x)], P of n virtual tokens; n dim parameters",
    "Lester et al., The Power of Scale for Parameter-Efficient Prompt Tuning, arXiv 2104.08691",
    (f"{_HERE}/prompt/reference.py",),
    _ENCODER + "print(bp.adapt(model, bp.PromptTuning(n=8)))\nmodel(torch.arange(20)[None])\n",
)
FREEZING = _card(
    "freezing",
    "Transfer by freezing",
    "Transferência por congelamento",
    "Only the head, or the upper layers, are trained. Where nothing below is trained, the backward pass ends there.",
    "dL/dW = 0 for every frozen W",
    "Howard and Ruder, ULMFiT, arXiv 1801.06146; Peters et al., To Tune or Not to Tune?, arXiv 1903.05987",
    "freezing.py",
    'print(bp.train_only(model, ("2",)))\n',
)
TECHNIQUES = (FULL, LORA, DORA, IA3, BOTTLENECK, FREEZING)
QUALITY = (*TECHNIQUES, PROMPT)
