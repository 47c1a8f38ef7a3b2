"""What must not go wrong with the lab's accelerator: FOLDER MODULE. Prints JSON."""

import ctypes
import errno
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import accel_magic
from accel_magic.errors import AccelMagicError
from accel_magic.lab.accelerator import Accelerator, attached, counts

DELETE_MODULE, FINIT_MODULE = 176, 313
PAGES = np.arange(64, dtype=np.uint32) % 16 * 512
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    return 0 if libc.syscall(number, *arguments) == 0 else ctypes.get_errno()


def unload():
    return call(DELETE_MODULE, b"accel_lab", os.O_NONBLOCK)


def unload_when_free():
    """Unload it; the kernel frees a detached policy, which holds the module, only after a grace period."""
    until = time.monotonic() + 20
    while (error := unload()) == errno.EWOULDBLOCK and time.monotonic() < until:
        time.sleep(0.1)
    return error


def load(module):
    with module.open("rb") as file:
        return call(FINIT_MODULE, file.fileno(), b"timeout_ms=300", 0)


def refused(action, *arguments):
    try:
        action(*arguments).close()
    except AccelMagicError as error:
        return error.code, getattr(error, "log", str(error))
    return "", ""


def calls_of_policies():
    """Calls of a policy's hooks while pages are accessed."""
    before = counts.hooks()["gpu_block_activate"]
    with Accelerator() as device:
        device.memory(8, 16)
        device.replay(PAGES)
    return counts.hooks()["gpu_block_activate"] - before


def bad_trace():
    with Accelerator() as device:
        device.memory(4, 16)
        device.replay(np.array([512 * 15, 512 * 16], np.uint32))


def no_memory():
    with Accelerator() as device:
        device.replay(PAGES)


def main():
    folder, module = Path(sys.argv[1]), Path(sys.argv[2])
    objects = {file.name.partition(".")[0]: file.read_bytes() for file in folder.glob("*.bpf.o")}
    told = {"without": calls_of_policies()}
    with attached(objects["mru"]) as policy:
        told["unloaded under a policy"] = unload()
        told["second policy"] = refused(attached, objects["mru"])[0]
        told["under a policy"] = calls_of_policies()
        os.kill(policy._process.pid, signal.SIGKILL)
        policy._process.wait()
        time.sleep(0.5)
        told["after the loader was killed"] = calls_of_policies()
    for name in ("writes", "forges"):
        told[name] = refused(attached, objects[name])
    with Accelerator() as device, attached(objects["nonsense"]):
        device.memory(8, 16)
        device.replay(PAGES)
        told["nonsense"] = [device.counts.misses, device.counts.refused]
    with Accelerator() as device, attached(objects["stubborn"]):
        device.memory(8, 16)
        device.replay(PAGES)
        told["stubborn"] = [device.counts.misses, device.counts.evictions]
    told["bad trace"] = refused(bad_trace)[0]
    told["no memory"] = refused(no_memory)[0]
    told["unloaded"] = unload_when_free()
    told["loaded again"] = load(module)
    with Accelerator() as device:
        fence = device.fence()
        device.submit(0, hang=True, signal=fence)
        device.wait([fence])
        device.submit(100, signal=fence)
        device.wait([fence])
    told["jobs"] = next(row for row in counts.jobs() if row["client"] == 0 and row["ring"] == "compute")
    shown = accel_magic.gpupolicy([folder / "mru.bpf.o"], "loop:blocks=60,accesses=3000", memory=32, engine="kernel")
    told["policies"] = shown.counts.misses.to_dict()
    print(json.dumps(told))


main()
