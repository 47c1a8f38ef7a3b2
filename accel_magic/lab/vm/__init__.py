"""One running lab: QEMU, the connection to its guest, and the process that ends both."""
