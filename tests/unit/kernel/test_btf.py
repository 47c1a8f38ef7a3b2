"""Finding struct members in generated type information."""

import struct

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import btf
from tests.support.errors import raises

INT, STRUCT = 1, 4


def type_information(structs, *, magic=0xEB9F):
    """BTF with an int and these structs: {name: [(member, byte offset, type id if it is not the int), ...]}.

    A name that begins with a question mark stands for none; ids begin with 2.
    """
    strings = bytearray(b"\0")

    def text(name):
        if name.startswith("?"):
            return 0
        at = len(strings)
        strings.extend(name.encode() + b"\0")
        return at

    types = struct.pack("<IIII", text("int"), INT << 24, 4, 32)
    for name, members in structs.items():
        types += struct.pack("<III", text(name), STRUCT << 24 | len(members), 64)
        for member, offset, *type_id in members:
            types += struct.pack("<III", text(member), *(type_id or [1]), offset * 8)
    return struct.pack("<HBBIIIII", magic, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings


@pytest.fixture
def write(tmp_path):
    def write_(data):
        path = tmp_path / "vmlinux"
        path.write_bytes(data)
        btf.member_offset.cache_clear()
        return path

    return write_


def test_the_offset_of_a_member_is_in_bytes(write):
    path = write(type_information({"other": [("pid", 4)], "task": [("state", 0), ("pid", 1304), ("tgid", 1308)]}))

    assert btf.member_offset("task", "pid", path) == 1304
    assert btf.member_offset("task", "state", path) == 0
    assert btf.member_offset("other", "pid", path) == 4


def test_names_that_only_share_a_prefix_or_suffix_do_not_match(write):
    path = write(
        type_information({"my_task": [("pid", 8)], "task_of": [("pid", 16)], "task": [("ppid", 24), ("pid", 32)]})
    )

    assert btf.member_offset("task", "pid", path) == 32


def test_a_member_of_nameless_structs_in_the_struct_is_found(write):
    structs = {
        "other": [("flags", 48)],
        "?inner": [("count", 0), ("flags", 24)],
        "?outer": [("owner", 0), ("?", 64, 3)],
        "memory": [("?", 128, 4), ("cpus", 256)],
    }
    path = write(type_information(structs))

    assert btf.member_offset("memory", "flags", path) == 128 + 64 + 24
    assert btf.member_offset("memory", "cpus", path) == 256
    with raises("kernel.no-member", MachineError):
        btf.member_offset("memory", "pid", path)


def test_nameless_members_that_contain_each_other_or_do_not_exist_end_the_search(write):
    path = write(type_information({"?self": [("?", 0, 2)], "memory": [("?", 8, 2), ("?", 8, 1000)]}))

    with raises("kernel.no-member", MachineError):
        btf.member_offset("memory", "pid", path)


@pytest.mark.parametrize(("structure", "member"), [("task", "nothing"), ("nothing", "pid")])
def test_a_missing_struct_or_member_is_a_typed_error(write, structure, member):
    path = write(type_information({"task": [("pid", 8)]}))

    with raises("kernel.no-member", MachineError) as caught:
        btf.member_offset(structure, member, path)
    assert caught.value.fix


@pytest.mark.parametrize("data", [b"", b"\x9f\xeb", b"not type information at all.....", type_information({}, magic=1)])
def test_damaged_type_information_is_a_typed_error(write, data):
    with raises("kernel.no-btf", MachineError) as caught:
        btf.member_offset("task", "pid", write(data))
    assert caught.value.fix


def test_missing_type_information_is_a_typed_error(tmp_path):
    with raises("kernel.no-btf", MachineError) as caught:
        btf.member_offset("task", "pid", tmp_path / "nowhere")
    assert "CONFIG_DEBUG_INFO_BTF" in caught.value.fix


INT_OF_4_BYTES, OF_CPUS = 1, 14 << 24


def with_variables(names, *, before=0):
    """BTF with an int, some structs and arrays, and variables after them."""
    strings = bytearray(b"\0int\0member\0")
    types = struct.pack("<IIII", 1, INT << 24, 4, 32)
    for _ in range(before):
        types += struct.pack("<III", 0, STRUCT << 24 | 2, 64) + struct.pack("<III", 5, INT_OF_4_BYTES, 0) * 2
        types += struct.pack("<III", 0, 3 << 24, 0) + struct.pack("<III", INT_OF_4_BYTES, INT_OF_4_BYTES, 7)
    for name in names:
        types += struct.pack("<IIII", len(strings), OF_CPUS, INT_OF_4_BYTES, 1)
        strings.extend(name.encode() + b"\0")
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings


@pytest.mark.parametrize(
    ("names", "found"),
    [(["other", "__preempt_count"], (23, 0)), (["pcpu_hot"], (22, 8)), (["pcpu_hot", "__preempt_count"], (23, 0))],
)
def test_the_preemption_count_is_found_by_counting_the_types_before_it(write, names, found):
    btf.preemption_count.cache_clear()
    assert btf.preemption_count(write(with_variables(names, before=10))) == found


def test_a_kernel_that_does_not_describe_its_variables_is_a_typed_error(write):
    btf.preemption_count.cache_clear()
    with raises("kernel.no-member", MachineError):
        btf.preemption_count(write(with_variables(["__preempt_counts"], before=3)))
