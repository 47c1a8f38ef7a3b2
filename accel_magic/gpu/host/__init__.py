"""CPU programs in the objects of a GPU trace: loaded into this kernel and attached for the cell."""
