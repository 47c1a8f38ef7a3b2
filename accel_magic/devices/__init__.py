"""Devices that run GPU kernels: NVIDIA GPUs, the simulated device, and a mock CUDA driver."""
