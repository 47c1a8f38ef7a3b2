"""Native binaries that a traced cell starts: a preloaded library in each, and its protocol with the notebook."""
