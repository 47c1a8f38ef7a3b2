"""The process that writes a dataset while its trace runs."""
