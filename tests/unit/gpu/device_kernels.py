"""Kernels that call the device's helpers with arguments for each thread, run on the simulated device."""

import numpy as np

from accel_magic.devices.sim import SimulatedDevice
from accel_magic.gpu.maps import map_layout
from accel_magic.ptx import llvm
from tests.unit.gpu.device_host import GPU_HELPERS, PID_TGID, UNLIMITED, compiled, constants

ROW = 6
"""Numbers for each thread: whether it calls, and five arguments."""


def kernel(helper, handle):
    """IR of a kernel: threads whose first number is not zero call the helper and store the result there.

    `handle` is the number of the map that the program knows, for r1; None to take that from the row too.
    """
    lines = [
        f"define ptx_kernel void @helper_{helper}(ptr addrspace(1) %rows) {{",
        "  %thread = call i64 @accel_helper_607(i64 0, i64 0, i64 0, i64 0, i64 0)",
        f"  %row = getelementptr [{ROW} x i64], ptr addrspace(1) %rows, i64 %thread",
        "  %calls = load i64, ptr addrspace(1) %row",
        "  %is = icmp ne i64 %calls, 0",
        "  br i1 %is, label %call, label %done",
        "call:",
    ]
    for place in range(5):
        lines += [
            f"  %at{place} = getelementptr i64, ptr addrspace(1) %row, i64 {place + 1}",
            f"  %a{place} = load i64, ptr addrspace(1) %at{place}",
        ]
    first = "%a0" if handle is None else str(handle)
    lines += [
        f"  %r = call i64 @accel_helper_{helper}(i64 {first}, i64 %a1, i64 %a2, i64 %a3, i64 %a4)",
        "  store i64 %r, ptr addrspace(1) %row",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def ptx_of_kernels(specs, placed, arch, *, maps=None, helpers=tuple(GPU_HELPERS)):
    """PTX with a kernel `helper_N` for each helper; `maps` says which map some of them know, by helper."""
    binding = llvm.binding()
    machine = binding.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=arch, opt=3)
    declared = "\n".join(f"declare i64 @accel_helper_{helper}(i64, i64, i64, i64, i64)" for helper in GPU_HELPERS)
    kernels = "\n".join(kernel(helper, (maps or {}).get(helper)) for helper in helpers)
    text = "\n".join([constants(specs, placed), declared, kernels])
    names = {f"helper_{helper}" for helper in helpers}
    return machine.emit_assembly(compiled(text, "nvptx64", machine, 3, keep=names))


class Simulated:
    """Maps on the simulated device and kernels that call helpers."""

    def __init__(self, *specs, threads, helpers=tuple(GPU_HELPERS)):
        self.specs, self.threads = specs, threads
        self.device = SimulatedDevice(memory_bytes=1 << 26)
        self.plan = map_layout.plan_memory(specs, threads, limit=UNLIMITED)
        self._bases = {
            "device": self.device.allocate(self.plan.device_bytes),
            "host": self.device.allocate(self.plan.host_bytes),
        }
        placed = map_layout.placement(self.plan, self._bases["device"], self._bases["host"], pid_tgid=PID_TGID)
        self.module = self.device.load(ptx_of_kernels(specs, placed, "sm_80", helpers=helpers))

    def put(self, data):
        """Put an array on the device; its address."""
        data = np.ascontiguousarray(data)
        address = self.device.allocate(max(data.nbytes, 8))
        self.device.copy_in(address, data)
        return address

    def call(self, helper, *arguments, grid=1, block=32, calls=True):
        """Call a helper in every thread of a launch; arguments and results are (threads,), or numbers."""
        threads = int(np.prod(grid)) * int(np.prod(block))
        rows = np.zeros((threads, ROW), np.uint64)
        rows[:, 0] = calls
        for place, argument in enumerate(arguments):
            rows[:, place + 1] = argument
        address = self.put(rows)
        self.launch = self.device.launch(self.module, f"helper_{helper}", grid, block, [address])
        results = self.device.copy_out(address, rows.nbytes).view(np.uint64).reshape(rows.shape)[:, 0]
        self.device.free(address)
        return results

    def raw(self, place):
        return self.region(self.plan.maps[place])

    def region(self, region):
        return self.device.view(self._bases[region.memory] + region.offset, region.bytes)

    @property
    def losses(self):
        return self.region(self.plan.losses).view(np.uint64).tolist()
