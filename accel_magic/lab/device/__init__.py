"""The emulated NPU: a Meteor Lake NPU (Intel 37xx, PCI 8086:7d1d) as a vfio-user server in a separate process.

`python -m accel_magic.lab.device --socket PATH` serves one QEMU. Standard library only. Names, offsets and layouts come
from the public Linux driver (drivers/accel/ivpu); each module names its source. The commands of a job are not executed:
the model covers the path to the device and back, not the results.

The guest is not trusted. An invalid operation of the guest raises `GuestFault`, which is counted and logged at a
bounded rate, and has no other effect. Each access does a bounded amount of work, and uses only memory shared by QEMU.
"""
