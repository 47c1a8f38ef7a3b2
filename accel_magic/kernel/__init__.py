"""The live kernel: BCC, programs, attaching, and kernel features."""
