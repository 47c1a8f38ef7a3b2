"""Structures that Python and C share have the same members at the same places, as the compiler lays them out."""

from __future__ import annotations

import ctypes
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from accel_magic.collecting import collector_area
from accel_magic.gpu.program import context
from accel_magic.kernel import attachment
from accel_magic.kernel.attach import stack_maps, thread_counts, waits
from accel_magic.lab.accelerator import uapi as accelerator
from accel_magic.lab.device import commands, fault_injection
from accel_magic.lab.models import protocol
from accel_magic.lab.npu import uapi as npu
from accel_magic.patching import children, library
from accel_magic.policies import model_engine

pytestmark = pytest.mark.component

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "accel_magic/lab"
KERNEL_TYPES = """
#include <stdint.h>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64; typedef int64_t s64;
"""


@dataclass(frozen=True)
class Header:
    """A C header, or the part of one that declares a structure: some include what only the kernel has."""

    path: str
    before: str = "#include <stdint.h>\n"
    alone: bool = False
    """Whether only the structure's declaration is compiled, after `before`."""

    def source(self, name: str) -> str:
        text = (ROOT / self.path).read_text("utf-8")
        if not self.alone:
            return f'{self.before}#include "{ROOT / self.path}"\n'
        start = text.index(f"struct {name} {{")
        return self.before + text[start : text.index("\n};", start) + 3]


