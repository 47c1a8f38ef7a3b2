"""Programs for GPUs: compiling, reading of ELF objects with BTF, and their description."""
