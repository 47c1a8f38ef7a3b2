"""Functions that programs share stand behind the code of each that calls them, and calls lead there."""

import re
import struct

from accel_magic.kernel.bcc.compiler import bpf_folder
from accel_magic.kernel.load import shared_functions
from accel_magic.kernel.load.shared_functions import NAMES, join

HEADERS = {path.name: path.read_text(encoding="utf-8") for path in (bpf_folder() / "kernel").iterdir()}


def instruction(code, registers=0, offset=0, immediate=0):
    return struct.pack("<BBhi", code, registers, offset, immediate)


def call(number):
    return instruction(0x85, 0, 0, 0x414E0000 + number)


def address_of(number):
    """R2 = a step, as bpf_pseudo_fd(4, ...) makes it."""
    return instruction(0x18, 2 | 4 << 4, 0, 0x414E0000 + number) + instruction(0)


def lines(code):
    return list(struct.iter_unpack("<BBhi", code))


HELPER = instruction(0x85, 0, 0, 14)
EXIT = instruction(0x95)


def test_each_function_that_is_called_stands_behind_once_and_every_call_leads_to_its_start():
    codes = {
        "am_plain_0": HELPER + call(1) + call(3) + call(1) + EXIT,
        "am_plain_1": call(3) + EXIT,
        NAMES[1]: address_of(2) + EXIT,
        NAMES[2]: EXIT,
        NAMES[3]: HELPER + address_of(2) + call(1) + EXIT,
        NAMES[4]: call(1) + EXIT,
    }

    joined = join("am_plain_0", codes)

    assert joined.starts == {"am_plain_0": 0, NAMES[1]: 5, NAMES[3]: 8, NAMES[2]: 13}
    pseudo_call, pseudo_function = 0x10, 0x42
    assert lines(joined.code) == [
        (0x85, 0, 0, 14),
        (0x85, pseudo_call, 0, 3),  # to 5
        (0x85, pseudo_call, 0, 5),  # to 8
        (0x85, pseudo_call, 0, 1),  # to 5
        (0x95, 0, 0, 0),
        (0x18, pseudo_function, 0, 7),  # to 13
        (0, 0, 0, 0),
        (0x95, 0, 0, 0),
        (0x85, 0, 0, 14),
        (0x18, pseudo_function, 0, 3),  # to 13
        (0, 0, 0, 0),
        (0x85, pseudo_call, 0, -7),  # to 5
        (0x95, 0, 0, 0),
        (0x95, 0, 0, 0),
    ]
    assert join("am_plain_1", codes).starts == {"am_plain_1": 0, NAMES[3]: 2, NAMES[2]: 7, NAMES[1]: 8}


def test_a_program_that_calls_none_and_constants_that_look_like_calls_stay_as_they_are():
    constant = instruction(0x18, 1, 0, 0x414E0001) + instruction(0, 0, 0, struct.unpack("<i", b"\x85\0\0\0")[0])
    code = HELPER + constant + instruction(0xB7, 1, 0, 0x414E0001) + EXIT

    assert join("am_plain_0", {"am_plain_0": code}) == shared_functions.Joined(code, {"am_plain_0": 0})


def test_numbers_are_those_of_the_headers():
    text = "\n".join(HEADERS.values())
    numbers = dict(re.findall(r"#define (AM_DO_\w+) (\d+)", text))
    called = re.findall(r"\(\*am_call_(\w+)\)\([^;]*AM_FUNCTION\((AM_DO_\w+)\)", text)
    steps = re.findall(r"AM_(?:REPEAT|FOR_EACH)\([^,]+, am_(\w+), (AM_DO_\w+),", text)

    assert {int(numbers[number]): f"am_{name}" for name, number in called + steps} == NAMES
    assert set(re.findall(r"AM_(?:SHARED\(\w+, |STEP\()(am_\w+)\)\(", text)) == set(NAMES.values())


def test_no_program_calls_the_helpers_for_which_bcc_reads_all_symbols_of_the_kernel():
    calling = [name for name, text in HEADERS.items() if re.search(r"\bbpf_probe_read_user(_str)?\s*\(", text)]

    assert calling == []
