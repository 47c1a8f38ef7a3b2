"""`%%flame`: CPU samples, waits and accelerator time of a cell, by stack."""
