"""Files of accel_magic and of other tools: what a file is, and what reads it."""
