"""eBPF inside GPU kernels: programs, verifier, code generation, injection into PTX, adapters of frameworks."""
