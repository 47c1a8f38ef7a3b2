"""Data frames of maps and histograms, built from known bytes."""

import struct

import numpy as np
import pandas as pd
import pytest

from accel_magic.errors import ProbeError
from accel_magic.kernel.attach.function_bindings import parse_bindings
from accel_magic.kernel.attach.user_program import own_place
from accel_magic.kernel.records.c_layout import value_layout
from accel_magic.kernel.records.map_frames import histogram_frame, map_frame
from tests.support.errors import raises


def table(*rows):
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)


def test_elements_are_sorted_by_key():
    keys = table(*(struct.pack("<I", key) for key in (300, 1, 20)))
    values = table(*(struct.pack("<Q", value) for value in (3, 1, 2)))[:, None, :]
    long = value_layout("unsigned long long", 8, "value")
    frame = map_frame(value_layout("unsigned int", 4, "key"), long, keys, values)
    assert frame.to_dict("list") == {"key": [1, 20, 300], "value": [1, 2, 3]}


def test_a_per_cpu_map_has_the_sum_and_the_value_of_each_cpu():
    keys = table(struct.pack("<I", 5))
    values = table(struct.pack("<4i", 7, 100, -9, 200)).reshape(1, 2, 8)
    pair = ["pair", [["low", "int"], ["high", "int"]], "struct_packed"]
    frame = map_frame(value_layout("unsigned int", 4, "key"), value_layout(pair, 8, "value"), keys, values)
    assert frame.to_dict("list") == {
        "key": [5], "low": [-2], "low_cpu0": [7], "low_cpu1": [-9],
        "high": [300], "high_cpu0": [100], "high_cpu1": [200],
    }  # fmt: skip


def test_a_name_shared_by_key_and_value_gets_a_prefix():
    member = ["s", [["pid", "unsigned int"]], "struct_packed"]
    frame = map_frame(
        value_layout(member, 4, "key"), value_layout(member, 4, "value"),
        table(struct.pack("<I", 1)), table(struct.pack("<I", 2))[:, None, :],
    )  # fmt: skip
    assert frame.to_dict("list") == {"key_pid": [1], "value_pid": [2]}


def test_buckets_of_a_log2_histogram_have_their_bounds():
    counts = [0] * 64
    counts[1], counts[4], counts[63] = 5, 2, 1
    frame = histogram_frame(pd.DataFrame({"key": range(64), "value": counts}), log2=True)
    assert frame["slot"].tolist() == list(range(1, 64))
    rows = frame.set_index("slot")
    assert rows.loc[1].tolist() == [0, 1, 5]
    assert rows.loc[2].tolist() == [2, 3, 0]
    assert rows.loc[4].tolist() == [8, 15, 2]
    assert [int(rows["low"][63]), int(rows["high"][63])] == [2**62, 2**63 - 1]


def test_a_histogram_with_a_key_keeps_the_key_and_only_nonempty_buckets():
    frame = pd.DataFrame({"cpu": [0, 0, 1], "slot": [1, 2, 3], "value": [4, 0, 6]})
    assert histogram_frame(frame, log2=False).to_dict("list") == {"cpu": [0, 1], "slot": [1, 3], "count": [4, 6]}


@pytest.mark.parametrize(
    ("function", "place"),
    [
        ("tracepoint__syscalls__sys_enter_openat", ["tracepoint:syscalls:sys_enter_openat"]),
        ("raw_tracepoint__sched_switch", ["raw_tracepoint:sched_switch"]),
        ("kprobe__vfs_read", ["kprobe:vfs_read"]),
        ("kretprobe__vfs_read", ["kretprobe:vfs_read"]),
        ("kprobe____x64_sys_read", ["kprobe:__x64_sys_read"]),
        ("kprobe__sys_read", ["kprobe:__x64_sys_read"]),
        ("syscall__execve", ["kprobe:__x64_sys_execve"]),
        ("on_malloc", []),
        ("my__function", []),
    ],
)
def test_a_function_name_in_bccs_convention_determines_where_it_attaches(function, place):
    assert own_place(function) == place


def test_bindings_name_a_function_and_can_have_several_places():
    words = ["f=uprobe:libc:malloc", "f=uprobe:libc:calloc", "g=uprobe:/a=b.so:x"]
    assert parse_bindings(words) == {"f": ["uprobe:libc:malloc", "uprobe:libc:calloc"], "g": ["uprobe:/a=b.so:x"]}


@pytest.mark.parametrize("word", ["uprobe:libc:malloc", "=uprobe:libc:malloc", "f=", "1f=kprobe:x", "f g=kprobe:x"])
def test_a_word_that_binds_no_function_is_rejected(word):
    with raises("program.no-function-for-probe", ProbeError):
        parse_bindings([word])
