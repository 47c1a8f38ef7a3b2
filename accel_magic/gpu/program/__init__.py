"""Programs for GPUs: compiled, read from ELF objects with BTF, and described."""
