"""Case 15: saved under one layout, loaded under another, bit by bit, parameters and optimizer states."""

from __future__ import annotations

import jobs_hybrid as jobs
import torch
from jobs_tensor import CutDecoder
from parallel_pool import Pool, check_same

LAYOUTS = ({"pipeline": 2}, {"tensor": 4}, {"tensor": 2, "pipeline": 2}, {"tensor": 2})


def test_states_move_between_layouts_pt108869_torchtitan811_fastllm436(two_ranks: Pool, four_ranks: Pool) -> None:
    """From 2 tensor ranks to a pipeline, to 4 ranks and back: 23 words do not divide by 2 or 4."""
    (saved, _), _ = two_ranks.run(jobs.save_and_load, {"tensor": 2}, None)
    whole = dict(CutDecoder(None, torch.float32).named_parameters())
    assert {name: t.shape for name, t in saved["parameters"].items()} == {name: p.shape for name, p in whole.items()}
    assert set(saved) == {"parameters", "step", "exp_avg", "exp_avg_sq"}
    assert saved["exp_avg"]["embed.weight"].shape == whole["embed.weight"].shape
    state = saved
    for sizes in LAYOUTS:
        pool = four_ranks if sizes.get("tensor", 1) * sizes.get("pipeline", 1) == 4 else two_ranks
        for found, message in pool.run(jobs.save_and_load, sizes, state):
            assert found.keys() == saved.keys()
            for key in saved:
                check_same(found[key], saved[key], 0.0, f"{sizes} {key}")
            assert "shape [3]; must be [" in message
        state = found
