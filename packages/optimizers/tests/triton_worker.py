"""Steps AdamW by the Triton kernel and prints errors as JSON; a process of its own, as Triton decides at import.

TRITON_INTERPRET=1 python triton_worker.py cpu float32,float16     # what test_triton.py starts
python triton_worker.py cuda float32,float16,bfloat16              # on a GPU
"""

from __future__ import annotations

import json
import sys

import torch

from bancada_optimizers import AdamW, adamw_step
from bancada_optimizers.adamw import triton_kernel

SHAPES = ((), (0,), (7,), (1024,), (33, 65), (2, 3, 4, 5), (1, 1025))


def main() -> None:
    device, results = torch.device(sys.argv[1]), {}
    launches = []
    original = triton_kernel._launch
    triton_kernel._launch = lambda *arguments: (launches.append(1), original(*arguments))
    for name in sys.argv[2].split(","):
        torch.manual_seed(0)
        dtype = getattr(torch, name)
        params = [torch.nn.Parameter(torch.randn(shape, device=device).to(dtype)) for shape in SHAPES]
        whole = torch.randn(40, 3, device=device).to(dtype)
        params += [torch.nn.Parameter(whole[1:, :].T), torch.nn.Parameter(torch.randn(64, device=device).to(dtype)[1:])]
        optimizer = AdamW(params, lr=0.01, weight_decay=0.1, backend="triton")
        error = 0.0
        for t in range(4):
            expected = []
            for i, p in enumerate(params):
                p.grad = None if t == 1 and i % 2 else torch.randn(p.shape, device=device).to(dtype)
                if p.grad is None:
                    continue
                state = optimizer.state[p]
                zero = torch.zeros(p.shape, device=device, dtype=torch.float64)
                m, v = (state[key].double() if key in state else zero for key in ("exp_avg", "exp_avg_sq"))
                step = int(state["step"]) + 1 if "step" in state else 1
                one = adamw_step(p.detach().double(), p.grad.double(), m, v, step, lr=0.01, weight_decay=0.1)
                expected.append((p, one))
            optimizer.step()
            for p, (new, m, v) in expected:
                state = optimizer.state[p]
                for found, right in ((p.detach(), new), (state["exp_avg"], m), (state["exp_avg_sq"], v)):
                    # In units of the rounding of each result: the kernel computes in fp32 and rounds once.
                    limit = 0.51 * torch.finfo(found.dtype).eps * right.abs() * 2 + 1e-6
                    if found.numel():
                        error = max(error, float(((found.double() - right).abs() / limit).max()))
        results[name] = error
    results["launches"] = len(launches)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
