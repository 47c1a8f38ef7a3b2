"""eBPF to LLVM IR: `lower` translates a verified program to the text of an LLVM module."""

from accel_magic.gpu.codegen.lowering.module import lower, lower_all, probe_name
from accel_magic.gpu.codegen.lowering.targets import Target

__all__ = ["Target", "lower", "lower_all", "probe_name"]
