"""Symbol names for stacks recorded by the kernel."""
