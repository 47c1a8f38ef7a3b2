"""Programs compiled for this CPU: arguments, results, maps and helpers."""

import ctypes
import sys

import numpy as np
import pytest

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.maps.map_layout import Placement
from accel_magic.gpu.program.object_model import MapSpec
from accel_magic.ptx import llvm
from tests.support import ebpf
from tests.support.errors import raises

pytest.importorskip("llvmlite")
from tests.support.host_device import compile_programs


def compiled(text, maps=(), placement=None, **options):
    given = (maps, placement) if placement else ()
    return compile_programs([ebpf.program(text)], *given, **options).programs[0]


def test_a_program_gets_the_address_and_the_size_of_its_memory():
    program = compiled("mov %r0, %r2\nlsh %r0, 8\nldxb %r3, [%r1+2]\nor %r0, %r3\nexit", probes=False)
    assert program.run(b"\x01\x02\x77") == 3 << 8 | 0x77
    assert compiled("mov %r0, %r1\nor %r0, %r2\nexit", probes=False).run() == 0


def test_what_a_program_writes_is_copied_back_to_writable_buffers_only():
    program = compiled("stb [%r1+1], 9\nmov %r0, 0\nexit", probes=False)
    fixed, writable, array = b"\x01\x02\x03", bytearray(b"\x01\x02\x03"), np.arange(4, dtype=np.uint8)
    for memory in (fixed, writable, array[1:]):
        program.run(memory)
    assert fixed == b"\x01\x02\x03"
    assert writable == b"\x01\x09\x03"
    assert array.tolist() == [0, 1, 9, 3]


def test_registers_that_were_never_written_are_zero():
    assert compiled("mov %r0, %r9\nadd %r0, %r5\nexit", probes=False).run(b"\x05") == 0


def test_several_programs_share_one_module_and_their_global_data():
    data = np.array([5, 0], np.uint64)
    maps, placement = (MapSpec(".data", 2, 4, 16, 1),), Placement((data.ctypes.data,), 1, 0, 0)
    one = ebpf.program(
        "lddw %r1, data:.data+0\nldxdw %r0, [%r1]\nlddw %r2, data:.data+8\nstxdw [%r2], %r0\nexit", "one"
    )
    two = ebpf.program("lddw %r1, data:.data+8\nldxdw %r0, [%r1]\nadd %r0, 1\nexit", "two")
    first, second = compile_programs([one, two], maps, placement, probes=False).programs
    assert (second.run(), first.run(), second.run()) == (1, 5, 6)
    assert (first.name, second.name) == ("one", "two")


COUNT = """
    ldxw %r6, [%r1+20]       ; the site
    stxw [%r10-4], %r6
    mov %r2, %r10
    add %r2, -4
    lddw %r1, map:counts
    call 1
    jeq %r0, 0, end
    mov %r1, 1
    lock add [%r0], %r1
end:
    mov %r0, 0
    exit
"""


def shared(entries, losses):
    counts, lost = np.zeros(entries, np.uint64), np.zeros(losses, np.uint64)
    maps = (MapSpec("counts", 2, 4, 8, entries),)
    return counts, lost, maps, Placement((counts.ctypes.data,), 1, lost.ctypes.data, 0)


def test_a_probe_can_use_a_field_of_its_context_as_a_key():
    counts, lost, maps, placement = shared(4, 2)
    program = compiled(COUNT, maps, placement)
    for site in (1, 3, 3, 9):
        program.probe(site=site, address=1 << 40)
    assert counts.tolist() == [0, 1, 0, 2]
    assert lost.tolist() == [0, 0]  # an index beyond the array is a miss, not a loss


def test_every_field_of_the_context_is_at_the_offset_in_the_header():
    seen = np.zeros(5, np.uint64)
    maps, placement = (MapSpec(".bss", 2, 4, 40, 1),), Placement((seen.ctypes.data,), 1, 0, 0)
    text = "lddw %r2, data:.bss+0\n"
    text += "".join(f"ldxdw %r3, [%r1+{at}]\nstxdw [%r2+{at}], %r3\n" for at in range(0, 40, 8))
    module = compile_programs([ebpf.program(text + "mov %r0, 0\nexit")], maps, placement)
    own = (ctypes.c_uint32 * 20).from_address(module.symbol("accel_self"))
    own[18] = 77  # the low half of `launch`
    module.programs[0].probe(address=0x1122334455667788, size=16, space=1, operation=3, site=5, kernel=6)
    fields = np.frombuffer(seen.tobytes(), np.uint32)
    assert fields.tolist() == [0x55667788, 0x11223344, 16, 1, 3, 5, 6, 1, 77, 0]


@pytest.mark.parametrize("lane", [0, 5])
def test_a_lone_thread_is_the_leader_of_its_warp(lane):
    counts, _, maps, placement = shared(1, 2)
    module = compile_programs([ebpf.program(COUNT)], maps, placement, per="warp")
    own = (ctypes.c_uint32 * 20).from_address(module.symbol("accel_self"))
    own[14] = lane
    module.programs[0].probe()
    assert counts.tolist() == [1]


def test_calling_a_probe_that_was_not_compiled_is_an_error():
    with raises("conformance.no-probe", ProgramError):
        compiled("mov %r0, 0\nexit", probes=False).probe()


def test_a_missing_llvmlite_is_a_machine_error_with_the_fix(monkeypatch):
    llvm.binding.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with raises("gpu.no-llvm", MachineError, match=r"pip install 'accel-magic\[gpu\]'"):
        compiled("mov %r0, 0\nexit")
    monkeypatch.undo()
    assert compiled("mov %r0, 0\nexit", probes=False).run() == 0


def test_an_llvmlite_that_is_too_old_is_a_machine_error(monkeypatch):
    import llvmlite.binding

    llvm.binding.cache_clear()
    monkeypatch.setattr(llvmlite.binding, "llvm_version_info", (15, 0, 7))
    with raises("gpu.llvm-too-old", MachineError, match="15"):
        llvm.binding()


def test_text_that_llvm_rejects_is_a_program_error():
    with raises("gpu.translation-defect", ProgramError):
        llvm.parse("define i64 @f() { ret i32 0 }")
