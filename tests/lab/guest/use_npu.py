"""Uses the NPU through two open devices and prints all arguments and results.

`{"devices": [{"params", "buffers": [[size, flags, handle, address, pages], ...], "queue", "status", "ioctls"}, ...]}`.
Each device creates the same buffers, fails to create one, submits the first two as a job with a priority, and waits.
"""

import json
import sys

from accel_magic.lab.npu.device import Device, IoctlError
from accel_magic.lab.npu.uapi import BufferFlags

MADE = [
    (12345, BufferFlags.MAPPABLE),
    (5 * 4096, BufferFlags.SHAVE_MEM | BufferFlags.MAPPABLE),
    (4096, BufferFlags.WC),
]
REFUSED = 1 << 62


def use(device, priority):
    params = device.params()
    queue = device.create_queue(priority) if params["cap_manage_cmdq"] else None
    buffers = [device.create_buffer(size, flags) for size, flags in MADE]
    try:
        device.create_buffer(REFUSED)
        sys.exit("a buffer of that size was made")
    except IoctlError:
        pass
    record = [
        [size, int(flags), buffer.handle, buffer.address, buffer.size // 4096]
        for (size, flags), buffer in zip(MADE, buffers, strict=True)
    ]
    device.submit(buffers[:2], queue, priority)
    status = device.wait(buffers[0])
    number = queue.id if queue else None
    for thing in (queue, *buffers):
        if thing:
            thing.close()
    return {
        "params": params,
        "buffers": record,
        "queue": number,
        "status": status,
        "ioctls": device.counts.to_dict(),
    }


def main():
    with Device() as one, Device() as other:
        print(json.dumps({"devices": [use(one, "focus"), use(other, "idle")]}))


if __name__ == "__main__":
    main()
