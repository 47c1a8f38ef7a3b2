"""The lab's accelerator: a DRM render node with oversubscribed memory, jobs and gpu_ext's policies, and no hardware.

`Accelerator()` opens it, `attached(object)` attaches a policy, `counts` reads what the module counted itself.
The kernel module is `accel_magic/lab/module`.
"""

from accel_magic.lab.accelerator.device import Accelerator, Memory
from accel_magic.lab.accelerator.policy import AttachedPolicy, PolicyRefusedError, attached

__all__ = ["Accelerator", "AttachedPolicy", "Memory", "PolicyRefusedError", "attached"]
