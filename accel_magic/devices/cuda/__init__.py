"""NVIDIA GPUs through the CUDA driver's own library: memory for maps, and the GPU's clock on the host's."""
