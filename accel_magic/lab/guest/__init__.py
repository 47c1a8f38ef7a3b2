"""Programs that run inside the lab's virtual machine."""

LISTENING = b"accel_magic: the kernel listens\n"
"""Written to standard output by the notebook's kernel (`accel_magic.magics.lab_kernel`) once it accepts connections."""
