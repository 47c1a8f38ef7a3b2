"""Kernels that the user goes on to hold after the cell: they stay as they are, and a traced twin runs in their place.

Programs in what the user holds would write to memory that the trace has given back. So the user's module is left alone,
a second one with programs in it is loaded beside it, and launches within the cell are of the second one's kernels.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from accel_magic.gpu.adapters import KernelSource
from accel_magic.gpu.adapters.entries import architecture, entries, variables

if TYPE_CHECKING:
    from accel_magic.gpu.adapters import Observer

OLDER: Final = "it was not compiled within the cell, and of what is loaded no PTX can be had"
GRAPH: Final = "it is recorded into a CUDA graph, which may be launched after the cell"
SHARED_LIMIT: Final = 48 << 10
"""Bytes of dynamic shared memory beyond which a kernel must be told to expect them (CUDA C++ Programming Guide)."""


def rewritten(observer: Observer, framework: str, ptx: str) -> str:
    """Give a module with programs in it; '' where there is nothing to put in, or the module can have no twin."""
    names = tuple(entries(ptx))
    if not names:
        return ""
    if shared := variables(ptx):
        for name in names:
            observer.skipped(
                name,
                f"its module has variables on the device ({', '.join(shared[:3])}), which a traced copy does not share",
            )
        return ""
    text = observer.rewrite(KernelSource(framework, names, ptx, architecture(ptx)))
    return "" if text == ptx else text


def assembled(driver: Any, text: str) -> bytes:
    """Make machine code for the current context's GPU, which may be newer than what the PTX is for.

    Not left to the driver where the user has machine code too: it may be older than the compiler, and not know its
    version of PTX.

    Raises:
        ProgramError: The assembler refuses the module.
        MachineError: There is no assembler.

    """
    from accel_magic.gpu.assemble import assemble

    given, here = architecture(text), _architecture(driver)
    return assemble(text, given if given.rstrip("af") == here or not here else here).cubin


def _architecture(driver: Any) -> str:
    """The current context's GPU as compilers name it; '' where the driver does not say."""
    kinds = driver.CUdevice_attribute
    error, device = driver.cuCtxGetDevice()
    numbers = []
    for kind in (
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    ):
        error, number = (error, 0) if int(error) else driver.cuDeviceGetAttribute(kind, device)
        numbers.append(number)
    return "" if int(error) else "sm_{}{}".format(*numbers)


def called_by(packages: tuple[str, ...]) -> bool:
    """Whether the function that asks was called from one of these packages.

    Frameworks that get imported within the cell bind what then has the names of watched functions.
    """
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(packages)  # noqa: SLF001 - nothing else tells


def recorded(driver: Any, stream: int) -> bool:
    """Whether launches into this stream are recorded into a graph instead of run."""
    error, status = driver.cuStreamIsCapturing(driver.CUstream(stream))
    return not int(error) and int(status) != int(driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


def allow_shared(driver: Any, kernel: Any, size: int) -> None:
    """Let a twin have as much dynamic shared memory as its launch asks for, as the user did with the kernel itself."""
    if size <= SHARED_LIMIT:
        return
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if isinstance(kernel, driver.CUkernel):
        driver.cuKernelSetAttribute(attribute, size, kernel, driver.cuCtxGetDevice()[1])
    else:
        driver.cuFuncSetAttribute(kernel, attribute, size)
