"""Touch mapped memory of the lab's accelerator: FOLDER has jobs.json; accesses are saved as NUMBER.npy. Prints JSON."""

import contextlib
import json
import mmap
import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

from accel_magic.lab.accelerator import Accelerator, attached, counts
from accel_magic.policies import policy

PAGE = 4096


def minor_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def touched(folder, number, job):
    """Touch pages in turn, and keep what the accelerator heard of; returns its counts and this process's faults."""
    trace = np.load(folder / job["trace"])
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(Accelerator())
        device.memory(**{name: job["sizes"][name] for name in ("chunks", "blocks")}, observe=False)
        if job["policy"]:
            loaded = policy.load(folder / f"{job['policy']}.o")
            stack.enter_context(attached(loaded.object.data, values=loaded.values))
        buffer = device.buffer()
        places = (trace["pages"] * PAGE).tolist()
        before = minor_faults()
        for value, place in enumerate(places):
            buffer[place] = value % 251
        faults = minor_faults() - before
        accesses, lost = device.faults()
        counted = vars(device.counts)
        np.save(folder / f"{number}.npy", accesses)
        last = {place: value % 251 for value, place in enumerate(places)}
        kept = all(buffer[place] == value for place, value in last.items())
        return {"counts": counted, "faults": faults, "lost": lost, "kept": kept, "length": len(accesses)}


def shared_by_processes():
    """A page of each of two processes: the tenants that made the accesses."""
    with Accelerator() as device:
        go = os.pipe()
        child = os.fork()
        if not child:
            os.read(go[0], 1)
            device._blocks = 4
            device.buffer()[3 * 512 * PAGE] = 1
            os._exit(0)
        device.memory(2, 4, observe=False, processes=[os.getpid(), child])
        device.buffer()[0] = 1
        os.write(go[1], b"x")
        status = os.waitpid(child, 0)[1]
        accesses, _ = device.faults()
        for end in go:
            os.close(end)
        return status, accesses[["page", "tenant"]].tolist()


def refused(device, *arguments):
    try:
        mmap.mmap(device._fd, *arguments).close()
    except (OSError, ValueError) as error:
        return error.errno
    return 0


def killed_while_touching():
    """A process is killed while it touches pages, and another replays accesses in the same memory."""
    with Accelerator() as device:
        device.memory(4, 16, observe=True)
        child = os.fork()
        if not child:
            buffer = device.buffer()
            while True:
                for block in range(16):
                    buffer[block * 512 * PAGE] = 1
        pages = np.arange(4000, dtype=np.uint32) % 16 * 512
        device.replay(pages)
        time.sleep(0.2)
        device.replay(pages)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        accesses, lost = device.faults()
        counted = device.counts
        heard = len(accesses) + lost
        return {"heard": heard, "replayed": counted.accesses - heard, "evictions": counted.evictions > 4000}


def main():
    folder = Path(sys.argv[1])
    told = {"touched": [touched(folder, *job) for job in enumerate(json.loads((folder / "jobs.json").read_text()))]}
    told["tenants"] = shared_by_processes()
    with Accelerator() as device:
        no_memory = refused(device, PAGE)
        device.memory(1, 2)
        size = 2 * 512 * PAGE
        told["refused"] = [
            no_memory,
            refused(device, size + PAGE),
            refused(device, size, mmap.MAP_PRIVATE),
            refused(device, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, 0, size),
            refused(device, size),
        ]
        old = device.buffer()
        old[:4] = 7
        device.memory(1, 2)
        new = device.buffer()
        told["replaced"] = [old[:4].tolist(), new[:4].tolist(), counts.memory()["memories"]]
        with Path("/proc/self/mem").open("rb") as memory:  # reading it like a debugger is refused, and does no harm
            memory.seek(old.ctypes.data)
            with contextlib.suppress(OSError):
                memory.read(16)
        # A trace that lies in the memory that it accesses.
        inside = new[:PAGE].view(np.uint32)
        inside[:64] = np.arange(64) % 2 * 512
        told["inside"] = np.bincount(device.replay(inside[:64])["outcome"], minlength=3).tolist()
        del old, new, inside
    told["killed"] = killed_while_touching()
    told["memories"] = counts.memory()["memories"]
    print(json.dumps(told))


main()
