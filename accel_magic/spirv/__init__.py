"""Reading, changing and writing SPIR-V, the code in which OpenCL and Level Zero take kernels (Khronos, SPIR-V 1.6)."""
