"""Records in ring buffers: their C layout, and decoding them to data frames."""
