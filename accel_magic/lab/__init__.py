"""The NPU lab: Debian's unmodified intel_vpu driver on an emulated NPU, in a small virtual machine."""
