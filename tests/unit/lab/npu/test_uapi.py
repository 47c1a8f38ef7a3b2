"""The loads' definitions of the driver's interface, compared with numbers from the kernel's headers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.lab import npu
from accel_magic.lab.npu import uapi

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

# The kernel's ABI, from its own headers (linux-libc-dev 6.12 and 7.2): request, size, offsets.
ABI = {
    "VERSION": (0xC0406400, 64, {"name_size": 16, "name": 24, "date": 40, "description_size": 48, "description": 56}),
    "GET_PARAM": (0xC0106440, 16, {"param": 0, "index": 4, "value": 8}),
    "BO_CREATE": (0xC0186442, 24, {"size": 0, "flags": 8, "handle": 12, "address": 16}),
    "BO_INFO": (0xC0206443, 32, {"handle": 0, "flags": 4, "address": 8, "mmap_offset": 16, "size": 24}),
    "SUBMIT": (
        0x40206445,
        32,
        {"buffers": 0, "buffer_count": 8, "engine": 12, "flags": 16, "commands_offset": 20, "priority": 24},
    ),
    "BO_WAIT": (0xC0186446, 24, {"handle": 0, "flags": 4, "deadline_ns": 8, "job_status": 16}),
    "CMDQ_CREATE": (0xC00C644B, 12, {"queue": 0, "priority": 4, "flags": 8}),
    "CMDQ_DESTROY": (0x4004644C, 4, {"queue": 0}),
    "CMDQ_SUBMIT": (
        0x4020644D,
        32,
        {"buffers": 0, "buffer_count": 8, "queue": 12, "commands_offset": 20, "preempt_buffer_index": 24},
    ),
    "GEM_CLOSE": (0x40086409, 8, {"handle": 0}),
}
STRUCTURES = {
    "VERSION": uapi.Version,
    "GET_PARAM": uapi.Param,
    "BO_CREATE": uapi.BoCreate,
    "BO_INFO": uapi.BoInfo,
    "SUBMIT": uapi.Submit,
    "BO_WAIT": uapi.BoWait,
    "CMDQ_CREATE": uapi.CmdqCreate,
    "CMDQ_DESTROY": uapi.CmdqDestroy,
    "CMDQ_SUBMIT": uapi.CmdqSubmit,
    "GEM_CLOSE": uapi.GemClose,
}


@pytest.mark.parametrize("name", ABI)
def test_structures_and_requests_match_the_kernel(name):
    request, size, offsets = ABI[name]
    structure = STRUCTURES[name]

    assert ctypes.sizeof(structure) == size
    assert {field: getattr(structure, field).offset for field in offsets} == offsets
    assert {call.name: call.request for call in uapi.CALLS}[name] == request


@needs_compiler
def test_the_c_header_matches_the_kernel(tmp_path):
    checks = []
    for name, (request, size, offsets) in ABI.items():
        structure = "npu_" + ("param" if name == "GET_PARAM" else name.lower())
        checks.append(f'_Static_assert(NPU_IOCTL_{name} == {request:#x}, "{name}");')
        checks.append(f'_Static_assert(sizeof(struct {structure}) == {size}, "{name}");')
        checks += [
            f'_Static_assert(offsetof(struct {structure}, {field}) == {offset}, "{name}.{field}");'
            for field, offset in offsets.items()
        ]
    source = tmp_path / "check.c"
    source.write_text('#include <stddef.h>\n#include "npu_uapi.h"\n' + "\n".join(checks))

    done = subprocess.run(
        [COMPILER, "-std=gnu11", "-fsyntax-only", "-I", Path(npu.__file__).parent, source],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_importing_the_loads_imports_neither_pandas_nor_numpy():
    code = (
        "import sys, accel_magic.lab.npu as npu; npu.load, npu.Device, npu.request_fault, npu.compile_load;"
        "import accel_magic.lab.npu.loads; print({'pandas', 'numpy', 'IPython'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
