"""Run code under a policy in the lab's module, as in a driver: types, maps, and that nothing stays. Prints JSON."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import accel_magic
from accel_magic.errors import AccelMagicError
from accel_magic.lab.accelerator import Accelerator, counts
from accel_magic.policies import driver, policy

MODULE = "accel_lab"
PAGES = np.array([block * 512 for _ in range(3) for block in range(60)], np.uint64)
FOREVER = """
import os, sys, time
sys.path[:] = {path!r}
import accel_magic
with accel_magic.attach_policy({file!r}, module={module!r}):
    if child := os.fork():
        print(child, flush=True)
    time.sleep(600)
"""


def calls():
    """Calls of the memory's hooks, as the module counts them."""
    return sum(number for hook, number in counts.hooks().items() if hook.startswith("gpu_"))


def work():
    before = calls()
    with Accelerator() as accelerator:
        accelerator.memory(32, 60)
        accelerator.replay(PAGES)
    return calls() - before


def compared(folder):
    read = functools.cache(lambda table: driver.read(table, module=MODULE))  # slow in an emulated machine
    return {
        file.stem: driver.compare(loaded, read(loaded.table)).differences
        for file in sorted(folder.glob("*.o"))
        for loaded in [policy.load(file)]
    }


def fails():
    raise ZeroDivisionError


def forked():
    """Fork a child that outlives the block."""
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    return child


def after_error(file):
    try:
        with accel_magic.attach_policy(file, module=MODULE):
            fails()
    except ZeroDivisionError:
        return work(), accel_magic.last.run.outcome
    return None


def after_kill(file):
    """Kill a process within its block; a child of it lives on."""
    code = FOREVER.format(path=sys.path, file=file, module=MODULE)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        during = work()
        process.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not (left := work()):
            break
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    return during, left


def main():
    folder = Path(sys.argv[1])
    told = {"differences": compared(folder), "without": work()}
    file = str(folder / "counting.o")
    with accel_magic.attach_policy(file, settings={"step": 2}, module=MODULE) as block:
        told["during"] = work()
        child = forked()
        try:
            with accel_magic.attach_policy(file, module=MODULE):
                pass
        except AccelMagicError as error:
            told["second"] = error.code
    told["after"] = work()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    result = block.result
    for when, maps in (("maps before", result.maps_before), ("maps", result.maps)):
        told[when] = {name: json.loads(table.to_json(orient="records")) for name, table in maps.items()}
    told["summary"] = result.summary()
    told["seconds"] = result.duration_s
    told["after an error"] = after_error(file)
    told["killed"] = after_kill(file)
    print(json.dumps(told))


main()
