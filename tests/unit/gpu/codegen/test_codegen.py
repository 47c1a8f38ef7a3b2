"""LLVM IR to code for GPUs: PTX that assembles and has no unresolved references."""

import random
import re
import shutil
import subprocess

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.codegen import assemble as nvjitlink
from accel_magic.gpu.codegen.lowering import BackendTarget, lower
from accel_magic.gpu.maps.map_layout import Placement
from accel_magic.gpu.program import context
from accel_magic.gpu.program.object_model import MapSpec
from tests.support import ebpf
from tests.support.errors import raises
from tests.unit.gpu.device_host import GPU_HELPERS

pytest.importorskip("llvmlite")
from accel_magic.gpu.codegen.compile import to_ptx
from tests.support.host_device import compile_programs

pytestmark = pytest.mark.component

MAPS = (MapSpec("counts", 1502, 4, 16, 16), MapSpec("names", 1501, 8, 8, 64), MapSpec("ring", 27, 0, 0, 4096))
PLACEMENT = Placement((0x7000_0000_1000, 0x7000_0000_4000, 0x7000_0001_0000), 64, 0x7000_0000_2000, 0x7000_0000_3000)
# Architectures, each with the lowest PTX version that supports it according to the PTX manual.
VERSIONS = {
    "sm_75": "6.3",
    "sm_80": "7.0",
    "sm_86": "7.1",
    "sm_89": "7.8",
    "sm_90": "7.8",
    "sm_100": "8.6",
    "sm_120": "8.7",
}
COUNT = """
    stw [%r10-4], 3
    mov %r2, %r10
    add %r2, -4
    lddw %r1, map:counts
    call 1
    jeq %r0, 0, end
    mov %r1, 1
    lock add [%r0+8], %r1
end:
    mov %r0, 0
    exit
"""

PLACES = """
    ldxdw %r6, [%r1]
    mov %r1, %r10
    add %r1, -8
    mov %r2, %r10
    add %r2, -16
    mov %r3, %r10
    add %r3, -24
    call 505
    ldxdw %r7, [%r10-8]
    add %r6, %r7
"""


def ir(text, **options):
    return lower(ebpf.program(text, "probe"), MAPS, PLACEMENT, target=BackendTarget.NVPTX, **options)


