"""Times of torch.optim.AdamW, plain and fused, for the sizes of benches/adam_w.rs: the medians of a second each."""

import statistics
import time

import torch

torch.set_num_threads(2)
print("| parameter | dtype | fused | for each | plain |\n|---|---|---|---|---|")
for dtype in (torch.float32, torch.bfloat16):
    for shape in ((1, 128), (128, 384), (1024, 1024), (4096, 4096)):
        medians = []
        for options in (dict(fused=True), dict(foreach=True), dict(foreach=False)):
            parameter = torch.nn.Parameter(torch.randn(shape, dtype=dtype))
            parameter.grad = torch.randn(shape, dtype=dtype)
            optimiser = torch.optim.AdamW([parameter], lr=1e-3, eps=1e-5, weight_decay=0.01, **options)
            optimiser.step()
            times, begun = [], time.perf_counter()
            while len(times) < 9 or time.perf_counter() - begun < 1:
                start = time.perf_counter()
                optimiser.step()
                times.append(time.perf_counter() - start)
            medians.append(statistics.median(times))
        cells = " | ".join(f"{median * 1e3:.4f} ms" for median in medians)
        print(f"| {list(shape)} | {str(dtype)[6:]} | {cells} |")
