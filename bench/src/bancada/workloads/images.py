"""Hand-written digits: scikit-learn's 1,797 pictures of 8 x 8, in ten classes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from bancada.workloads.models import seeded
from bancada.workloads.needs import need
from bancada.workloads.splits import SPLITS, Split, divide
from bancada.workloads.task import Rows, RowsTask, logits_of

ImageModel = Literal["vit", "mlp"]
CLASSES = 10
SIDE = 8
LEVELS = 16  # a picture's values go from 0 to 16


def digits(
    model: ImageModel = "vit",
    *,
    batch_size: int = 32,
    seed: int = 0,
    device: torch.device | str = "cpu",
    eval_rows: int = 256,
) -> RowsTask:
    """Tell a digit from its picture: cross-entropy over ten classes, mean over the batch.

    Batches hold `pixel_values` `[batch_size, 1, 8, 8]`, from -1 to 1, and `labels` `[batch_size]`. 80% of each digit's
    pictures are to train on, 10% validation, 10% held out. `tokens_per_update` counts pictures.

    Args:
        model: `vit` (patches of 2 x 2, width 64, 4 layers, 4 heads; 135k parameters) or `mlp` (64, 128, 128, 10).
        batch_size: pictures an update.
        seed: of the weights and of the order of the pictures.
        device: of models and batches.
        eval_rows: at most that many pictures are evaluated.

    Raises:
        ValueError: an unknown model or a size out of range.
        ImportError: what the extra `bancada[workloads]` holds is missing.
    """
    if model not in get_args(ImageModel):
        raise ValueError(f"model is {model!r}, it must be one of {', '.join(get_args(ImageModel))}")
    return RowsTask(
        f"digits-{model}-b{batch_size}-s{seed}",
        make_model=lambda: seeded(seed, _vit if model == "vit" else _mlp),
        rows=_pictures(),
        predictions=_classes,
        batch_size=batch_size,
        eval_rows=eval_rows,
        tokens_per_row=1,
        seed=seed,
        device=device,
    )


@cache
def _pictures() -> dict[Split, Rows]:
    found = need("sklearn.datasets", "the workload 'digits'").load_digits()
    pixels = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / (LEVELS / 2) - 1
    labels = torch.tensor(found.target)
    parts = divide([(f"picture {index}", str(label), 1) for index, label in enumerate(labels.tolist())])
    indices = {
        part: torch.tensor([index for index in range(len(labels)) if parts[f"picture {index}"] == part])
        for part in SPLITS
    }
    return {part: {"pixel_values": pixels[chosen], "labels": labels[chosen]} for part, chosen in indices.items()}


def _vit() -> nn.Module:
    library = need("transformers", "the model 'vit'")
    made: nn.Module = library.ViTForImageClassification(
        library.ViTConfig(
            image_size=SIDE,
            patch_size=2,
            num_channels=1,
            hidden_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=128,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=CLASSES,
        )
    )
    return made


def _mlp() -> nn.Module:
    widths = (SIDE * SIDE, 128, 128)
    layers: list[nn.Module] = [nn.Flatten()]
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], CLASSES))


def _classes(model: nn.Module, batch: Rows) -> tuple[Tensor, Tensor]:
    return logits_of(model(batch["pixel_values"])), batch["labels"]
