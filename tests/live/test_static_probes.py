"""Static probes (USDT) of a program with handwritten notes."""

import pytest

from accel_magic import trace

pytestmark = pytest.mark.live


def test_visits_are_counted_with_their_arguments_while_the_semaphore_is_up(build, run, hits_of):
    program = build("places")

    with trace(f"usdt:{program}:places:*") as t:
        told = run(program, 40)

    assert (
        hits_of(t.result)
        == {"places:visit": told["visit"], "places:plain": told["plain"]}
        == {
            "places:visit": 40,
            "places:plain": 10,
        }
    )
    assert told["up"] == 40
    visits = t.result.events.query("function == 'places:visit'")
    assert visits["arg0"].tolist() == [-i for i in range(40)]
    assert visits["arg1"].tolist() == [2**40 + i for i in range(40)]
    assert visits["arg2"].tolist() == [42] * 40
    assert t.result.events.query("function == 'places:plain'")["arg0"].isna().all()
    assert run(program, 40)["up"] == 0  # and down again afterwards


def test_arguments_can_be_renamed_and_filtered(build, run):
    program = build("places")

    with trace(f"usdt:{program}:places:visit", args="large=arg1:u64", filter="arg0 < -30 and arg2 == 42") as t:
        run(program, 40)

    assert t.result.hits == 9
    assert t.result.events["large"].tolist() == [2**40 + i for i in range(31, 40)]
    assert t.result.events["arg0"].tolist() == [-i for i in range(31, 40)]


def test_the_c_librarys_static_probes_are_found_by_its_name(python):
    script = """
import accel_magic, ctypes
jump = ctypes.CDLL(None)
try:
    with accel_magic.trace("usdt:libc:libc:setjmp") as t:
        buffer = ctypes.create_string_buffer(512)
        for _ in range(5): jump._setjmp(buffer)
    print(t.result.hits)
except accel_magic.ProbeError as error:
    print("none", error)
"""
    printed = python(script)
    if printed.startswith("none"):
        pytest.skip(f"this C library has no static probes: {printed}")
    assert printed.split() == ["5"]
