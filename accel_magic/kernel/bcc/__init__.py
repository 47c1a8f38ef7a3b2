"""BCC in its own process: finding it, starting it, confining it."""
