"""Offsets of time namespaces, read from a fake /proc."""

import pytest

from accel_magic.kernel.clock import Shift, shift

INITIAL, OTHER, THIRD = "time:[4026531834]", "time:[4026532177]", "time:[4026532178]"


@pytest.fixture
def proc(tmp_path):
    def make(own, children, offsets):
        (tmp_path / "self/ns").mkdir(parents=True)
        for name, target in (("time", own), ("time_for_children", children)):
            if target:
                (tmp_path / "self/ns" / name).symlink_to(target)
        if offsets:
            (tmp_path / "self/timens_offsets").write_text(offsets)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("own", "children", "offsets", "expected"),
    [
        (None, None, "", 0),  # a kernel without time namespaces
        (INITIAL, INITIAL, "monotonic           0         0\nboottime            0         0\n", 0),
        (INITIAL, OTHER, "monotonic        5000         0\nboottime            0         0\n", 0),
        (OTHER, OTHER, "monotonic        5000        17\nboottime            0         0\n", 5_000_000_000_017),
        # -2 s and 500,000,000 ns: the kernel keeps the nanoseconds positive.
        (OTHER, OTHER, "monotonic          -2 500000000\nboottime            9         0\n", -1_500_000_000),
        (OTHER, OTHER, "1 7 3\n7 0 0\n", 7_000_000_003),  # before Linux 5.7
    ],
)
def test_the_namespaces_offset_is_read(proc, own, children, offsets, expected):
    assert shift(proc(own, children, offsets)) == Shift(expected)


@pytest.mark.parametrize(("children", "offsets"), [(THIRD, "monotonic 5 0\nboottime 0 0\n"), (OTHER, "")])
def test_an_unreadable_offset_adds_a_note(proc, children, offsets):
    found = shift(proc(OTHER, children, offsets))

    assert found.ns == 0
    assert "time namespace" in found.notes[0]
