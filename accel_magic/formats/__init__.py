"""Files of other tools: deciding what a file is, reading and writing it."""
