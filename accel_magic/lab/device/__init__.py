"""The emulated NPU: a Meteor Lake NPU (Intel 37xx, PCI 8086:7d1d) as a vfio-user server, in a process of its own.

`python -m accel_magic.lab.device --socket PATH` serves one QEMU. Standard library only. Names, offsets and layouts come
from the public Linux driver (drivers/accel/ivpu); each module names its source. Commands of a job are not executed:
the model is about the path to the device and back, not about its results.

Nothing here trusts the guest. What the guest does wrong raises `GuestFault`, which is counted, logged at a bounded
rate and forgotten; each access does a bounded amount of work, and only memory that QEMU shared is ever touched.
"""
