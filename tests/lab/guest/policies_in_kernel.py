"""Run policies in the kernel on traces: FOLDER has jobs.json; the decisions are saved as NUMBER.npy. Prints JSON."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from accel_magic.policies.kernel import Kernel


def main():
    folder = Path(sys.argv[1])
    counts = []
    for number, job in enumerate(json.loads((folder / "jobs.json").read_text())):
        data = job["object"] and (folder / job["object"]).read_bytes()
        policy = (
            SimpleNamespace(name=job["name"], object=SimpleNamespace(data=data, maps=()), maps=()) if data else None
        )
        trace = np.load(folder / job["trace"])
        with Kernel(policy, **job["sizes"]) as kernel:
            np.save(folder / f"{number}.npy", kernel.run(trace["pages"], trace["tenants"]))
            counts.append(vars(kernel.counts))
    print(json.dumps(counts))


main()
