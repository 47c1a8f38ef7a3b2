"""Records in ring buffers: their layout in C, and the frames they become."""
