"""The preset `cuda` agrees with CUDA's own header on each call, if the header is installed (Triton includes it)."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from accel_magic.probes import captures, grammar
from accel_magic.subsystems.host_api import cuda

WORDS = {
    "bytes": r"ByteCount|bytesize|\bsize\b|\bN\b|\bcount\b|Width|WidthInBytes|pPitch",
    "rows": r"Height",
    "stream": r"CUstream \w*[sS]tream",
    "event": r"CUevent hEvent",
    "address": r"\*?d?ptr|\*pp?|dptr|\bhandle\b",
    "handle": r"CUfunction \*?\w+|CUkernel \*pKernel",
    "of": r"CUkernel kernel",
    "kernel": r"const char \*name",
    "shared_bytes": r"sharedMemBytes",
    **{f"{part}_{axis.lower()}": rf"{part}Dim{axis}" for part in ("grid", "block") for axis in "XYZ"},
}
"""The header's parameter name for each column."""


@pytest.fixture(scope="module")
def header():
    found = importlib.util.find_spec("triton")
    path = Path(found.origin).parent / "backends/nvidia/include/cuda.h" if found else None
    if path is None or not path.exists():
        pytest.skip("cuda.h comes with Triton")
    return path.read_text()


def prototypes(header, name):
    """Parameters of each declaration of a function, newest first: the header maps the plain name to the newest."""
    found = re.findall(rf"CUresult\s+CUDAAPI\s+{name}(?:_v\d)?(?:_pt[ds][sz])?\s*\(([^)]*)\)", header)
    return [[re.sub(r"\s+", " ", part).strip() for part in text.split(",")] for text in found]


@pytest.mark.parametrize("call", cuda.CALLS, ids=lambda call: call.name)
def test_arguments_agree_with_the_header(header, call):
    newest, *_ = prototypes(header, call.name)

    columns = [column for column in captures.parse(call.captures) if column.offset is None or column.at_return]
    for column in columns:
        assert re.search(WORDS[column.name], newest[int(column.source[3:])]), (column, newest)
    assert ("stream" in {column.name for column in captures.parse(call.captures)}) == any(
        "CUstream " in text or "CUlaunchConfig " in text for text in newest
    )


@pytest.mark.parametrize("call", [call for call in cuda.CALLS if call.older], ids=lambda call: call.name)
def test_arguments_of_older_versions_agree_with_the_header(header, call):
    _, *older = prototypes(header, call.name)
    if not older:
        pytest.skip("this header has only the newest")

    for column in captures.parse(call.older):
        text = older[0][int(column.source[3:])]
        assert re.search(WORDS[column.name], text), (column, older)
        assert (column.type == "u32") == (text.startswith(("unsigned int", "CUdeviceptr_v1")))


def test_struct_offsets_agree_with_a_compiler(header, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    flat = {"from": "srcMemoryType", "to": "dstMemoryType", "bytes": "WidthInBytes", "rows": "Height"}
    fields = {
        ("cuLaunchKernelEx", "CUlaunchConfig"): {
            **{f"{part}_{axis.lower()}": f"{part}Dim{axis}" for part in ("grid", "block") for axis in "XYZ"},
            "shared_bytes": "sharedMemBytes",
            "stream": "hStream",
        },
        ("cuMemcpy2D", "CUDA_MEMCPY2D"): flat,
        ("cuMemcpy3DPeer", "CUDA_MEMCPY3D_PEER"): flat | {"layers": "Depth"},
        ("cuMemcpy3D", "CUDA_MEMCPY3D"): flat | {"layers": "Depth"},
    }
    lines = [
        f'printf("%zu\\n", offsetof({struct}, {field}));' for (_, struct), of in fields.items() for field in of.values()
    ]
    (tmp_path / "cuda.h").write_text(header)
    source = f'#include <stddef.h>\n#include <stdio.h>\n#include "cuda.h"\nint main(void) {{ {"".join(lines)} }}\n'
    (tmp_path / "offsets.c").write_text(source)
    subprocess.run([compiler, "-o", tmp_path / "offsets", tmp_path / "offsets.c"], check=True)
    offsets = iter(subprocess.check_output([tmp_path / "offsets"], text=True).split())

    calls = {call.name: call for call in cuda.CALLS}
    for (name, _), of in fields.items():
        read = {column.name: column.offset for column in captures.parse(calls[name].captures)}
        assert {column: read[column] for column in of} == {column: int(next(offsets)) for column in of}


def test_every_entry_point_has_its_own_probe_and_maps_to_its_call():
    symbols = [probe.spec.rpartition(":")[2] for probe in cuda.PRESET.probes]

    assert len(symbols) == len(set(symbols)) > 150
    assert len(grammar.parse_all(["cuda"])) == len(symbols)
    for symbol, name, own in (
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD", False),
        ("cuMemcpyHtoD", "cuMemcpyHtoD", False),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD", True),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", True),
        ("cuLaunchKernel_ptsz", "cuLaunchKernel", True),
        ("cuMemPrefetchAsync_ptsz", "cuMemPrefetchAsync", True),
    ):
        assert symbol in symbols
        assert (cuda.call_of(symbol).name, cuda.has_own_stream(symbol)) == (name, own)
