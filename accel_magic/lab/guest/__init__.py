"""Programs that run inside the lab's virtual machine."""

LISTENING = b"accel_magic: the kernel listens\n"
"""Written to standard output by the notebook's kernel (`accel_magic.magics.lab_kernel`) once it accepts connections."""
WAITING = b"accel_magic: the kernel waits\n"
"""Written by the kernel of a snapshot (`accel_magic.magics.lab_kernel --wait`) once it waits for what it becomes."""
