"""Arrays in a GPU's memory that all frameworks accept, using only the driver."""

from __future__ import annotations

import numpy as np


def call(function, *arguments):
    """Call the driver and return its results without the code; errors raise an exception with their name."""
    code, *values = function(*arguments)
    if int(code):
        raise RuntimeError(f"{function.__name__}: {code.name}")
    return values[0] if len(values) == 1 else values


class Array:
    """A copy of a numpy array on the GPU, freed with this object."""

    def __init__(self, host):
        from cuda.bindings import driver  # may be missing; the tests are then skipped before this is called

        host = np.ascontiguousarray(host)
        self.driver = driver
        self.shape, self.dtype, self.nbytes = host.shape, host.dtype, host.nbytes
        self.address = int(call(driver.cuMemAlloc, max(host.nbytes, 1)))
        call(driver.cuMemcpyHtoD, self.address, host.ctypes.data, host.nbytes)

    def data_ptr(self):
        """Triton's interface."""
        return self.address

    def zero_(self):
        """Called by Triton's autotuner."""
        call(self.driver.cuMemsetD8, self.address, 0, self.nbytes)

    @property
    def __cuda_array_interface__(self):
        """Numba's interface."""
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "version": 3}

    def numpy(self):
        """Wait for all launched work and copy the array back."""
        call(self.driver.cuCtxSynchronize)
        host = np.empty(self.shape, self.dtype)
        call(self.driver.cuMemcpyDtoH, host.ctypes.data, self.address, host.nbytes)
        return host

    def __del__(self):
        self.driver.cuMemFree(self.address)
