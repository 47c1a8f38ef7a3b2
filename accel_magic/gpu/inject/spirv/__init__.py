"""Injecting probes into the kernels of SPIR-V modules: calls of programs that are merged into the module."""

from accel_magic.gpu.inject.spirv.spirv_injection import inject_spirv

__all__ = ["inject_spirv"]
