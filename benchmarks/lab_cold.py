"""Boots the lab in a new process, traces one job and creates a DataFrame: `lab_cold.py KERNEL LOAD`."""

from __future__ import annotations

import os
import sys

from accel_magic.api.lab import trace_lab
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings

kernel, load = sys.argv[1:]
lab = Lab(Settings(kernel=kernel, deadline_s=120.0)).start()
result = trace_lab(lab, "intel_vpu:ivpu_*", command=[load, "--jobs", "1"])
print(len(result.events), flush=True)
os._exit(0)  # the keeper process ends the lab
