"""Profiles NPU jobs run one by one and all at once. Prints its own counts and times as JSON.

Used as `flame_npu.py RECORDING ROUNDS BUFFERS`.
"""

from __future__ import annotations

import json
import sys
import time

import accel_magic
from accel_magic.lab import npu


def one_by_one(device, buffers):
    """Wait for each job before the next; returns ns spent waiting."""
    waited = 0
    for buffer in buffers:
        device.submit([buffer])
        waited += wait(device, buffer)
    return waited


def at_once(device, buffers):
    """Submit all jobs, then wait; returns ns spent waiting."""
    for buffer in buffers:
        device.submit([buffer])
    return sum(wait(device, buffer) for buffer in buffers)


def wait(device, buffer):
    start = time.monotonic_ns()
    device.wait(buffer)
    return time.monotonic_ns() - start


def main():
    """Profile."""
    target, rounds, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with npu.Device() as device:
        buffers = [device.create_buffer() for _ in range(count)]
        # So that the guest, however slow, has to wait for the last job of each batch.
        buffers[-1].memory[:16] = npu.job_fault("slow", 100_000)
        at_once(device, buffers)  # wakes the NPU
        device.counts.reset()
        waited = {one_by_one.__name__: 0, at_once.__name__: 0}
        with accel_magic.flame("npu:jobs", "intel_vpu:ivpu_*_ioctl", off_cpu=True, save=target):
            start = time.monotonic_ns()
            for _ in range(rounds):
                waited[one_by_one.__name__] += one_by_one(device, buffers)
                waited[at_once.__name__] += at_once(device, buffers)
            took = time.monotonic_ns() - start
        print(json.dumps({"counts": device.counts.to_dict(), "waited_ns": waited, "took_ns": took}))


main()
