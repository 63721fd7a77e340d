"""What the attention functions refuse, in words that name the argument, what it was and what is allowed."""

from __future__ import annotations

import inspect
import math
from functools import partial

import attention_rule as rule
import numpy
import pytest
import torch

from bancada_attention import attention, flash_attention

TILED = partial(flash_attention, backend="tiled")
UNCHECKED = {"attention": inspect.unwrap(attention), "flash_attention": inspect.unwrap(flash_attention)}

GOOD = rule.make(2, 4, 5, 6, 8, kv_heads=2)
NESTED = torch.nested.nested_tensor([torch.zeros(4, 5, 8), torch.zeros(4, 3, 8)], layout=torch.jagged)
REFUSED = {
    "q is no tensor": ({"q": 3}, r"q=3: must be a tensor"),
    "q has 3 dimensions": ({"q": GOOD.q[0]}, r"q: shape \[4, 5, 8\]; must have 4 dimensions"),
    "integers": ({"q": GOOD.q.int()}, r"q: dtype torch.int32; allowed are torch.float16"),
    "dtypes differ": ({"v": GOOD.v.double()}, r"v: dtype torch.float64; must be that of q, torch.float32"),
    "devices differ": ({"k": GOOD.k.to("meta")}, r"k: device meta; must be that of q, cpu"),
    "v longer than k": ({"v": torch.zeros(2, 2, 7, 8)}, r"v: shape \[2, 2, 7, 8\]; must be that of k, \[2, 2, 6, 8\]"),
    "batch differs": ({"q": GOOD.q[:1]}, r"k: batch 2 in shape \[2, 2, 6, 8\]; must be that of q, 1"),
    "head_dim differs": ({"q": GOOD.q[..., :7]}, r"k: head_dim 8 in shape .*; must be that of q, 7"),
    "heads do not divide": ({"q": GOOD.q[:, :3]}, r"k: 2 heads; must be at least 1 and divide those of q, 3"),
    "no heads": ({"k": GOOD.k[:, :0], "v": GOOD.v[:, :0]}, r"k: 0 heads; must be at least 1"),
    "head_dim 0": ({name: getattr(GOOD, name)[..., :0] for name in "qkv"}, r"q: head_dim 0; must be"),
    "causal is no bool": ({"causal": 1}, r"causal=1: must be True or False"),
    "scale is NaN": ({"scale": math.nan}, r"scale=nan: must be a finite number"),
    "scale is infinite": ({"scale": math.inf}, r"scale=inf: must be a finite number"),
    "scale is a word": ({"scale": "big"}, r"scale='big': must be a finite number"),
    "scale is beyond a float": ({"scale": 10**400}, r"scale=1000.*: must be a finite number"),
    "sparse": ({"k": GOOD.k.to_sparse()}, r"k: layout torch.sparse_coo; must be torch.strided"),
    "nested": ({"q": NESTED}, r"q: a nested tensor; must be an ordinary one"),
    "mask of numbers": ({"key_padding_mask": torch.ones(2, 6)}, r"key_padding_mask: dtype torch.float32; must be"),
    "mask of another shape": (
        {"key_padding_mask": torch.ones(2, 5, dtype=torch.bool)},
        r"key_padding_mask: shape \[2, 5\]; must be \[batch, k_len\] = \[2, 6\]",
    ),
    "mask elsewhere": (
        {"key_padding_mask": torch.ones(2, 6, dtype=torch.bool, device="meta")},
        r"key_padding_mask: device meta; must be that of q, cpu",
    ),
    "mask is a list": ({"key_padding_mask": [True]}, r"key_padding_mask=\[True\]: must be None or a bool tensor"),
}


@pytest.mark.parametrize("name", UNCHECKED)
@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_named(name: str, what: str) -> None:
    changed, message = REFUSED[what]
    arguments = {"q": GOOD.q, "k": GOOD.k, "v": GOOD.v} | changed
    tensors = [arguments.pop(x) for x in "qkv"]
    with pytest.raises(ValueError, match=message):
        UNCHECKED[name](*tensors, **arguments)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            torch.ones(2, 3, 5, 6, dtype=torch.bool),
            r"attn_mask: shape \[2, 3, 5, 6\]; must broadcast to .* \[2, 4, 5, 6\]",
        ),
        (torch.ones(1, 2, 4, 5, 6), r"attn_mask: shape \[1, 2, 4, 5, 6\]; must broadcast"),
        (torch.ones(5, 6, dtype=torch.int64), r"attn_mask: dtype torch.int64; allowed are torch.bool"),
        (torch.ones(5, 6, device="meta"), r"attn_mask: device meta"),
        ("causal", r"attn_mask='causal': must be None or a tensor"),
    ],
)
def test_bad_attn_mask_is_named(mask: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UNCHECKED["attention"](GOOD.q, GOOD.k, GOOD.v, attn_mask=mask)


def test_flash_refuses_what_only_the_reference_takes() -> None:
    wide = rule.make(1, 1, 3, 3, 257)
    attention(wide.q, wide.k, wide.v)
    with pytest.raises(ValueError, match=r"q: head_dim 257; must be 1 to 256"):
        TILED(wide.q, wide.k, wide.v)
    with pytest.raises(ValueError, match=r"backend='cudnn': allowed are auto, tiled, triton"):
        UNCHECKED["flash_attention"](GOOD.q, GOOD.k, GOOD.v, backend="cudnn")
    double = rule.make(1, 1, 3, 3, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"backend='triton': .*'tiled' takes any input"):
        flash_attention(double.q, double.k, double.v, backend="triton")


def test_a_number_of_another_library_is_a_scale() -> None:
    for attend in UNCHECKED.values():
        found = attend(GOOD.q, GOOD.k, GOOD.v, scale=numpy.float32(0.5))
        assert torch.equal(found, attend(GOOD.q, GOOD.k, GOOD.v, scale=0.5))
