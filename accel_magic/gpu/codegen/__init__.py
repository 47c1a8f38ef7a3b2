"""From eBPF to LLVM IR and PTX."""
