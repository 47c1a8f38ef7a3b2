"""One running lab: QEMU, the connection to its guest, and the keeper process that ends them."""
