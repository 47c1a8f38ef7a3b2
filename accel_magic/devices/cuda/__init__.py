"""NVIDIA GPUs through the CUDA driver library: memory for maps, and GPU-to-host clock conversion."""
