"""Maps of GPU programs: where they lie in memory, and what they hold."""
