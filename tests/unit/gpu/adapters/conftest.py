from __future__ import annotations

import re

import pytest


class Recorder:
    """An observer that records everything, and rewrites PTX with a function."""

    def __init__(self, change=lambda ptx: ptx):
        self.change = change
        self.sources = []
        self.events = []
        self.skips = {}

    def rewrite(self, kernel):
        self.sources.append(kernel)
        return self.change(kernel.code)

    def launching(self, launch):
        self.events.append(("launching", launch))

    def launched(self, launch):
        self.events.append(("launched", launch))

    def skipped(self, name, reason):
        self.skips[name] = reason

    @property
    def launches(self):
        return [launch for when, launch in self.events if when == "launched"]


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def altering():
    """An observer that changes results: sums of 32-bit floats lose their second or fused addend."""

    def alter(ptx):
        ptx = re.sub(r"\bfma(\.rn(?:\.ftz)?\.f32\s+[^,]+,[^,]+,[^,]+), [^;]+;", r"fma\1, 0f00000000;", ptx)
        return re.sub(r"\badd((?:\.rn)?(?:\.ftz)?\.f32\s+[^,]+,[^,]+), [^;]+;", r"add\1, 0f00000000;", ptx)

    return Recorder(alter)


@pytest.fixture
def device():
    from accel_magic.devices.sim import SimulatedDevice

    return SimulatedDevice()
