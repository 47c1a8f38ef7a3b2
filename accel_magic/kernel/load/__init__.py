"""From a plan to programs in the kernel: the generated C, relocation, maps."""
