"""A device, and a fixture that runs the samples' kernels on numpy arrays."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice

SAMPLES = Path(__file__).parent / "samples"


@cache
def text(sample):
    return (SAMPLES / f"{sample}.ptx").read_text()


class Bench:
    """Runs kernels: arrays are copied to the device, and their contents after the kernel are returned."""

    def __init__(self, **options):
        self.device = SimulatedDevice(1 << 26, **options)
        self.modules = {}
        self.launch = None

    def module(self, sample):
        if sample not in self.modules:
            self.modules[sample] = self.device.load(text(sample))
        return self.modules[sample]

    def run(self, sample, kernel, grid, block, *arguments, shared=0):
        return self.run_module(self.module(sample), kernel, grid, block, *arguments, shared=shared)

    def run_module(self, module, kernel, grid, block, *arguments, shared=0):
        given, arrays = [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                address = self.device.allocate(max(argument.nbytes, 1))
                self.device.copy_in(address, argument)
                arrays.append((argument, address))
                given.append(address)
            else:
                given.append(argument)
        try:
            self.launch = self.device.launch(module, kernel, grid, block, given, shared)
            return [
                self.device.copy_out(address, array.nbytes).view(array.dtype).reshape(array.shape)
                for array, address in arrays
            ]
        finally:
            for _, address in arrays:
                self.device.free(address)


@pytest.fixture
def bench():
    return Bench()
