"""The host build of the device's helpers, called one by one from tests: maps in this process's memory, one thread."""

import ctypes

import numpy as np

from accel_magic.gpu.codegen import device
from accel_magic.gpu.maps import map_layout
from accel_magic.gpu.program.helpers import HELPERS
from accel_magic.gpu.program.object_model import MapSpec
from accel_magic.ptx import llvm

UNLIMITED = 1 << 40
PID_TGID = 0x1234_0000_5678
U64 = (1 << 64) - 1
GPU_HELPERS = {number: helper for number, helper in HELPERS.items() if helper.user != "policy"}
"""Those that programs in GPU kernels may call."""


class HostThread(ctypes.Structure):
    """Identity of the running thread in the host build: the variable `accel_self`, struct accel_self in host.h.

    `block`, `grid`, `thread` and `dims` are x, y, z of blockIdx, gridDim, threadIdx and blockDim; `clock` counts both
    nanoseconds and cycles, and advances by one each time it is read; `gpu_exit` sets `exited`.
    """

    _fields_ = (
        ("block", ctypes.c_uint32 * 3),
        ("grid", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("dims", ctypes.c_uint32 * 3),
        ("sm", ctypes.c_uint32),
        ("warp", ctypes.c_uint32),
        ("lane", ctypes.c_uint32),
        ("exited", ctypes.c_uint32),
        ("clock", ctypes.c_uint64),
        ("launch", ctypes.c_uint64),
    )


def spec(kind, *, key=4, value=8, entries=8, name="m", initial=None, key_columns=None, value_columns=None):
    return MapSpec(name, int(kind), key, value, entries, initial=initial, key=key_columns, value=value_columns)


def aligned(size):
    """(size,) uint8, zero, at an address that maps may have."""
    room = np.zeros(size + map_layout.ALIGNMENT, np.uint8)
    start = -room.ctypes.data % map_layout.ALIGNMENT
    return room[start : start + size]


def blocks_of(plan):
    """The two blocks with what they hold at the start."""
    blocks = {"device": aligned(plan.device_bytes), "host": aligned(plan.host_bytes)}
    for region in plan.maps:
        blocks[region.memory][region.offset : region.offset + len(region.initial)] = np.frombuffer(
            region.initial, np.uint8
        )
    return blocks


def constants(specs, placed):
    """What a lowered program brings along, as LLVM IR."""
    rows = ", ".join(
        f"%m {{ i32 {one.type}, i32 {one.key_size}, i32 {one.value_size}, i32 {one.max_entries}, i64 {base}, i64 0 }}"
        for one, base in zip(specs, placed.bases, strict=True)
    )
    numbers = {
        "map_count": len(specs),
        "threads": placed.threads,
        "losses": placed.losses,
        "printk": placed.printk,
        "pid_tgid": placed.pid_tgid,
    }
    return "\n".join(
        [
            "%m = type { i32, i32, i32, i32, i64, i64 }",
            f"@accel_maps = constant [{len(specs)} x %m] {f'[{rows}]' if rows else 'zeroinitializer'}",
            *(f"@accel_{name} = constant i64 {number}" for name, number in numbers.items()),
        ]
    )


def compiled(text, build, machine, level, keep=()):
    """A module of this IR and the helpers, optimised; if `keep` names anything, all else may be dropped."""
    binding = llvm.binding()
    module = binding.parse_assembly(text)
    module.link_in(binding.parse_assembly(device.helpers_ir(build)))
    for one in [*module.functions, *module.global_variables] if keep else []:
        if not one.is_declaration and one.name not in keep:
            one.linkage = binding.Linkage.internal
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=level))
    builder.getModulePassManager().run(module, builder)
    return module


class HostDevice:
    """Maps and the helpers compiled for them."""

    def __init__(self, *specs, threads=4, level=1):
        self.specs = specs
        self.threads = threads
        self.plan = map_layout.plan_memory(specs, threads, limit=UNLIMITED)
        self.blocks = blocks_of(self.plan)
        bases = (block.ctypes.data for block in self.blocks.values())
        self.placement = map_layout.placement(self.plan, *bases, pid_tgid=PID_TGID)
        binding = llvm.binding()
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(opt=level)
        module = compiled(constants(specs, self.placement), "host", machine, level)
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        call = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 5)
        self.helpers = {
            number: call(self.engine.get_function_address(f"accel_helper_{number}")) for number in GPU_HELPERS
        }
        self.self = HostThread.from_address(self.engine.get_global_value_address("accel_self"))
        self.be(0, dims=(threads, 1, 1))

    def be(self, thread, *, dims=(32, 1, 1), block=(0, 0, 0), grid=(1, 1, 1), launch=0):
        """Be a thread of a launch; `thread` is its number in its block or its x, y, z."""
        at = thread if isinstance(thread, tuple) else (thread, 0, 0)
        for name, values in (("thread", at), ("dims", dims), ("block", block), ("grid", grid)):
            getattr(self.self, name)[:] = values
        linear = at[0] + dims[0] * (at[1] + dims[1] * at[2])
        self.self.lane, self.self.warp, self.self.launch = linear % 32, linear // 32, launch

    def call(self, helper, *arguments):
        """Call a helper; bytes and arrays are passed by their address. The result is unsigned."""
        held = [np.frombuffer(each, np.uint8).copy() if isinstance(each, bytes) else each for each in arguments]
        numbers = [each.ctypes.data if isinstance(each, np.ndarray) else each & U64 for each in held]
        return self.helpers[helper](*numbers, *[0] * (5 - len(numbers)))

    def error(self, helper, *arguments):
        """Call a helper that returns 0 or minus an error: the signed result."""
        result = self.call(helper, *arguments)
        return result - (1 << 64) if result >> 63 else result

    def raw(self, place=0):
        """The bytes of a map."""
        return self.region(self.plan.maps[place])

    def region(self, region):
        return self.blocks[region.memory][region.offset : region.offset + region.bytes]

    @property
    def losses(self):
        return self.region(self.plan.losses).view(np.uint64).tolist()

    @property
    def printk(self):
        return self.region(self.plan.printk)


def at(address, size):
    """Bytes of this process's memory."""
    return ctypes.string_at(address, size)
