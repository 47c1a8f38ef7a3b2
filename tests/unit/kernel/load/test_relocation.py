"""Map placeholders in bytecode become descriptors; a verifier's log is shortened to its verdict."""

import struct

import pytest

from accel_magic.errors import ProgramError
from accel_magic.kernel import bpf_syscalls
from accel_magic.kernel.load import relocation
from tests.support.errors import raises


def instruction(code, registers=0, offset=0, immediate=0):
    return struct.pack("<BBhi", code, registers, offset, immediate)


def load_map(register, pseudo, immediate, upper=0):
    """The two instructions that load a 64-bit immediate or a map."""
    return instruction(0x18, register | pseudo << 4, 0, immediate) + instruction(0, 0, 0, upper)


EXIT = instruction(0x95)


def test_placeholders_of_maps_and_values_become_descriptors():
    code = load_map(1, 1, 0x414D0001) + instruction(0xB7, 2, 0, 0x414D0001) + load_map(3, 2, 0x414D0010, 24) + EXIT

    linked = relocation.relocate(code, {1: 77, 16: 1234})

    assert linked == load_map(1, 1, 77) + instruction(0xB7, 2, 0, 0x414D0001) + load_map(3, 2, 1234, 24) + EXIT


def test_plain_64_bit_constants_are_not_changed():
    # The upper half of a constant looks like an instruction that loads a map.
    code = load_map(1, 0, 0x414D0001, struct.unpack("<i", b"\x18\x11\0\0")[0]) + EXIT

    assert relocation.relocate(code, {1: 77}) == code


def test_users_programs_reference_maps_by_descriptor():
    assert relocation.relocate(load_map(1, 1, 9) + EXIT, {9: 42}) == load_map(1, 1, 42) + EXIT


def test_a_missing_map_is_an_error():
    with pytest.raises(KeyError):
        relocation.relocate(load_map(1, 1, 0x414D0005), {1: 3})


def test_the_verdict_is_the_end_of_the_log_without_statistics():
    log = "\n".join(
        [f"{i}: (b7) r0 = {i}" for i in range(20)] + ["R1 invalid mem access 'scalar'", "processed 20 insns"]
    )

    assert relocation.verdict(log, lines=2) == "19: (b7) r0 = 19\nR1 invalid mem access 'scalar'"
    assert relocation.verdict("") == ""


def test_a_rejected_program_is_a_typed_error_with_the_verdict(monkeypatch):
    def refuse(*_, **__):
        raise bpf_syscalls.VerifierError(13, "0: R1=ctx()\ninvalid access to packet\nprocessed 1 insns")

    monkeypatch.setattr(bpf_syscalls, "prog_load", refuse)
    with raises("program.verifier-refused", ProgramError) as caught:
        relocation.load(2, {"am_plain_0": EXIT}, {}, name="am_plain_0")

    assert "am_plain_0" in caught.value.what
    assert "Permission denied" in caught.value.what
    assert caught.value.why.endswith("invalid access to packet")
    assert caught.value.fix
