"""Arrays in a GPU's memory that every framework takes, through the driver alone."""

from __future__ import annotations

import numpy as np


def call(function, *arguments):
    """Call the driver and give what it returns beside its code; an error is an exception that names it."""
    code, *values = function(*arguments)
    if int(code):
        raise RuntimeError(f"{function.__name__}: {code.name}")
    return values[0] if len(values) == 1 else values


class Array:
    """A numpy array's copy on the GPU; what it needs of the driver's objects ends with it."""

    def __init__(self, host):
        from cuda.bindings import driver  # may be missing: then these tests are skipped, and this is not called

        host = np.ascontiguousarray(host)
        self.driver = driver
        self.shape, self.dtype, self.nbytes = host.shape, host.dtype, host.nbytes
        self.address = int(call(driver.cuMemAlloc, max(host.nbytes, 1)))
        call(driver.cuMemcpyHtoD, self.address, host.ctypes.data, host.nbytes)

    def data_ptr(self):
        """What Triton asks for."""
        return self.address

    def zero_(self):
        """What Triton's autotuner calls."""
        call(self.driver.cuMemsetD8, self.address, 0, self.nbytes)

    @property
    def __cuda_array_interface__(self):
        """What Numba asks for."""
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "version": 3}

    def numpy(self):
        """Copy it back, when all that was launched has ended."""
        call(self.driver.cuCtxSynchronize)
        host = np.empty(self.shape, self.dtype)
        call(self.driver.cuMemcpyDtoH, host.ctypes.data, self.address, host.nbytes)
        return host

    def __del__(self):
        self.driver.cuMemFree(self.address)
