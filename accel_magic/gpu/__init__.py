"""eBPF inside GPU kernels: programs, the verifier, code generation, injection into PTX, and where kernels come from."""
