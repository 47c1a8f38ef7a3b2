"""OpenCL kernels with programs in them, on Intel's runtime for processors."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.gpu import programs
from accel_magic.gpu.codegen import opencl_c
from accel_magic.gpu.codegen.spirv import compile_spirv
from accel_magic.gpu.inject.spirv import inject_spirv
from accel_magic.gpu.maps import map_layout
from benchmarks.arithmetic import Measured
from benchmarks.peers import require
from tests.support import opencl

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNELS = """
kernel void add(global const float *a, global const float *b, global float *c, uint count)
{
	size_t i = get_global_id(0);

	if (i < count)
		c[i] = a[i] + b[i];
}

kernel void columns(global const float4 *from, global float4 *to, uint rows)
{
	size_t i = get_global_id(0), width = get_global_size(0);
	float4 sum = 0;

	for (uint row = 0; row < rows; row++)
		sum += from[i + row * width];
	to[i] = sum;
}
"""
LAUNCHING = """
import json, sys, time
import numpy as np
import pyopencl as cl
from accel_magic import gputrace
source, tool, rounds = open(sys.argv[1]).read(), sys.argv[2], int(sys.argv[3])
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
program = cl.Program(context, source).build()
many, wide, rows = 1 << 20, 1 << 14, 64
def buffer(size):
    return cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ones(size, "f4"))
a, c, from_, to = buffer(many), buffer(many), buffer(4 * wide * rows), buffer(4 * wide)
add, columns = program.add, program.columns
LAUNCHES = 9
CALLS = {
    "add": lambda: add(queue, (many,), (128,), a, a, c, np.uint32(many)),
    "columns": lambda: columns(queue, (wide,), (64,), from_, to, np.uint32(rows)),
}
def best(call):
    times = []
    for _ in range(LAUNCHES):
        begin = time.perf_counter()
        call()
        queue.finish()
        times.append(time.perf_counter() - begin)
    return min(times)
found = {name: {"traced": [], "plain": []} for name in CALLS}
for name, call in CALLS.items():
    best(call)
for _ in range(rounds):
    with gputrace(tool, device="opencl") as trace:
        traced = {name: best(call) for name, call in CALLS.items()}
    table = trace.result.tools[tool].groupby("name")
    for name, call in CALLS.items():
        found[name]["traced"].append(traced[name])
        found[name]["plain"].append(best(call))
        found[name]["counts"] = table[["threads" if tool == "kernelcount" else "lanes"]].sum().iloc[:, 0].to_dict()
items = {"add": many * LAUNCHES, "columns": wide * LAUNCHES}
per_item = {"kernelcount": {"add": 1, "columns": 1}, "memtrace": {"add": 3, "columns": rows + 1},
            "branchdiv": {"add": 1}}
expected = {name: items[name] * times for name, times in per_item[tool].items()}
print(json.dumps({"found": found, "expected": expected}))
"""
BARS = {"kernelcount": 1.2, "branchdiv": 2.5, "memtrace": 8.0}
REWRITING_S, COMPILING_S = 0.020, 0.6


def tracing(*, quick: bool) -> Iterator[Measured]:
    """Times of two kernels with each tool and without, of compiling a tool, and of inserting it into a module."""
    missing = [name for name in ("pyopencl",) if find_spec(name) is None]
    if missing or (opencl.library() is None and not opencl.SYSTEM):
        print(f"skipping opencl: {', '.join(missing) or 'intel-opencl-rt'} is not installed", file=sys.stderr)
        return
    for tool, bar in BARS.items():
        yield from _launches(tool, bar, 2 if quick else 7)
    yield from _translating(3 if quick else 9)


def _launches(tool: str, bar: float, rounds: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.cl"
        source.write_text(KERNELS, "utf-8")
        command = [sys.executable, "-W", "ignore", "-c", LAUNCHING, str(source), tool, str(rounds)]
        done = subprocess.run(
            command, env=opencl.environment(folder), capture_output=True, text=True, check=False, timeout=600
        )
    require(done.returncode == 0, f"the process that launches kernels failed: {done.stderr[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for name, measured in answer["found"].items():
        counts, expected = measured["counts"].get(name), answer["expected"].get(name)
        if expected is not None:
            require(counts == expected, f"{tool} counted {counts} of {expected} in {name}")
        yield Measured(
            f"{tool}-{name}",
            f"OpenCL kernel `{name}` on a processor under %%gputrace {tool}",
            "ms",
            tuple(1e3 * taken for taken in measured["traced"]),
            "the same kernel without the trace",
            tuple(1e3 * taken for taken in measured["plain"]),
            "ratio",
            bar,
        )


def _translating(rounds: int) -> Iterator[Measured]:
    module = opencl_c.compiled(KERNELS, (), (1, 2)).code
    for tool in BARS:
        (source,) = programs.load((tool,))
        plan = map_layout.plan_memory(source.object.maps, 1024, limit=1 << 32)
        pairs = [(source, map_layout.placement(plan, 1 << 44, 1 << 45))]
        compiling, inserting = [], []
        compile_spirv(pairs)
        for _ in range(rounds):
            begin = time.perf_counter()
            probes = compile_spirv(pairs)
            compiling.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            changed = inject_spirv(module, probes, requested=lambda _: True, first_site=0, first_kernel=0)
            inserting.append(time.perf_counter() - begin)
        require(len(changed.code) > len(module), f"nothing was inserted for {tool}")
        yield Measured(f"{tool}-compile", f"compile {tool} to SPIR-V, warm", "s", tuple(compiling), bar=COMPILING_S)
        what = f"insert {tool} into a module with two kernels"
        yield Measured(f"{tool}-insert", what, "s", tuple(inserting), bar=REWRITING_S)
