"""What runs inside the lab's virtual machine."""

LISTENING = b"accel_magic: the kernel listens\n"
"""What the notebook's kernel (`accel_magic.magics.lab_kernel`) writes to its standard output once it can be reached."""
