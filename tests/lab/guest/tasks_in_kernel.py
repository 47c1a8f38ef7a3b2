"""Ask the kernel about tenants' tasks under a scheduling policy: OBJECT TENANTS SETTINGS. Prints JSON."""

import json
import sys

import accel_magic
from accel_magic.lab.accelerator import counts


def main():
    file, tenants, settings = sys.argv[1:]
    result = accel_magic.gpuschedule(file, tenants, runs=1, settings=json.loads(settings), engine="kernel")
    print(
        json.dumps(
            {
                "tasks": json.loads(result.tasks.to_json(orient="values")),
                "admitted": result.maps["timeslices"][".bss"]["admitted"].tolist(),
                "clients": [
                    [one[name] for name in ("timeslice_us", "interleave", "rejected")] for one in counts.clients()
                ],
            }
        )
    )


main()