def assemble(ptx, arch, tmp_path):
    """Check PTX with NVIDIA's assembler: ptxas, or nvJitLink from the wheel."""
    if shutil.which("ptxas"):
        source = tmp_path / "probe.ptx"
        source.write_text(ptx)
        command = ["ptxas", "-c", f"-arch={arch}", source, "-o", tmp_path / "probe.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return
    try:
        nvjitlink.assemble(ptx, arch)
    except MachineError as error:
        pytest.skip(f"no ptxas and no nvJitLink: {error}")


@pytest.mark.parametrize(("arch", "version"), VERSIONS.items())
def test_ptx_has_the_lowest_version_of_each_architecture_and_assembles(arch, version, tmp_path):
    code = to_ptx(ir(COUNT, per="warp"), arch)
    assert code.name == "accel_probe"
    assert f".version {version}\n" in code.text
    assert f".target {arch}\n" in code.text
    assemble(code.text, arch, tmp_path)


@pytest.mark.parametrize(
    ("arch", "used"), [("sm_90a", "sm_90"), ("sm_100f", "sm_100"), ("sm_103", "sm_100"), ("sm_121", "sm_120")]
)
def test_other_architectures_get_code_for_the_newest_one_that_they_can_run(arch, used):
    assert f".target {used}\n" in to_ptx(ir(COUNT), arch).text


@pytest.mark.parametrize("arch", ["sm_70", "sm_", "gfx90a", "compute_80", ""])
def test_unsupported_architectures_are_rejected_by_name(arch):
    with raises("gpu.unsupported-architecture", ProgramError, match=f"`{arch}`"):
        to_ptx(ir(COUNT), arch)


def test_ptx_is_one_function_with_the_parameters_of_the_context_and_nothing_unresolved():
    text = to_ptx(ir(COUNT)).text
    assert re.findall(r"^\.\w+.*\.func.*$", text, re.MULTILINE) == [".visible .func accel_probe("]
    sizes = [field.size for field in context.FIELDS if field.name not in ("active", "launch")]
    assert re.findall(r"\.param \.b(\d+)", text) == [str(8 * size) for size in sizes]
    assert not re.search(r"\.extern|\bcall\b|\.global \.|\.local", text)


def test_the_stack_and_the_context_become_registers():
    text = to_ptx(ir("ldxdw %r3, [%r1]\nldxw %r4, [%r1+8]\nadd %r3, %r4\nstxdw [%r10-16], %r3\n" + COUNT)).text
    assert ".local" not in text
    assert "%SP" not in text


def test_argument_registers_of_a_call_keep_no_stack_alive():
    # r3 held the address of a variable for the previous call; the print has no argument there.
    text = to_ptx(ir(PLACES + "stdw [%r10-40], 0x6968\nmov %r1, %r10\nadd %r1, -40\nmov %r2, 3\ncall 6\nexit")).text
    assert ".local" not in text


def test_counters_are_changed_by_one_device_scope_atomic_in_global_memory():
    text = to_ptx(ir(COUNT)).text
    assert len(re.findall(r"\b(?:atom|red)(?:\.relaxed\.gpu)?\.global\.add\.u64", text)) == 2  # the count, and losses
    assert ".sys" not in text


def test_aligned_values_are_read_by_one_load():
    read = COUNT.replace("mov %r1, 1\n    lock add [%r0+8], %r1", "ldxdw %r1, [%r0+8]\n    stxdw [%r0], %r1")
    text = to_ptx(ir(read)).text
    assert re.search(r"ld\.global\.b64|ld\.global\.u64", text)
    assert not re.search(r"ld\.global\.[bu]8", text)


def test_per_warp_the_probe_runs_in_the_leader_only():
    assert "activemask" in to_ptx(ir("mov %r0, 0\nlddw %r1, data:counts+0\nstdw [%r1], 1\nexit", per="warp")).text
    assert "activemask" not in to_ptx(ir("mov %r0, 0\nlddw %r1, data:counts+0\nstdw [%r1], 1\nexit")).text


ARGUMENTS = {
    1: "lddw %r1, map:names",
    2: "lddw %r1, map:names\nmov %r3, %r10\nadd %r3, -24\nmov %r4, 0",
    3: "lddw %r1, map:names",
    6: "mov %r1, %r2\nmov %r2, 8\nmov %r3, 1\nmov %r4, 2\nmov %r5, 3",
    25: "lddw %r2, map:ring\nmov %r4, %r10\nadd %r4, -24\nmov %r5, 8",
    130: "lddw %r1, map:ring\nmov %r2, %r10\nadd %r2, -24\nmov %r3, 8\nmov %r4, 0",
    131: "lddw %r1, map:ring\nmov %r2, 8\nmov %r3, 0",
    501: "mov %r1, %r2",
}


@pytest.mark.parametrize("arch", [pytest.param("sm_75", marks=pytest.mark.thorough), "sm_120"])
@pytest.mark.parametrize("helper", GPU_HELPERS)
def test_every_helper_is_inlined_into_the_function(helper, arch, tmp_path):
    outs = "mov %r1, %r10\nadd %r1, -8\nmov %r2, %r10\nadd %r2, -16\nmov %r3, %r10\nadd %r3, -24"
    prepare = ARGUMENTS.get(helper, outs)
    text = f"stdw [%r10-8], 0\nstdw [%r10-16], 0\nstdw [%r10-24], 7\nmov %r2, %r10\nadd %r2, -16\n{prepare}\n"
    use = "lddw %r1, data:counts+0\nldxdw %r2, [%r10-8]\nadd %r0, %r2\nstxdw [%r1], %r0\nmov %r0, 0\nexit"
    if helper in (132, 133):
        text = (
            f"lddw %r1, map:ring\nmov %r2, 8\nmov %r3, 0\ncall 131\nmov %r6, %r0\njeq %r6, 0, end\n{text}mov %r1, %r6\n"
        )
        use = "end:\nmov %r0, 0\nexit"
    code = to_ptx(ir(f"{text}call {helper}\n{use}"), arch)
    assert not re.search(r"\.extern|\bcall\b", code.text)
    assemble(code.text, arch, tmp_path)


def test_functions_of_the_program_are_inlined_with_their_frames():
    text = to_ptx(
        ir(
            """
            stdw [%r10-8], 41
            mov %r1, %r10
            add %r1, -8
            call local more
            lddw %r1, data:counts+0
            stxdw [%r1], %r0
            mov %r0, 0
            exit
        more:
            stdw [%r10-8], 1
            ldxdw %r0, [%r1]
            ldxdw %r1, [%r10-8]
            add %r0, %r1
            exit
            """
        )
    ).text
    assert re.search(r"st\.global\.b64 \s*\[%rd\d+\], 42", text)
    assert ".local" not in text


def test_a_large_function_with_several_calls_is_still_inlined():
    large = "\n".join(f"mul %r1, {2 * number + 3}\nxor %r1, {number}\narsh %r1, 3" for number in range(400))
    calls = "ldxdw %r6, [%r1]\n" + "mov %r1, %r6\ncall local large\nadd %r6, %r0\n" * 3
    text = to_ptx(
        ir(f"{calls}lddw %r1, data:counts+0\nstxdw [%r1], %r6\nexit\nlarge:\n{large}\nmov %r0, %r1\nexit")
    ).text
    assert text.count(".func") == 1
    assert not re.search(r"\bcall\b", text)


def test_ir_without_a_probe_is_rejected():
    with raises("gpu.no-probe-in-ir", ProgramError):
        to_ptx("define i64 @other() { ret i64 0 }")


def test_an_undefined_helper_is_named():
    with raises("gpu.unsupported-helper", ProgramError, match="accel_helper_999"):
        to_ptx(ir(COUNT).replace("@accel_helper_1(", "@accel_helper_999("))


def test_generated_programs_assemble(tmp_path):
    generator = ebpf.Generator(7)
    maps, placement = (MapSpec(ebpf.DATA, 2, 4, ebpf.DATA_SIZE, 1),), Placement((0x7000_0000_1000,), 1, 0, 0)
    for number in range(12):
        made = lower(generator.program(f"p{number}"), maps, placement, target=BackendTarget.NVPTX)
        assemble(to_ptx(made, "sm_90").text, "sm_90", tmp_path)


class Simulated:
    """Runs probes as kernels on the simulated device, with maps in its memory."""

    def __init__(self, *maps):
        self.device, self.maps = SimulatedDevice(1 << 24), maps
        self.bytes = {spec.name: spec.value_size * spec.max_entries for spec in maps}
        self.at = {name: self.device.allocate(size) for name, size in self.bytes.items()}
        self.losses = self.device.allocate(64)
        self.placement = Placement(tuple(self.at.values()), 128, self.losses, self.device.allocate(64))

    def run(self, program, grid=1, block=1, arguments=(), **options):
        code = to_ptx(lower(program, self.maps, self.placement, target=BackendTarget.NVPTX, **options), "sm_80")
        module = self.device.load(code.text.replace(".visible .func", ".visible .entry"))
        rest = (0,) * (len(context.PARAMETERS) - len(arguments))
        self.device.launch(module, code.name, grid, block, (*arguments, *rest))

    def content(self, name, kind="<u8"):
        return self.device.copy_out(self.at[name], self.bytes[name]).view(kind)


@pytest.mark.parametrize(("per", "counted"), [("thread", 2 * 40), ("warp", 2 * 2)])
def test_on_the_simulated_device_a_counter_is_exact_per_thread_and_per_warp(per, counted):
    device = Simulated(MapSpec("counts", 2, 4, 16, 16))
    device.run(ebpf.program(COUNT, "probe"), grid=2, block=40, per=per)
    assert device.content("counts")[7] == counted
    assert device.content("counts").sum() == counted


def test_on_the_simulated_device_each_warp_reads_its_mask_and_the_context_fields():
    device = Simulated(MapSpec("seen", 2, 4, 16, 2))
    text = """
        mov %r6, %r1
        mov %r1, %r10
        add %r1, -8
        mov %r2, %r10
        add %r2, -16
        mov %r3, %r10
        add %r3, -24
        call 505
        ldxdw %r1, [%r10-8]
        rsh %r1, 5
        lsh %r1, 4
        lddw %r2, data:seen+0
        add %r2, %r1
        ldxw %r3, [%r6+28]
        stxw [%r2], %r3
        ldxw %r3, [%r6+20]
        stxw [%r2+4], %r3
        ldxdw %r3, [%r6+0]
        stxdw [%r2+8], %r3
        mov %r0, 0
        exit
    """
    device.run(ebpf.program(text, "probe"), block=40, arguments=(0x123456789A, 4, 1, 2, 77, 3), per="warp")
    assert device.content("seen", "<u4").tolist() == [0xFFFFFFFF, 77, 0x3456789A, 0x12, 0xFF, 77, 0x3456789A, 0x12]


@pytest.mark.parametrize("promoted", [True, False])
def test_on_the_simulated_device_only_a_promoted_update_loses_no_counts(promoted):
    device = Simulated(MapSpec("counts", 2, 4, 8, 1))
    text = "lddw %r1, data:counts+0\nldxdw %r2, [%r1]\nadd %r2, 1\nstxdw [%r1], %r2\nmov %r0, 0\nexit"
    device.run(ebpf.program(text, "probe"), grid=3, block=64, promoted=frozenset({(0, 2)} if promoted else ()))
    (counted,) = device.content("counts").tolist()
    assert counted == 192 if promoted else counted < 192


def test_generated_programs_give_the_same_results_on_the_simulated_device_and_this_cpu():
    device = Simulated(MapSpec(ebpf.DATA, 2, 4, ebpf.DATA_SIZE, 1), MapSpec(".bss", 2, 4, ebpf.CONTEXT_SIZE, 1))
    memory = {name: np.zeros(size // 8, np.uint64) for name, size in device.bytes.items()}
    placement = Placement(tuple(each.ctypes.data for each in memory.values()), 1, 0, 0)
    generator, bits = ebpf.Generator(3, context=".bss"), random.Random(3)
    programs = [generator.program(f"p{number}") for number in range(40)]
    compiled = compile_programs(programs, device.maps, placement, probes=False, level=1).programs
    for program, host in zip(programs, compiled, strict=True):
        for name, each in memory.items():
            each[:] = np.frombuffer(bits.randbytes(device.bytes[name]), np.uint64)
            device.device.copy_in(device.at[name], each)
        host.run()
        device.run(program)
        for name, each in memory.items():
            assert device.content(name).tolist() == each.tolist(), (program.name, name)
