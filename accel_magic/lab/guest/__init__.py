"""What runs inside the lab's virtual machine."""
