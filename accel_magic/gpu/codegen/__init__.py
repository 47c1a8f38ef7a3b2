"""Code generation: eBPF to LLVM IR and PTX."""
