"""Injecting probes into kernels: `inject` inserts compiled programs into PTX and reports where (`report.Injection`)."""

from accel_magic.gpu.inject.inject import inject
from accel_magic.gpu.inject.report import Injection, KernelReport, Site
from accel_magic.gpu.inject.template import ProbeCode
from accel_magic.ptx.parser import parse, write

__all__ = ["Injection", "KernelReport", "ProbeCode", "Site", "inject", "parse", "write"]
