"""What the host asks of the CUDA driver while a GPU trace runs: its calls, seen by the kernel engine."""
