"""Reading an iaprof profile of a million stall lines, compared with splitting the same lines with awk."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.arithmetic import Measured
from benchmarks.peers import require

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = 1_000_000
_KERNELS, _OFFSETS = 25, 40
_INSTRUCTIONS = ("dpas", "send", "mad", "mov", "add", "mul")
_COUNTS = (0, 0, 0, 0, 0, 0, 1, 3, 12, 120)
_READ = """
import resource, sys, time
from accel_magic.subsystems.iaprof.parse import read
before = time.process_time()
found = read(sys.argv[1])
print(time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(found.stalls))
"""


def reading(*, quick: bool) -> Iterator[Measured]:
    rounds, count = (2, 50_000) if quick else (5, LINES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile.txt")
        _write(path, count)
        ours, sizes, theirs = [], [], []
        for _ in range(rounds):
            done = subprocess.run([sys.executable, "-c", _READ, path], capture_output=True, text=True, check=True)
            seconds, size, lines = map(float, done.stdout.split())
            require(lines >= count, f"{lines:.0f} of {count} lines were read")
            ours.append(seconds)
            sizes.append(size)
            theirs.append(_awk(path))
    what = f"an iaprof profile of {count:,} stall lines"
    yield Measured(
        "iaprof-time",
        f"reading {what}: CPU time",
        "s",
        tuple(ours),
        "awk, summing the ten columns",
        tuple(theirs),
        "value",
        5,
        "one core",
    )
    yield Measured("iaprof-memory", f"reading {what}: peak of the whole process", "MiB", tuple(sizes), bar=1024)


def _awk(path: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = "/^eustall/ { for (i = 4; i <= 13; i++) sum += $i } END { print sum }"
    done = subprocess.run(["awk", "-F\t", script, path], capture_output=True, text=True, check=True)
    require(float(done.stdout or 0) > 0, f"awk found nothing to add up: {done.stdout!r}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write(path: Path, count: int) -> None:
    """Write intervals of 25 kernels with 40 instructions each until there are `count` stall lines."""
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("string\t1\tpython3\nstring\t2\t_start;main;py::run;launch\n")
        file.writelines(f"string\t{10 + number}\t{text}\n" for number, text in enumerate(_INSTRUCTIONS))
        file.writelines(f"string\t{100 + number}\tkernel_{number}\n" for number in range(_KERNELS))
        written = interval = 0
        while written < count:
            file.write(f"interval\t{interval}\t{1000 + interval / 100:.6f}\n")
            for number in range(_KERNELS):
                file.write(f"kernel\t{0xFFFF800000100000 + number * 0x10000:#x}\t1\t4242\t2\t0\t{100 + number}\n")
                for place in range(_OFFSETS):
                    counts = "\t".join(str(chance.choice(_COUNTS)) for _ in range(10))
                    file.write(f"eustall\t{place * 16:#x}\t{10 + place % len(_INSTRUCTIONS)}\t{counts}\n")
            file.write("metric\tfrequency-MHz\t2400\nmetric\tbusy-percent\t87\n")
            written += _KERNELS * _OFFSETS
            interval += 1