@dataclass(frozen=True)
class Pair:
    """A structure in C, its members that Python names, and Python's layout of it."""

    header: Header
    name: str
    python: Any
    renamed: Mapping[str, str] = field(default_factory=dict)
    """C members by their names, and those in Python; only their offsets are compared."""
    only_python: frozenset[str] = frozenset()
    """Padding that Python names, and C does not."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Packed:
    """A format of `struct`, and the names of its values; a repeated code is an array."""

    format: struct.Struct
    names: str

    def members(self) -> dict[str, tuple[int, int]]:
        found, offset, names = {}, 0, iter(self.names.split())
        for count, code in re.findall(r"(\d*)([a-zA-Z])", self.format.format):
            size = struct.calcsize(f"<{count}{code}")
            if code != "x":
                found[next(names)] = offset, size
            offset += size
        assert not list(names)
        return found


ITT = Header("accel_magic/collecting/area.h", "#include <pthread.h>\n#include <stdint.h>\n")
PATCH = Header("accel_magic/patching/patch.h", "#include <stdint.h>\n")
CHILDREN = Header(
    "accel_magic/patching/children.h", f'#include "{ROOT / "accel_magic/patching/patch.h"}"\n', alone=True
)
HITS = Header("accel_magic/patching/hits.h", alone=True)
COMMON = Header("bpf/kernel/common.h", KERNEL_TYPES + "#define AM_CPUS 4\n#define AM_POINTS 8\n", alone=True)
LATENCY = Header("bpf/kernel/latency.h", KERNEL_TYPES + "#define AM_LATENCIES 4\n#define AM_BUCKETS 640\n", alone=True)
OFFCPU = Header("bpf/kernel/offcpu.h", f"{KERNEL_TYPES}#define AM_WAIT_STACKS {waits.STACKS}\n", alone=True)
STACKS = Header("bpf/kernel/stacks.h", f"{KERNEL_TYPES}#define AM_STACK_WORDS {stack_maps._words(128)}\n", alone=True)
RENDER = Header("accel_magic/lab/module/accel_lab_uapi.h", f'#include "{LAB / "accelerator/drm_calls.h"}"\n')
ACCESS = Header("accel_magic/lab/module/accel_lab_access.h", "#include <linux/types.h>\n")
NPU = Header("accel_magic/lab/npu/npu_uapi.h", "#include <stdint.h>\n#include <sys/ioctl.h>\n")
JOBS = Header("accel_magic/lab/level_zero/job_format.h")
LAYERS = Header("accel_magic/lab/level_zero/npu_api.h", alone=True)
CONTEXT = Header("bpf/gpu/accel_gpu.h", "#include <linux/types.h>\n", alone=True)
LAYOUT = attachment.RecordLayout(cpus=4, points=8, latencies=4, record_sizes=(), point_layouts=())

PAIRS = (
    Pair(COMMON, "am_record", attachment.HEAD),
    Pair(COMMON, "am_control", LAYOUT.control),
    Pair(COMMON, "am_counters", LAYOUT.counters),
    Pair(COMMON, "am_thread_point", thread_counts.KEY),
    Pair(COMMON, "am_thread_count", thread_counts.COUNT),
    Pair(LATENCY, "am_histograms", LAYOUT.histograms),
    Pair(OFFCPU, "am_wait", waits.WAIT),
    Pair(STACKS, "am_stack", stack_maps._stack(128)),
    Pair(ITT, "python_layout", collector_area.PYTHON),
    Pair(ITT, "spec", collector_area.SPEC),
    Pair(ITT, "control", collector_area.CONTROL, {"libraries": "parts", "lock": "lock"}, frozenset({"padding"})),
    Pair(ITT, "file", collector_area.FILE),
    Pair(ITT, "name", collector_area.NAME),
    Pair(ITT, "slot", collector_area.SLOT),
    Pair(ITT, "counters", collector_area.COUNTERS),
    Pair(ITT, "stack", collector_area.STACK),
    Pair(ITT, "clock", collector_area.CLOCK),
    Pair(PATCH, "fixup", library.FIXUP),
    Pair(PATCH, "recipe", library.RECIPE),
    Pair(PATCH, "request", library.REQUEST),
    Pair(PATCH, "patched_library", library.LIBRARY),
    Pair(CHILDREN, "child_header", children.HEADER),
    Pair(CHILDREN, "child_library", children.LIBRARY),
    Pair(CHILDREN, "child_function", children.FUNCTION),
    Pair(HITS, "op", library.OP),
    Pair(HITS, "point", library.POINT),
    Pair(ACCESS, "accel_lab_decision", model_engine.ACCESS),
    Pair(ACCESS, "accel_lab_decision", accelerator.DECISION),
    Pair(ACCESS, "accel_lab_counts", accelerator.Counts),
    Pair(RENDER, "accel_lab_memory", accelerator.NewMemory),
    Pair(RENDER, "accel_lab_replay", accelerator.Replay),
    Pair(
        RENDER,
        "accel_lab_fault",
        accelerator.ACCESS_OF_BUFFER,
        {f"decision.{name}": name for name in accelerator.DECISION.names or ()},
    ),
    Pair(RENDER, "accel_lab_take", accelerator.Take),
    Pair(RENDER, "accel_lab_submit", accelerator.Submit),
    Pair(RENDER, "accel_lab_job", accelerator.JOB),
    Pair(RENDER, "accel_lab_task", accelerator.Task),
    Pair(RENDER, "accel_lab_timeslice", accelerator.Timeslice),
    Pair(NPU, "npu_version", npu.Version),
    Pair(NPU, "npu_param", npu.Param),
    Pair(NPU, "npu_bo_create", npu.BoCreate),
    Pair(NPU, "npu_bo_info", npu.BoInfo),
    Pair(NPU, "npu_submit", npu.Submit),
    Pair(NPU, "npu_bo_wait", npu.BoWait),
    Pair(NPU, "npu_cmdq_create", npu.CmdqCreate),
    Pair(NPU, "npu_cmdq_destroy", npu.CmdqDestroy),
    Pair(NPU, "npu_cmdq_submit", npu.CmdqSubmit),
    Pair(NPU, "npu_gem_close", npu.GemClose),
    Pair(NPU, "npu_fault", Packed(fault_injection.JOB_REQUEST, "magic kind argument")),
    Pair(JOBS, "job_header", Packed(commands.HEADER, "magic commands bytes")),
    Pair(JOBS, "job_command", Packed(commands.COMMAND, "kind graph spans reserved")),
    Pair(JOBS, "job_span", Packed(commands.SPAN, "address size")),
    Pair(JOBS, "job_answer", Packed(commands.ANSWER, "status size")),
    Pair(JOBS, "job_graph", Packed(protocol.GRAPH, "arguments name_size")),
    Pair(
        JOBS,
        "job_argument",
        Packed(protocol.ARGUMENT, "type precision data_type rank bytes shape names text_size"),
    ),
    Pair(
        LAYERS,
        "npu_layer",
        Packed(protocol.LAYER, "name type status start_ns duration_ns id fused_id dpu_ns shave_ns dma_ns"),
    ),
    Pair(CONTEXT, "gpu_ctx", context.FIELDS),
)
"""Every pair; where a test finds one more, it belongs here."""


def python_members(layout: Any) -> tuple[dict[str, tuple[int, int]], int]:
    """Offset and size of each member, and the size of it all."""
    if isinstance(layout, np.dtype):
        fields = layout.fields or {}
        return {name: (int(one[1]), one[0].itemsize) for name, one in fields.items()}, layout.itemsize
    if isinstance(layout, Packed):
        return layout.members(), layout.format.size
    if isinstance(layout, tuple):
        return {one.name: (one.offset, one.size) for one in layout}, context.SIZE
    names = [one[0] for one in layout._fields_]
    found = {name: (getattr(layout, name).offset, getattr(layout, name).size) for name in names}
    return found, ctypes.sizeof(layout)


def printed(source: str, name: str, members: tuple[str, ...], folder: Path) -> list[int]:
    """What a C program prints: the structure's size, then each member's offset and size."""
    asked = "".join(
        f'printf("%zu %zu ", offsetof(struct {name}, {one}), sizeof(((struct {name} *)0)->{one}));\n' for one in members
    )
    main = f'int main(void) {{ printf("%zu ", sizeof(struct {name}));\n{asked}return 0; }}\n'
    text = f"#define _GNU_SOURCE\n#include <stdio.h>\n#include <stddef.h>\n{source}\n{main}"
    (folder / "main.c").write_text(text)
    command = [compiler(), f"-I{LAB / 'accelerator'}", "-o", folder / "main", folder / "main.c"]
    subprocess.run(command, check=True, capture_output=True)
    return [int(word) for word in subprocess.run(folder / "main", check=True, capture_output=True).stdout.split()]


@cache
def compiler() -> str:
    found = shutil.which("gcc") or shutil.which("clang") or shutil.which("clang-19")
    if not found:
        pytest.skip("no C compiler")
    return found


def differences(pair: Pair, source: str, folder: Path) -> list[str]:
    """What is not the same in Python and C."""
    members, size = python_members(pair.python)
    in_c = {python: c for c, python in pair.renamed.items()}
    names = tuple(name for name in members if name not in pair.only_python)
    c_size, *numbers = printed(source, pair.name, tuple(in_c.get(name, name) for name in names), folder)
    found = zip(numbers[::2], numbers[1::2], strict=True)
    wrong = [
        f"{name}: {members[name]} and {there}"
        for name, there in zip(names, found, strict=True)
        if members[name][0] != there[0] or (name not in in_c and members[name][1] != there[1])
    ]
    return wrong + ([f"size: {size} and {c_size}"] if size != c_size else [])


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_members_are_at_the_same_places_in_python_and_c(pair: Pair, tmp_path: Path) -> None:
    assert differences(pair, pair.header.source(pair.name), tmp_path) == []


def test_a_member_that_moved_in_c_is_found(tmp_path: Path) -> None:
    pair = next(one for one in PAIRS if one.name == "am_record")
    source = pair.header.source(pair.name)
    moved = source.replace("\tu32 pid;\n\tu32 tid;\n", "\tu32 tid;\n\tu32 pid;\n")
    assert moved != source
    assert differences(pair, moved, tmp_path) == ["pid: (8, 4) and (12, 4)", "tid: (12, 4) and (8, 4)"]
