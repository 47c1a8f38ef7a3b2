"""Instructions are decoded as objdump does, and moved ones do what the original ones do, for whole libraries."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.patching import decode, recipes
from accel_magic.patching.decode import UnmovableError
from accel_magic.patching.recipes import NotPatchableError
from accel_magic.probes.libraries import mapped_files

pytestmark = pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")

_LINE = re.compile(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(.*)")
LIBRARIES = [
    "libc.so",
    *(pytest.param(name, marks=pytest.mark.thorough) for name in ("libstdc++", "libm.so", "_multiarray_umath")),
]
_PLACE = 0x10000000
_STRIDE = 256


def mapped(*beginnings):
    """Files of this process whose name begins so."""
    import numpy  # noqa: F401, ICN001 - its libraries

    return [path for path in mapped_files(os.getpid()) if path.name.startswith(beginnings)]


def disassembled(path, *flags):
    """Address, bytes and text of each instruction."""
    done = subprocess.run(["objdump", "-d", "-w", *flags, path], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if found := _LINE.match(line):
            address, data, text = found.groups()
            yield int(address, 16), bytes.fromhex(data), text.strip()


@pytest.mark.component
@pytest.mark.parametrize("name", LIBRARIES)
def test_lengths_and_targets_are_those_of_objdump(name):
    paths = mapped(name)
    if not paths:
        pytest.skip(f"{name} is not loaded")
    wrong, known = [], 0
    for address, data, text in disassembled(paths[0], "--section=.text"):
        if (
            "(bad)" in text
            or ".byte" in text
            or text.startswith(("fstcw", "fstsw", "fsave", "fstenv", "finit", "fclex"))
        ):
            continue  # those are two instructions: fwait comes first
        try:
            found = decode.decode(data + b"\x90" * decode.LONGEST)
        except UnmovableError:
            continue
        known += 1
        target = f"{(address + len(data) + found.target) & (1 << 64) - 1:x}"
        if len(found.data) != len(data) or (found.flow in ("branch", "jump", "call") and target not in text):
            wrong.append((hex(address), data.hex(), text))

    assert wrong == []
    assert known > 50_000


def normal(text):
    """An instruction without what differs by its length or place: symbols, and the distance to an operand."""
    text = re.sub(r"\s*<[^>]*>", "", text)
    text = re.sub(r"-?0x[0-9a-f]+\(%rip\)(.*?)\s+# (?:0x)?([0-9a-f]+).*", r"[\2]\1", text)
    text = re.sub(r"^(j\w+|call)(\s+)0x", r"\1\2", text)
    return re.sub(r"\s+", " ", text).strip()


@pytest.mark.component
@pytest.mark.parametrize("name", LIBRARIES)
def test_moved_instructions_are_the_original_ones(name, tmp_path):
    paths = mapped(name)
    if not paths:
        pytest.skip(f"{name} is not loaded")
    (path, *_) = paths
    file = recipes.code_file(path)
    originals = {address: (data, normal(text)) for address, data, text in disassembled(path)}
    blob, moved_at, refused = bytearray(), [], 0
    for offset in file.starts:
        try:
            address, moved = file.recipe(offset, ("f",), returns=False)
        except NotPatchableError:
            refused += 1
            continue
        place = _PLACE + len(blob)
        code = bytearray(moved.code)
        for fixup in moved.fixups:
            value = fixup.target - (place + fixup.end) if fixup.end else fixup.target >> (32 if fixup.upper else 0)
            code[fixup.at : fixup.at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")
        moved_at.append((address, moved, place))
        blob += code.ljust(_STRIDE, b"\x90")
    (tmp_path / "moved").write_bytes(blob)
    copies = {
        address: (data, normal(text))
        for address, data, text in disassembled(
            tmp_path / "moved", "-b", "binary", "-m", "i386:x86-64", "-D", f"--adjust-vma={_PLACE:#x}"
        )
    }

    wrong = [found for row in moved_at for found in differences(*row, originals, copies)]
    assert wrong == []
    assert len(moved_at) > 500
    assert refused < 0.1 * len(file.starts)


def differences(address, moved, place, originals, copies):
    """Instructions of a function that differ from those that were moved to a place."""
    at, here = address, place
    while at < address + moved.size:
        data, text = originals[at]
        if text.startswith("call"):
            if not is_call(here, at + len(data), text, copies):
                yield hex(address), text
            return
        if copies[here][1] != text:
            yield hex(address), text, copies[here][1]
        at, here = at + len(data), here + len(copies[here][0])
        if text.startswith(("jmp", "ret")):
            return
    if copies[here][1] != f"jmp {address + moved.size:x}":
        yield hex(address), "jump back", copies[here][1]


def is_call(here, following, text, copies):
    """Whether the code pushes the address of the following instruction and jumps to where the call leads."""
    low, high, target = (copies[here + at][1] for at in (6, 13, 21))
    return (
        low.endswith(f"$0x{following & 0xFFFFFFFF:x},(%rsp)")
        and high.endswith(f"$0x{following >> 32:x},0x4(%rsp)")
        and target.removeprefix("jmp") == text.removeprefix("call")
    )


UNREPEATABLE = re.compile(r"(rep\w* |lock |syscall|int |int3|cpuid|rd\w+ |rd\w+$|xgetbv|hlt|in |out |ud2|bt[src] )")
COMPARES = ("cmp", "test", "ucomi", "comi", "push", "call", "jmp", "nop", "prefetch", "bt ")


def changes_memory_of_all(text):
    """Whether an instruction does not do the same each time, or changes variables of its library or its thread."""
    *_, last = text.partition("#")[0].strip().rsplit(",", 1) if "(" not in text else [text.partition("#")[0].strip()]
    stores = last.endswith("(%rip)") or re.search(r"%fs:\S*$", last)
    return bool(UNREPEATABLE.match(text) or (stores and not text.startswith(COMPARES)))


@pytest.mark.component
@pytest.mark.parametrize("name", LIBRARIES)
def test_moved_instructions_do_what_the_original_ones_do(name, tmp_path, libraries):
    """On random registers, of which many point to memory: registers, flags, memory, stack, and where they lead."""
    paths = mapped(name)
    if not paths:
        pytest.skip(f"{name} is not loaded")
    left_out = tmp_path / "left_out"
    left_out.write_text(
        json.dumps([address for address, _, text in disassembled(paths[0]) if changes_memory_of_all(text)])
    )
    command = [sys.executable, Path(__file__).with_name("executes_all.py"), libraries[0], paths[0], left_out]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
    executed, moved, different = json.loads(done.stdout)

    assert different == {}
    assert executed > 500
    assert moved > 0.8 * executed


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (bytes.fromhex("c3554889e5"), "it is shorter than a jump"),
        (bytes.fromhex("e8000000004889e5"), ""),
        (bytes.fromhex("ebfe9090909090"), ""),
        (bytes.fromhex("55ff14249090"), "a call"),
        (bytes.fromhex("e2fe9090909090"), "instruction e2"),
        (bytes.fromhex("c7f8000000009090"), "xbegin"),
        (bytes.fromhex("4531"), "its code ends"),
        (bytes.fromhex("7501909090909090"), "it branches into its first bytes"),
    ],
)
def test_what_cannot_be_moved_is_refused(code, why):
    def moved():
        return decode.move(decode.displaced(code), 0x1000)

    if not why:
        assert moved().code
        return
    with pytest.raises(UnmovableError) as caught:
        moved()
    assert str(caught.value)
