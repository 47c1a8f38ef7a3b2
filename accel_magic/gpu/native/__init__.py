"""Native binaries that a traced cell starts: a library before the driver in each, and what the notebook tells it."""
