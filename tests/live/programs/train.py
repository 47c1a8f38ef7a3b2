"""Trains a layer; one rank sleeps in each step and writes how long: `train.py FOLDER LATE_RANK STEPS SECONDS`."""

import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import accel_magic

folder, late, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(50, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
slept = []
for number in range(steps):
    accel_magic.step(number)
    if rank == late:
        start = time.monotonic_ns()
        time.sleep(seconds)
        slept.append(time.monotonic_ns() - start)
    model(torch.randn(4, 50)).sum().backward()
    optimizer.step()
    if number % 2 == 0:
        dist.all_reduce(torch.ones(10), group=halves[rank // 2])
    if number == 3 and rank in (0, 1):  # shifts PyTorch's own numbers of collectives in these ranks
        dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0)
accel_magic.step(steps)
dist.barrier()
dist.destroy_process_group()
(folder / f"slept-{rank}.json").write_text(json.dumps(slept))
