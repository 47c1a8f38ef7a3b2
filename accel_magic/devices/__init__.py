"""What GPU kernels run on: NVIDIA GPUs, the simulated device, and a stand-in for the CUDA driver."""
