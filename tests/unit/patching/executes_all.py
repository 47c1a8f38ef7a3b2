"""Execute the first instructions of all functions of a library, where they are and moved: `LIBWORK LIBRARY ADDRESSES`.

Answers with the number of functions, of those that were moved, and what differs in some. Functions with one of the
addresses, a file of JSON, are left out.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np

from accel_magic import trace
from accel_magic.patching import patched_functions, recipes
from accel_magic.patching.recipes import NotPatchableError

LONGEST, ROUNDS, RSP, BELOW = 3000, 3, 15, 256
STATE = np.dtype(
    [
        ("registers", np.uint64, 16),
        *((name, np.uint64) for name in ("flags", "place", "signal", "data")),
        ("stack", np.uint8, 2 * BELOW),
    ]
)
NO_FLAGS, ALL_FLAGS = 0x2, 0x8D7
WORK = ctypes.CDLL(sys.argv[1])
WORK.executes.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
WORK.executes_begin.argtypes = [ctypes.c_void_p]
beginning = np.zeros((), STATE)
WORK.executes_begin(beginning.ctypes.data)
random = np.random.default_rng(5)


def code_mappings():
    """Files of mappings of code, by their begin and end."""
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    return {tuple(int(end, 16) for end in row[0].split("-")): row[-1] for row in rows if row[1] == "r-xp"}


def random_state():
    """Registers, of which many point to memory."""
    state = beginning.copy()
    registers = random.integers(0, 1 << 63, 16, np.uint64)
    pointers = random.random(16) < 0.7
    registers[pointers] = beginning["registers"][0] + random.integers(0, 256, 16, np.uint64)[pointers] * np.uint64(8)
    registers[RSP] = beginning["registers"][RSP]
    state["registers"] = registers
    return state


def outcome(before, place, ranges, flags=NO_FLAGS):
    """Execute from a place until the ranges are left; None: they are not."""
    after, where = before.copy(), np.array(ranges, np.uint64)
    after["flags"] = flags
    return after if WORK.executes(place, where.ctypes.data, len(where), LONGEST, after.ctypes.data) else None


def originals_of(case, of_case):
    """What the original instructions do with each state, without and with all flags."""
    place, size, _ = case
    return [
        [outcome(state, place, [(place, place + size)], flags) for flags in (NO_FLAGS, ALL_FLAGS)] for state in of_case
    ]


def differences(before, originals, copy):
    """Names of what differs. What original instructions leave alone below rsp, and flags, need not be kept."""
    original, with_all_flags = originals
    if original is None or copy is None:
        return ["end"]
    found = [name for name in ("registers", "place", "signal", "data") if (original[name] != copy[name]).any()]
    set_by_them = ~(original["flags"] ^ with_all_flags["flags"])
    if (original["flags"] ^ copy["flags"]) & set_by_them:
        found.append("flags")
    written = (original["stack"] != before["stack"]) | (np.arange(2 * BELOW) >= BELOW)
    if (original["stack"] != copy["stack"])[written].any():
        found.append("stack")
    return found


def functions(code):
    """Place, size and address of each function that can be moved."""
    file = recipes.code_file(path)
    for offset in file.starts:
        try:
            address, moved = file.recipe(offset, ("f",), returns=False)
        except NotPatchableError:
            continue
        yield code.start + offset - code.offset, moved.size, address


loaded, path = ctypes.CDLL(sys.argv[2]), Path(sys.argv[2])
code = patched_functions.own_code()[path]
left_out = set(json.loads(Path(sys.argv[3]).read_text()))
cases = [case for case in functions(code) if not left_out.intersection(range(case[2], case[2] + case[1]))]
states = [[random_state() for _ in range(ROUNDS)] for _ in cases]
originals = [originals_of(*case) for case in zip(cases, states, strict=True)]
known, different = code_mappings(), {}
with trace(f"uprobe:{path}:*", uprobes="patched", mode="count") as t:
    ours = [
        ends
        for ends, name in code_mappings().items()
        if "patching" in name or (ends not in known and not code.start <= ends[0] < code.end)
    ]
    copies = [
        [outcome(state, place, [(place, place + size), *ours]) for state in of_case]
        for (place, size, _), of_case in zip(cases, states, strict=True)
    ]
    moved = [ctypes.string_at(place, 1) == b"\xe9" for place, _, _ in cases]
for at in np.flatnonzero(moved).tolist():
    names = [*map(differences, states[at], originals[at], copies[at])]
    unchanged = not any(
        map(differences, states[at], originals[at], [both[0] for both in originals_of(cases[at], states[at])])
    )
    if any(names) and unchanged:  # else it reads a variable that has changed meanwhile
        different[hex(cases[at][2])] = names
print(json.dumps([len(cases), sum(moved), dict(list(different.items())[:20])]))
