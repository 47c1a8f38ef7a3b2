"""The CUDA driver API calls that show what a program requests from a GPU: launches, copies, memory, waits, code.

Arguments and struct layouts are those of `cuda.h` (CUDA 11 to 13). A call has several entry points in the library:
newer versions (`_v2`; the plain name is then mostly the one from before CUDA 3.2, with 32-bit sizes), and entry
points for programs compiled with per-thread default streams (`_ptsz` if the call takes a stream, `_ptds` otherwise).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from accel_magic.probes.presets import Preset, PresetProbe

NAME: Final = "cuda"
LIBRARY: Final = "libcuda.so.1"
INSTALL: Final = MappingProxyType({LIBRARY: "install NVIDIA's driver, which includes the library"})


@dataclass(frozen=True)
class CudaCall:
    """One call of the driver API.

    Attributes:
        name: As in the documentation.
        kind: Category; `cuda:KIND` is the preset's part.
        captures: Its columns.
        version: Suffix of the newest version in the library.
        older: Columns of the older version, which has the plain name; None if there is none.
        own: Suffix of the entry points for per-thread default streams; '' if there are none.
        direction: Of a copy between `H`ost, `D`evice and `A`rray, e.g. HtoD; '' if the call's arguments determine it.
        unit: Number of bytes per unit of `bytes`.

    """

    name: str
    kind: str
    captures: str = ""
    version: str = ""
    older: str | None = None
    own: str = ""
    direction: str = ""
    unit: int = 1

    @property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """Symbols that the library may have for the call, with their columns, newest first."""
        versions = [(self.version, self.captures)] + ([] if self.older is None else [("", self.older)])
        suffixes = ("", self.own) if self.own else ("",)
        return tuple((f"{self.name}{version}{suffix}", args) for version, args in versions for suffix in suffixes)


_SHAPE = ",".join(
    f"{part}_{axis}=arg{1 + 3 * at + place}:u32"
    for at, part in enumerate(("grid", "block"))
    for place, axis in enumerate("xyz")
)
_CONFIG = ",".join(
    f"{part}_{axis}=arg0[{12 * at + 4 * place}]:u32"
    for at, part in enumerate(("grid", "block"))
    for place, axis in enumerate("xyz")
)
_LAUNCH = f"handle=arg0:u64,{_SHAPE},shared_bytes=arg7:u32,stream=arg8:u64"
_LAUNCH_EX = f"handle=arg1:u64,{_CONFIG},shared_bytes=arg0[24]:u32,stream=arg0[32]:u64"
# CUDA_MEMCPY2D and CUDA_MEMCPY3D; the struct of a peer copy has these fields at the same offsets.
_COPY_2D = "from=arg0[16]:u32,to=arg0[72]:u32,bytes=arg0[112]:u64,rows=arg0[120]:u64"
_COPY_3D = "from=arg0[32]:u32,to=arg0[120]:u32,bytes=arg0[176]:u64,rows=arg0[184]:u64,layers=arg0[192]:u64"
_POINTER = "address=arg0[0]:u64@return"
_FOUND = "handle=arg0[0]:u64@return,kernel=arg2:str"


def _copies() -> tuple[CudaCall, ...]:
    """One-dimensional copies. Arguments: destination and source (an array takes two arguments each), then the size."""
    calls = []
    for direction in ("HtoD", "DtoH", "DtoD", "DtoA", "AtoD", "HtoA", "AtoH", "AtoA"):
        at = 2 + direction.count("A")
        size, old = f"bytes=arg{at}:u64", f"bytes=arg{at}:u32"
        stream = f",stream=arg{at + 1}:u64"
        name = f"cuMemcpy{direction}"
        calls.append(CudaCall(name, "copy", size, "_v2", old, "_ptds", direction))
        if direction in ("HtoD", "DtoH", "DtoD", "HtoA", "AtoH"):
            calls.append(CudaCall(f"{name}Async", "copy", size + stream, "_v2", old + stream, "_ptsz", direction))
    return tuple(calls)


def _memsets() -> tuple[CudaCall, ...]:
    calls = []
    for bits in (8, 16, 32):
        flat, tall = "bytes=arg2:u64", "bytes=arg3:u64,rows=arg4:u64"
        for name, size, at in ((f"cuMemsetD{bits}", flat, 3), (f"cuMemsetD2D{bits}", tall, 5)):
            old = size.replace("u64", "u32")
            calls += [
                CudaCall(name, "memset", size, "_v2", old, "_ptds", unit=bits // 8),
                CudaCall(f"{name}Async", "memset", f"{size},stream=arg{at}:u64", own="_ptsz", unit=bits // 8),
            ]
    return tuple(calls)


CALLS: Final[tuple[CudaCall, ...]] = (
    CudaCall("cuLaunchKernel", "launch", _LAUNCH, own="_ptsz"),
    CudaCall("cuLaunchKernelEx", "launch", _LAUNCH_EX, own="_ptsz"),
    CudaCall("cuLaunchCooperativeKernel", "launch", _LAUNCH, own="_ptsz"),
    CudaCall("cuGraphLaunch", "launch", "stream=arg1:u64", own="_ptsz"),
    *_copies(),
    CudaCall("cuMemcpy", "copy", "bytes=arg2:u64", own="_ptds"),
    CudaCall("cuMemcpyAsync", "copy", "bytes=arg2:u64,stream=arg3:u64", own="_ptsz"),
    CudaCall("cuMemcpyPeer", "copy", "bytes=arg4:u64", own="_ptds", direction="DtoD"),
    CudaCall("cuMemcpyPeerAsync", "copy", "bytes=arg4:u64,stream=arg5:u64", own="_ptsz", direction="DtoD"),
    CudaCall("cuMemcpy2D", "copy", _COPY_2D, "_v2", "", "_ptds"),
    CudaCall("cuMemcpy2DUnaligned", "copy", _COPY_2D, "_v2", "", "_ptds"),
    CudaCall("cuMemcpy2DAsync", "copy", f"{_COPY_2D},stream=arg1:u64", "_v2", "stream=arg1:u64", "_ptsz"),
    CudaCall("cuMemcpy3D", "copy", _COPY_3D, "_v2", "", "_ptds"),
    CudaCall("cuMemcpy3DAsync", "copy", f"{_COPY_3D},stream=arg1:u64", "_v2", "stream=arg1:u64", "_ptsz"),
    CudaCall("cuMemcpy3DPeer", "copy", _COPY_3D, own="_ptds"),
    CudaCall("cuMemcpy3DPeerAsync", "copy", f"{_COPY_3D},stream=arg1:u64", own="_ptsz"),
    CudaCall("cuMemcpyBatchAsync", "copy", "stream=arg7:u64", "_v2", "stream=arg8:u64", "_ptsz"),
    CudaCall("cuMemPrefetchAsync", "copy", "bytes=arg1:u64,stream=arg4:u64", "_v2", "bytes=arg1:u64,stream=arg3:u64",
            "_ptsz"),
    *_memsets(),
    CudaCall("cuMemAlloc", "alloc", f"{_POINTER},bytes=arg1:u64", "_v2", "bytes=arg1:u32"),
    CudaCall("cuMemAllocPitch", "alloc", f"{_POINTER},bytes=arg1[0]:u64@return,rows=arg3:u64", "_v2", ""),
    CudaCall("cuMemAllocManaged", "alloc", f"{_POINTER},bytes=arg1:u64"),
    CudaCall("cuMemAllocAsync", "alloc", f"{_POINTER},bytes=arg1:u64,stream=arg2:u64", own="_ptsz"),
    CudaCall("cuMemAllocFromPoolAsync", "alloc", f"{_POINTER},bytes=arg1:u64,stream=arg3:u64", own="_ptsz"),
    CudaCall("cuMemAllocHost", "alloc", f"{_POINTER},bytes=arg1:u64", "_v2", "bytes=arg1:u32"),
    CudaCall("cuMemHostAlloc", "alloc", f"{_POINTER},bytes=arg1:u64"),
    CudaCall("cuMemHostRegister", "alloc", "address=arg0:u64,bytes=arg1:u64", "_v2", "address=arg0:u64,bytes=arg1:u64"),
    CudaCall("cuMemCreate", "alloc", f"{_POINTER},bytes=arg1:u64"),
    CudaCall("cuMemFree", "free", "address=arg0:u64", "_v2", "address=arg0:u32"),
    CudaCall("cuMemFreeAsync", "free", "address=arg0:u64,stream=arg1:u64", own="_ptsz"),
    CudaCall("cuMemFreeHost", "free", "address=arg0:u64"),
    CudaCall("cuMemHostUnregister", "free", "address=arg0:u64"),
    CudaCall("cuMemRelease", "free", "address=arg0:u64"),
    CudaCall("cuCtxSynchronize", "sync", version="_v2", older=""),
    CudaCall("cuStreamSynchronize", "sync", "stream=arg0:u64", own="_ptsz"),
    CudaCall("cuEventSynchronize", "sync", "event=arg0:u64"),
    CudaCall("cuEventRecord", "event", "event=arg0:u64,stream=arg1:u64", own="_ptsz"),
    CudaCall("cuEventRecordWithFlags", "event", "event=arg0:u64,stream=arg1:u64", own="_ptsz"),
    CudaCall("cuStreamWaitEvent", "event", "event=arg1:u64,stream=arg0:u64", own="_ptsz"),
    CudaCall("cuEventQuery", "poll", "event=arg0:u64"),
    CudaCall("cuStreamQuery", "poll", "stream=arg0:u64", own="_ptsz"),
    CudaCall("cuCtxDestroy", "context", version="_v2", older=""),
    CudaCall("cuDevicePrimaryCtxReset", "context", version="_v2", older=""),
    CudaCall("cuModuleLoad", "module"),
    CudaCall("cuModuleLoadData", "module"),
    CudaCall("cuModuleLoadDataEx", "module"),
    CudaCall("cuModuleLoadFatBinary", "module"),
    CudaCall("cuModuleUnload", "module"),
    CudaCall("cuModuleGetFunction", "module", _FOUND),
    CudaCall("cuLibraryLoadData", "module"),
    CudaCall("cuLibraryLoadFromFile", "module"),
    CudaCall("cuLibraryUnload", "module"),
    CudaCall("cuLibraryGetKernel", "module", _FOUND),
    CudaCall("cuKernelGetFunction", "module", "handle=arg0[0]:u64@return,of=arg1:u64"),
)  # fmt: skip
"""The calls, by category."""

_ENTRIES: Final = {symbol: call for call in CALLS for symbol, _ in call.entries}
_OWN_STREAM = re.compile(r"_pt[ds][sz]$")


def call_of(symbol: str) -> CudaCall:
    """Find the API call that a library symbol implements. Raises KeyError if there is none."""
    return _ENTRIES[symbol]


def has_own_stream(symbol: str) -> bool:
    """Whether this entry point uses the per-thread default stream."""
    return _OWN_STREAM.search(symbol) is not None


PRESET: Final = Preset(
    name=NAME,
    probes=tuple(
        PresetProbe(f"{NAME}:{call.kind}", f"latency:uprobe:{LIBRARY}:{symbol}", captures, group="the CUDA driver")
        for call in CALLS
        for symbol, captures in call.entries
    ),
    install=INSTALL,
    for_users=True,
)
"""Entry points missing from a driver cannot be called, so none of the probes is required."""
