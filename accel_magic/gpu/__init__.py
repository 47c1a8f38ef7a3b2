"""eBPF inside GPU kernels: the front end, the verifier, the lowering to PTX, the injection, and a simulated device."""
