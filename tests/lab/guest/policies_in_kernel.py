"""Run policies in the kernel on traces: FOLDER has jobs.json; the decisions are saved as NUMBER.npy. Prints JSON."""

import functools
import json
import sys
from pathlib import Path

import numpy as np

from accel_magic.policies import policy
from accel_magic.policies.kernel_engine import KernelMemory


def main():
    folder = Path(sys.argv[1])
    load = functools.cache(
        lambda name, settings: policy.load(folder / f"{name}.o", settings=json.loads(settings)) if name else None
    )
    counts = []
    for number, job in enumerate(json.loads((folder / "jobs.json").read_text())):
        trace = np.load(folder / job["trace"])
        with KernelMemory(load(job["policy"], json.dumps(job["settings"])), **job["sizes"]) as kernel:
            np.save(folder / f"{number}.npy", kernel.run(trace["pages"], trace["tenants"]))
            counts.append(vars(kernel.counts))
    print(json.dumps(counts))


main()
