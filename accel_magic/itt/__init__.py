"""Tasks of libraries built with Intel's ITT API: the collector (C), and the memory it shares with this process."""
