"""eBPF to LLVM IR: `lower` translates a verified program to the text of an LLVM module."""

from accel_magic.gpu.codegen.lowering.backend_targets import BackendTarget
from accel_magic.gpu.codegen.lowering.module import lower, lower_all, probe_name

__all__ = ["BackendTarget", "lower", "lower_all", "probe_name"]
