from __future__ import annotations

import os
import re

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes import tracefs
from accel_magic.probes.plan import TracepointField
from tests.support.errors import raises

COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""


def format_text(*fields, id_=42):
    lines = [f"\tfield:{decl};\toffset:{o};\tsize:{s};\tsigned:{int(signed)};\n" for decl, o, s, signed in fields]
    return f'name: x\nID: {id_}\nformat:\n{COMMON}{"".join(lines)}\nprint fmt: "field:%d; offset:1; size:2;", REC->a\n'


@pytest.mark.parametrize(
    ("declaration", "size", "signed", "type_"),
    [
        ("pid_t prev_pid", 4, True, "s32"),
        ("unsigned int fd", 4, False, "u32"),
        ("bool x", 1, False, "u8"),
        ("char c", 1, True, "s8"),
        ("enum zone_type zone", 4, False, "u32"),
        ("long state", 8, True, "s64"),
        ("const char * filename", 8, False, "u64"),
        ("const char *const * argv", 8, False, "u64"),
        ("struct stat * statbuf", 8, False, "u64"),
        ("umode_t mode", 2, False, "u16"),
        ("char comm[16]", 16, False, "char[16]"),
        ("char comm[TASK_COMM_LEN]", 16, False, "char[16]"),
        ("__data_loc char[] name", 4, False, "string"),
        ("__data_loc const char[] name", 4, False, "string"),
    ],
)
def test_numbers_and_text_become_fields_by_size_and_sign(declaration, size, signed, type_):
    (field,) = tracefs.parse_format(format_text((declaration, 8, size, signed))).fields
    assert (field.type, field.offset, field.size) == (type_, 8, size)


@pytest.mark.parametrize(
    ("declaration", "size"),
    [
        ("u8 fsid[16]", 16),
        ("unsigned char addr[6]", 6),
        ("__data_loc u64[] addresses", 4),
        ("__rel_loc char[] name", 4),
        ("struct timespec t", 8),
        ("struct timespec t", 16),
        ("u128 x", 16),
        ("int (*callback)(void)", 8),
    ],
)
def test_other_fields_are_omitted_but_count_for_the_record_end(declaration, size):
    found = tracefs.parse_format(format_text(("int a", 8, 4, True), (declaration, 16, size, False)))
    assert found.fields == (TracepointField("a", "s32", 8, 4),)
    assert found.record_end == 16 + size


def test_fields_beyond_256_bytes_are_omitted():
    found = tracefs.parse_format(format_text(("int a", 252, 4, True), ("int b", 256, 4, True)))
    assert [field.name for field in found.fields] == ["a"]
    assert found.record_end == 260


def test_an_event_without_fields_ends_after_the_common_ones():
    assert tracefs.parse_format(format_text(id_=7)) == tracefs.EventFormat(7, (), 8)


@pytest.mark.parametrize(
    ("declaration", "printed", "type_"),
    [
        ("const char * event", '"%s", REC->event', "char *"),
        ("char *event", '"%s on %d", REC->event, REC->cpu', "char *"),
        ("const char * event", '"%p", REC->event', "u64"),
        ("const char * event", '"%s", REC->events', "u64"),
        ("const char ** event", '"%s", REC->event', "u64"),
    ],
)
def test_a_pointer_that_the_event_prints_as_text_is_text(declaration, printed, type_):
    text = format_text((declaration, 8, 8, False)).partition("print fmt")[0] + f"print fmt: {printed}\n"

    (field,) = tracefs.parse_format(text).fields
    assert (field.type, field.offset, field.size) == (type_, 8, 8)
    (argument,) = tracefs.parse_format(text, syscall=True).fields  # the caller's memory, not kernel text
    assert argument.type == "u64"


def test_system_call_arguments_are_read_by_their_c_type():
    text = format_text(
        ("int __syscall_nr", 8, 4, True),
        ("int dfd", 16, 8, False),
        ("unsigned int fd", 24, 8, False),
        ("const char * filename", 32, 8, False),
        ("__data_loc char[] __filename_val", 40, 4, False),
    )
    found = tracefs.parse_format(text, syscall=True)
    assert found.fields == (
        TracepointField("__syscall_nr", "s32", 8, 4),
        TracepointField("dfd", "s32", 16, 4),
        TracepointField("fd", "u64", 24, 8),
        TracepointField("filename", "u64", 32, 8),
    )
    assert found.record_end == 40  # programs do not see the strings that newer kernels append


def test_a_format_without_an_id_is_rejected():
    with raises("probe.bad-tracepoint-format", ProbeError):
        tracefs.parse_format("nonsense")


def test_a_missing_tracefs_is_reported_with_the_mount_command(tmp_path):
    with raises("machine.no-tracefs", MachineError) as caught:
        tracefs.find(tmp_path)
    assert caught.value.fix == "mount -t tracefs tracefs /sys/kernel/tracing"


@pytest.mark.parametrize("mount", ["sys/kernel/tracing", "sys/kernel/debug/tracing"])
def test_tracefs_is_found_at_both_mount_points(tmp_path, mount):
    (tmp_path / mount / "events/sched/sched_switch").mkdir(parents=True)
    (tmp_path / mount / "events/ftrace/print").mkdir(parents=True)
    (tmp_path / mount / "events/enable").touch()
    found = tracefs.find(tmp_path)
    assert found == tmp_path / mount
    assert tracefs.categories(found) == ["sched"]
    assert tracefs.events(found, "sched") == ["sched_switch"]
    assert tracefs.events(found, "nosuch") == []


def test_an_unreadable_tracefs_is_reported_as_a_permission_problem(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with raises("machine.tracefs-unreadable", MachineError, match="not readable"):
        tracefs.find(tmp_path)


def mounted_or_skip():
    try:
        return tracefs.find()
    except MachineError as error:
        pytest.skip(error.what)


def test_an_unknown_event_is_an_error():
    with raises("probe.no-tracepoint", ProbeError, match="no tracepoint sched:nosuch"):
        tracefs.read_format(mounted_or_skip(), "sched", "nosuch")


def test_every_format_of_this_kernel_parses_and_agrees_with_its_id():
    mounted = mounted_or_skip()
    seen = 0
    for category in tracefs.categories(mounted):
        for event in tracefs.events(mounted, category):
            found = tracefs.read_format(mounted, category, event)
            folder = mounted / "events" / category / event
            assert found.id == int((folder / "id").read_text())
            text = (folder / "format").read_text()
            # Independent check: every field line without brackets, structs or callbacks is a number.
            places = [(line, *map(int, re.findall(r"(?:offset|size):(\d+);", line))) for line in text.splitlines()]
            numbers = [
                place[1]
                for place in places
                if "\tfield:" in place[0]
                and not any(word in place[0] for word in ("common_", "_loc ", "[", "(", "struct ", "union "))
                and place[1] + place[2] <= 256
            ]
            assert set(numbers) <= {field.offset for field in found.fields}, (category, event)
            ends = [place[1] + place[2] for place in places if "\tfield:" in place[0]]
            assert found.record_end == max([8, *ends]), (category, event)
            seen += 1
    assert seen > 100


def test_sched_switch_of_this_kernel_has_its_known_fields():
    found = tracefs.read_format(mounted_or_skip(), "sched", "sched_switch")
    types = {field.name: field.type for field in found.fields}
    assert types["prev_comm"] == types["next_comm"] == "char[16]"
    assert types["prev_pid"] == types["next_pid"] == types["next_prio"] == "s32"
