"""Maps of GPU programs: memory layout and content."""
