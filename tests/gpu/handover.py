"""Hand PTX to the mock CUDA driver, which cannot run machine code, whenever a framework assembles a cubin from it.

Nothing here is used on a GPU.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import sys
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest import mock

from accel_magic.devices import mock_cuda
from accel_magic.devices.mock_cuda import library_build
from accel_magic.gpu.codegen import assemble

CLOCK = mock_cuda.DriverOptions(clock_offset_ns=7_000_000_000, clock_drift=20e-6)
"""The clock has an offset and runs fast, so that traces must map it."""


def mock_cuda_driver():
    """Make the mock CUDA driver this process's driver until the process ends, when frameworks free their last objects.

    Returns the environment variables with which child processes find it.
    """
    # Threads of this process serve the driver's calls: a finalizer in such a thread would call the driver and hang.
    gc.disable()
    stack = ExitStack()
    atexit.register(stack.close)
    server = stack.enter_context(mock_cuda.driver(options=CLOCK))
    stack.enter_context(_assembling(server))
    for module, hand_over in (("triton", _triton), ("numba.cuda", _numba)):
        with contextlib.suppress(ImportError):
            import_module(module)
            stack.enter_context(hand_over(server))
    return mock_cuda.environment(server)


@contextmanager
def _assembling(server):
    """Wrap our own assembler, used for instrumented kernels of cuda.core, CuPy and NVRTC."""
    own = assemble.assemble

    def assembled(text, arch):
        made = own(text, arch)
        server.known_cubin(made.cubin, text)
        return made

    with mock.patch.object(assemble, "assemble", assembled):
        yield


@contextmanager
def _triton(server):
    """Wrap Triton's last stage, whose input is the PTX, instrumented if there are programs."""
    import triton

    before = triton.knobs.runtime.add_stages_inspection_hook

    def hook(backend=None, stages=None, *rest):
        if stages is None:
            return "mock_cuda", "mock_cuda"
        if before is not None:
            before(backend, stages, *rest)
        own = stages["cubin"]

        def cubin(ptx, metadata):
            made = own(ptx, metadata)
            server.known_cubin(made, ptx)
            return made

        stages["cubin"] = cubin
        return None

    values = vars(triton.knobs.nvidia)
    values["libcuda_path"] = str(library_build.library().parent)
    with mock.patch.object(triton.knobs.runtime, "add_stages_inspection_hook", hook):
        yield
    values.pop("libcuda_path")


@contextmanager
def _numba(server):
    """Wrap Numba's linker, which takes PTX, or generates it from LTO-IR on request."""
    driver = sys.modules["numba.cuda"].cudadrv.driver

    class Linker(driver._Linker):
        def complete(self):
            made = super().complete()
            texts = [one.code.decode() for one in self._object_codes if one.code_type == "ptx"]
            if not texts:
                again = driver._Linker(max_registers=self.max_registers, cc=self.cc, lto=self.lto)
                again._object_codes, again._has_ltoir = self._object_codes, self._has_ltoir
                texts = [again.get_linked_ptx().decode()]
            server.known_cubin(bytes(made.code), texts[0].rstrip("\0"))
            return made

    with mock.patch.object(driver, "_Linker", Linker):
        yield
